// SPDX-License-Identifier: BSD-3-Clause
// statistics.cpp: counting calls, and the words and JSON for it. It knows no backend and no clock.
#include "core/statistics.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/json_text.hpp"
#include "core/output.hpp"
#include "plan/plan.hpp"
#include "problem/signature.hpp"

namespace fleet {
namespace {

char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

std::string scalar_text(std::complex<double> value, DataType type) {
  if (!is_complex(type.storage)) return exact(value.real());
  return "(" + exact(value.real()) + "," + exact(value.imag()) + ")";
}

void write_kinds(JsonText& json, const std::array<std::int64_t, kLinkKinds>& bytes) {
  json.key("bytes_by_kind").open('{');
  for (int kind = 0; kind < kLinkKinds; ++kind)
    json.member(to_string(static_cast<LinkKind>(kind)), bytes[static_cast<std::size_t>(kind)]);
  json.close('}');
}

void write_links(JsonText& json, const std::map<std::string, std::int64_t>& bytes) {
  json.key("bytes_by_link").open('{');
  for (const auto& [link, count] : bytes) json.member(link, count);
  json.close('}');
}

void write_flags(JsonText& json, const CallRecord& record) {
  if (record.factoring) {
    if (record.factoring == Factoring::potrf)
      json.member("uplo", record.uplo == Uplo::lower ? "l" : "u");
    return;
  }
  const RoutineTraits& traits = traits_of(record.routine);
  if (traits.has_side()) json.member("side", record.side == Side::left ? "l" : "r");
  if (record.routine != Routine::gemm) json.member("uplo", record.uplo == Uplo::lower ? "l" : "u");
  if (traits.triangular) json.member("diag", record.diag == Diag::non_unit ? "n" : "u");
  json.member("transa", std::string(1, letter_of(record.op_a)))
      .member("transb", std::string(1, letter_of(record.op_b)));
}

void write_record(JsonText& json, const CallRecord& record) {
  json.open('{')
      .member("symbol", record.symbol)
      .member("routine",
              record.factoring ? word_of(*record.factoring) : traits_of(record.routine).word)
      .member("type", word_of(record.type))
      .member("m", record.m)
      .member("n", record.n)
      .member("k", record.k)
      .member("batch", record.batch);
  write_flags(json, record);
  json.member("place", record.place)
      .member("where", to_string(record.ran))
      .member("reason", record.reason)
      .member("detail", record.detail)
      .member("workers", record.workers)
      .member("cpu_share", record.cpu_share)
      .member("tile", record.tile)
      .member("seconds", record.seconds)
      .member("prepare_s", record.prepare_s)
      .member("plan_s", record.plan_s)
      .member("predicted_s", record.predicted_s)
      .member("corrected", record.corrections != nullptr ? largest(*record.corrections) : 1.0)
      .member("status", to_string(record.status));
  json.key("phases").open('{');
  for (const Phase& phase : record.phases) json.member(phase.name, phase.seconds);
  json.close('}');
  write_links(json, record.bytes_by_link);
  write_kinds(json, record.bytes_by_kind);
  json.close('}');
}

}  // namespace

const char* to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::host_to_device:
      return "h2d";
    case LinkKind::device_to_device:
      return "p2p";
    case LinkKind::device_to_host:
      return "d2h";
    case LinkKind::host_to_host:
      return "h2h";
  }
  return "unknown";
}

LinkKind kind_of(const Link& link) {
  if (on_host(link.source))
    return on_host(link.target) ? LinkKind::host_to_host : LinkKind::host_to_device;
  return on_host(link.target) ? LinkKind::device_to_host : LinkKind::device_to_device;
}

const char* to_string(Ran ran) {
  switch (ran) {
    case Ran::devices:
      return "devices";
    case Ran::cpu:
      return "cpu";
    case Ran::nowhere:
      return "nowhere";
  }
  return "unknown";
}

double flops_of(const CallRecord& record) {
  if (!record.factoring) return flops(record);
  return flops(Factorization{
      .routine = *record.factoring, .storage = record.type.storage, .m = record.m, .n = record.n});
}

void add_bytes(CallRecord& record, const Machine& machine, const std::vector<std::int64_t>& bytes) {
  for (std::size_t link = 0; link < bytes.size(); ++link) {
    if (bytes[link] == 0) continue;
    record.bytes_by_link[link_name(machine, static_cast<LinkId>(link))] += bytes[link];
    const auto kind = static_cast<std::size_t>(kind_of(machine.links[link]));
    record.bytes_by_kind[kind] += bytes[link];
  }
}

namespace {

std::string word_of(const CallRecord& r, const NamedArg& argument) {
  switch (argument.arg) {
    case Arg::side:
      return r.side == Side::left ? "L" : "R";
    case Arg::uplo:
      return r.uplo == Uplo::lower ? "L" : "U";
    case Arg::diag:
      return r.diag == Diag::non_unit ? "N" : "U";
    case Arg::transa:
      return {upper(letter_of(r.op_a))};
    case Arg::transb:
      return {upper(letter_of(r.op_b))};
    case Arg::m:
      return std::to_string(r.m);
    case Arg::n:
      return std::to_string(r.n);
    case Arg::k:
      return std::to_string(r.k);
    case Arg::alpha:
      return scalar_text(r.alpha, r.type);
    case Arg::beta:
      return scalar_text(r.beta, r.type);
    case Arg::lda:
      return std::to_string(r.ld[kA]);
    case Arg::ldb:
      return std::to_string(r.ld[kB]);
    case Arg::ldc:
      return std::to_string(r.ld[kC]);
    default: {  // an operand: "A", but "x" where it is a vector
      const bool is_matrix = argument.name[0] <= 'c';
      return {is_matrix ? upper(argument.name[0]) : argument.name[0]};
    }
  }
}

/// "N,N,m,n,k,alpha,A,lda,B,ldb,beta,C,ldc".
std::string arguments_of(const CallRecord& r) {
  if (r.factoring) {
    const std::string first = r.factoring != Factoring::potrf ? std::to_string(r.m)
                              : r.uplo == Uplo::lower         ? "L"
                                                              : "U";
    return first + "," + std::to_string(r.n) + ",A," + std::to_string(r.ld[kA]);
  }
  std::string text;
  for (const NamedArg& argument : signature_of(r.routine)) {
    if (r.routine == Routine::dot && argument.arg == Arg::c) continue;  // the result
    text += (text.empty() ? "" : ",") + word_of(r, argument);
  }
  return text;
}

}  // namespace

std::string verbose_line(const CallRecord& r) {
  const auto gigabytes = [&](LinkKind kind) {
    return number(static_cast<double>(r.bytes_by_kind[static_cast<std::size_t>(kind)]) * 1e-9);
  };
  // No symbol names these types.
  const bool unnamed = is_half(r.type.storage) || r.type == DataType::tf32;
  std::string text = std::string(r.symbol) + (unnamed ? std::string(":") + word_of(r.type) : "") +
                     "(" + arguments_of(r) + ")";
  if (r.batch != 1) text += "x" + std::to_string(r.batch);
  text += " " + duration(r.seconds);
  if (r.ran == Ran::devices) {
    if (r.plan_s > 0) text += " (" + duration(r.prepare_s) + " to prepare)";
    text += " predicted " + duration(r.predicted_s);
    if (r.corrections != nullptr) text += " (corrected x" + number(largest(*r.corrections)) + ")";
  }
  text += " gpus:" + std::to_string(r.workers);
  if (r.cpu_share > 0) text += " cpu:" + number(r.cpu_share);
  text += " tile:" + std::to_string(r.tile) + " " + gigabytes(LinkKind::host_to_device) + "/" +
          gigabytes(LinkKind::device_to_device) + "/" + gigabytes(LinkKind::device_to_host) +
          "GB h2d/p2p/d2h";
  const double rate = r.seconds > 0 ? flops_of(r) / r.seconds * 1e-12 : 0;
  text += " " + number(rate) + "TFLOPS " + to_string(r.ran) + " (" + r.reason;
  if (!r.detail.empty()) text += ": " + r.detail;
  text += ")";
  const char* separator = " started: ";
  for (const Phase& phase : r.phases) {
    text += separator + phase.name + " " + duration(phase.seconds);
    separator = ", ";
  }
  if (r.status != Status::ok) text += std::string(" ") + to_string(r.status);
  return text;
}

std::string verbose_line(const LapackRecord& r) {
  const double rate = r.seconds > 0 ? r.flops / r.seconds * 1e-12 : 0;
  return std::string(r.symbol) + " " + duration(r.seconds) + " " + number(rate) + "TFLOPS " +
         (r.reason != nullptr ? std::string("by the LAPACK behind (") + r.reason + ")"
                              : std::string("by its parts"));
}

void Statistics::Tally::add(const Tally& other) {
  calls += other.calls;
  seconds += other.seconds;
  flops += other.flops;
}

Statistics::Tally& Statistics::tally_of(Ran ran, const char* reason) {
  for (Group& group : where_and_why_)
    if (group.ran == ran && group.reason == reason) return group.tally;
  return where_and_why_.emplace_back(Group{ran, reason}).tally;
}

Statistics::Tally Statistics::total() const {
  Tally sum;
  for (const Group& group : where_and_why_) sum.add(group.tally);
  return sum;
}

std::map<std::pair<Ran, std::string>, Statistics::Tally> Statistics::sorted() const {
  std::map<std::pair<Ran, std::string>, Tally> sums;
  for (const Group& group : where_and_why_) sums[{group.ran, group.reason}].add(group.tally);
  return sums;
}

void Statistics::add(CallRecord&& record) {
  const Tally one{.calls = 1, .seconds = record.seconds, .flops = flops_of(record)};
  tally_of(record.ran, record.reason).add(one);
  failed_ += record.status == Status::ok ? 0 : 1;
  planned_ahead_ += record.is_planned_ahead ? 1 : 0;
  at_once_ += record.is_at_once ? 1 : 0;
  add_bytes(record);
  if (record.cpu_share > 0) {
    ++beside_.calls;
    beside_.flops += one.flops;
    beside_.cpu_flops += record.cpu_share * one.flops;
  }
  if (record.left_out != nullptr)
    for (const LeftOut& left : *record.left_out) {
      Idle& idle = left_out_[left.device];
      ++idle.calls;
      idle.last = record.left_out;
    }
  if (record.workers > 0) corrections_ = record.corrections;
  last_ = std::move(record);
  last_is_on_cpu_ = false;
}

void Statistics::add_bytes(const CallRecord& record) {
  for (const auto& [link, bytes] : record.bytes_by_link) bytes_by_link_[link] += bytes;
  for (std::size_t kind = 0; kind < kLinkKinds; ++kind)
    bytes_by_kind_[kind] += record.bytes_by_kind[kind];
}

void Statistics::add_on_cpu(const char* symbol, const CallShape& shape, const char* reason,
                            double seconds) {
  tally_of(Ran::cpu, reason).add({.calls = 1, .seconds = seconds, .flops = flops(shape)});
  if (!last_is_on_cpu_) {
    last_ = CallRecord{};
    last_.place = "p,p,p";
    last_.ran = Ran::cpu;
    last_is_on_cpu_ = true;
  }
  static_cast<CallShape&>(last_) = shape;
  last_.factoring.reset();
  last_.symbol = symbol;
  last_.reason = reason;
  last_.seconds = seconds;
}

void Statistics::add(const LapackRecord& record) {
  const Tally one{.calls = 1, .seconds = record.seconds, .flops = record.flops};
  Lapack& lapack = lapack_[record.symbol];
  lapack.all.add(one);
  if (record.reason == nullptr) return;
  ++lapack.behind;
  tally_of(Ran::cpu, record.reason).add(one);
}

void Statistics::merge(const Statistics& other) {
  for (const auto& [symbol, theirs] : other.lapack_) {
    lapack_[symbol].all.add(theirs.all);
    lapack_[symbol].behind += theirs.behind;
  }
  if (other.where_and_why_.empty()) return;
  failed_ += other.failed_;
  planned_ahead_ += other.planned_ahead_;
  at_once_ += other.at_once_;
  for (const Group& group : other.where_and_why_)
    tally_of(group.ran, group.reason).add(group.tally);
  for (const auto& [link, bytes] : other.bytes_by_link_) bytes_by_link_[link] += bytes;
  for (std::size_t kind = 0; kind < kLinkKinds; ++kind)
    bytes_by_kind_[kind] += other.bytes_by_kind_[kind];
  for (const auto& [device, theirs] : other.left_out_) {
    Idle& idle = left_out_[device];
    idle.calls += theirs.calls;
    idle.last = theirs.last;
  }
  if (other.corrections_ != nullptr) corrections_ = other.corrections_;
  beside_.calls += other.beside_.calls;
  beside_.flops += other.beside_.flops;
  beside_.cpu_flops += other.beside_.cpu_flops;
  last_ = other.last_;
  last_is_on_cpu_ = other.last_is_on_cpu_;
}

const std::string& Statistics::why(int device, const Idle& idle) {
  return std::ranges::find(*idle.last, device, &LeftOut::device)->why;
}

std::string Statistics::json(const PoolCounters& pool) const {
  const Tally all = total();
  JsonText json;
  json.open('{')
      .member("calls", all.calls)
      .member("failed", failed_)
      .member("planned_ahead", planned_ahead_)
      .member("at_once", at_once_)
      .member("seconds", all.seconds)
      .member("flops", all.flops)
      .key("ran")
      .open('[');
  for (const auto& [key, tally] : sorted())
    json.open('{')
        .member("where", to_string(key.first))
        .member("reason", key.second)
        .member("calls", tally.calls)
        .member("seconds", tally.seconds)
        .member("flops", tally.flops)
        .close('}');
  json.close(']').key("left_out").open('[');
  for (const auto& [device, idle] : left_out_)
    json.open('{')
        .member("device", device)
        .member("calls", idle.calls)
        .member("why", why(device, idle))
        .close('}');
  json.close(']').key("cpu_beside").open('{').member("calls", beside_.calls);
  json.member("share", beside_.share()).close('}');
  json.key("lapack").open('[');
  for (const auto& [symbol, lapack] : lapack_)
    json.open('{')
        .member("symbol", symbol)
        .member("calls", lapack.all.calls)
        .member("behind", lapack.behind)
        .member("seconds", lapack.all.seconds)
        .member("flops", lapack.all.flops)
        .close('}');
  json.close(']');
  json.key("pool")
      .open('{')
      .member("blocks", pool.blocks)
      .member("given", pool.given)
      .member("reused", pool.reused)
      .member("pinned", pool.pinned)
      .member("beyond", pool.beyond)
      .close('}');
  write_corrections(json, corrections_ != nullptr ? *corrections_ : NamedCorrections{});
  write_kinds(json, bytes_by_kind_);
  write_links(json, bytes_by_link_);
  json.key("last");
  if (last_.symbol[0] == '\0')
    json.null();
  else
    write_record(json, last_);
  return json.close('}').text();
}

std::string Statistics::text(const PoolCounters& pool) const {
  const Tally all = total();
  std::string text = "fleetblas: " + std::to_string(all.calls) +
                     (all.calls == 1 ? " call" : " calls") + ", " + duration(all.seconds) +
                     " in all";
  if (all.seconds > 0) text += ", " + number(all.flops / all.seconds * 1e-9) + " GFLOPS";
  if (failed_ > 0) text += ", " + std::to_string(failed_) + " failed";
  text += "\n";
  for (const auto& [key, tally] : sorted())
    text += "fleetblas:   " + std::string(to_string(key.first)) + ": " +
            std::to_string(tally.calls) + " (" + key.second + "), " + duration(tally.seconds) +
            "\n";
  for (const auto& [symbol, lapack] : lapack_)
    text += "fleetblas:   " + symbol + ": " + std::to_string(lapack.all.calls) +
            (lapack.all.calls == 1 ? " call, " : " calls, ") + std::to_string(lapack.behind) +
            " by the LAPACK behind, " + duration(lapack.all.seconds) + "\n";
  for (const auto& [device, idle] : left_out_)
    text += "fleetblas:   without device " + std::to_string(device) + ": " +
            std::to_string(idle.calls) + (idle.calls == 1 ? " call" : " calls") + " (" +
            why(device, idle) + ")\n";
  if (corrections_ != nullptr)
    text += "fleetblas:   the model, corrected by runs: " + to_text(*corrections_) + "\n";
  if (beside_.calls > 0)
    text += "fleetblas:   the CPU beside the devices: " + number(100 * beside_.share()) +
            " % of the work of " + std::to_string(beside_.calls) +
            (beside_.calls == 1 ? " call\n" : " calls\n");
  const auto bytes = [](std::int64_t count) { return byte_count(static_cast<double>(count)); };
  if (pool.blocks > 0)
    text += "fleetblas:   large blocks: " + bytes(pool.given) + " in " +
            std::to_string(pool.blocks) + ", " + bytes(pool.reused) + " of it used again, " +
            bytes(pool.pinned) + " pinned, " + bytes(pool.beyond) + " left to malloc\n";
  text += "fleetblas:   moved";
  for (int kind = 0; kind < kLinkKinds; ++kind)
    text += std::string(kind == 0 ? " " : ", ") + to_string(static_cast<LinkKind>(kind)) + " " +
            byte_count(static_cast<double>(bytes_by_kind_[static_cast<std::size_t>(kind)]));
  return text + "\n";
}

}  // namespace fleet

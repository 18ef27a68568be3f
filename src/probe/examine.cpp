// SPDX-License-Identifier: BSD-3-Clause
// examine.cpp: sends patterns through memory and over links, and compares the data that arrives. It
// must not know clocks, nor what kind of backend it examines.
#include "probe/examine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "run/execute.hpp"

namespace fleet {
namespace {

using Verdict = Finding::Verdict;
using Pattern = std::vector<std::uint64_t>;

/// Edges of the tile that is sent: the first is large enough to take the data path of large copies;
/// the smaller ones are for devices with little memory.
constexpr std::int64_t kExaminedEdges[] = {512, 128, 32};
/// A link below this share of the rate of the fastest link of its kind is reported.
constexpr double kUneven = 0.6;

/// Distinct words that memory does not hold by chance.
Pattern pattern_of(std::int64_t words, std::uint64_t seed) {
  Pattern pattern(static_cast<std::size_t>(words));
  std::uint64_t state = seed + 1;
  for (std::uint64_t& word : pattern) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    // No word is a NaN, since a device might turn a signaling NaN into a quiet one.
    word = (mixed ^ (mixed >> 31)) & 0x3fffffffffffffffU;
  }
  return pattern;
}

/// A block of a backend's memory, freed at the end of its scope.
class Block {
 public:
  Block(Backend& backend, DeviceId location, std::int64_t bytes)
      : backend_(backend),
        location_(location),
        bytes_(bytes),
        data_(backend.allocate(location, bytes)) {}
  ~Block() { backend_.release(location_, data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* data() const { return data_; }
  void write(const Pattern& pattern) {
    // transfer() only reads its source; View has no const form.
    const View from = view(const_cast<std::uint64_t*>(pattern.data()));
    backend_.transfer(location_, view(data_), kPageable, from, 1);
  }
  Pattern read() const {
    Pattern pattern(static_cast<std::size_t>(bytes_) / sizeof(Pattern::value_type));
    backend_.transfer(kPageable, view(pattern.data()), location_, view(data_), 1);
    return pattern;
  }

 private:
  View view(void* data) const { return {.data = data, .rows = bytes_, .cols = 1, .ld = bytes_}; }

  Backend& backend_;
  DeviceId location_;
  std::int64_t bytes_;
  void* data_;
};

/// The way of a tile: from operand A at `home` into a slot at `via`, then into operand C at `back`.
struct Trip {
  DeviceId home, via, back;
};

std::optional<Plan> plan_of(const Machine& machine, const Trip& trip, std::int64_t edge) {
  const LinkId out = machine.find_link(trip.home, trip.via);
  const LinkId in = machine.find_link(trip.via, trip.back);
  if (out < 0 || in < 0) return std::nullopt;
  Plan plan;
  const Problem problem = make_problem({.type = DataType::f64, .m = edge, .n = edge, .k = edge},
                                       {.homes = {trip.home, kHost, trip.back}});
  const Cuts whole = {0, edge};
  plan.program = std::make_shared<const TileProgram>(expand(problem, {whole, whole, whole}));
  plan.tuning.tile = edge;
  const std::int64_t bytes = edge * edge * bytes_of(Storage::f64);
  plan.slots.resize(machine.devices.size());
  plan.arena_bytes.assign(machine.devices.size(), 0);
  plan.slots[index(trip.via)] = {{0, bytes}};
  plan.arena_bytes[index(trip.via)] = bytes;
  plan.queues = {{Queue::Kind::link, trip.via, trip.home, 0},
                 {Queue::Kind::link, trip.back, trip.via, 0}};
  plan.tasks = {{.kind = TaskKind::fetch,
                 .queue = 0,
                 .link = out,
                 .tile = {kA, 0, 0},
                 .from = {trip.home, -1},
                 .to = {trip.via, 0}},
                {.kind = TaskKind::writeback,
                 .queue = 1,
                 .link = in,
                 .tile = {kC, 0, 0},
                 .from = {trip.via, 0},
                 .to = {trip.back, -1},
                 .after_begin = 0,
                 .after_count = 1}};
  plan.after_pool = {0};
  return plan;
}

struct Outcome {
  enum class Kind { right, wrong, failed, no_memory, simulated } kind = Kind::right;
  std::string why = {};
};

/// Describes in words where two patterns differ.
std::string difference(const Pattern& sent, const Pattern& got) {
  const auto [from, to] = std::ranges::mismatch(sent, got);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) wrong += sent[i] != got[i] ? 1 : 0;
  return std::to_string(wrong) + " of " + std::to_string(sent.size()) +
         " numbers are wrong, the first at byte " +
         std::to_string((from - sent.begin()) * std::ptrdiff_t{sizeof(sent[0])});
}

template <typename Attempt>
Outcome with_smaller_tiles(Attempt&& attempt) {
  Outcome outcome{Outcome::Kind::no_memory, "not even a small tile fits into its memory"};
  for (const std::int64_t edge : kExaminedEdges) {
    try {
      return attempt(edge);
    } catch (const Error& error) {
      outcome = {
          error.status() == Status::no_memory ? Outcome::Kind::no_memory : Outcome::Kind::failed,
          error.what()};
      if (outcome.kind == Outcome::Kind::failed) break;
    }
  }
  return outcome;
}

Outcome send(Backend& backend, const Trip& trip) {
  return with_smaller_tiles([&](std::int64_t edge) -> Outcome {
    const auto plan = plan_of(backend.machine(), trip, edge);
    if (!plan) return {Outcome::Kind::failed, "there is no link for the way back"};
    const Pattern sent =
        pattern_of(edge * edge, static_cast<std::uint64_t>(trip.via * 64 + trip.home));
    const std::int64_t bytes = edge * edge * bytes_of(Storage::f64);
    Block from(backend, trip.home, bytes), to(backend, trip.back, bytes);
    from.write(sent);
    to.write(Pattern(sent.size(), 0));
    const Arguments arguments{.data = {from.data(), nullptr, to.data()}, .ld = {edge, edge, edge}};
    const Trace trace = execute(*plan, arguments, backend);
    if (trace.status == Status::no_memory) throw Error(trace.status, trace.message);
    if (trace.status != Status::ok) return {Outcome::Kind::failed, trace.message};
    if (trace.source == CostSource::simulated) return {Outcome::Kind::simulated};
    const Pattern got = to.read();
    if (got == sent) return {};
    return {Outcome::Kind::wrong, difference(sent, got)};
  });
}

Outcome keep(Backend& backend, DeviceId location) {
  return with_smaller_tiles([&](std::int64_t edge) -> Outcome {
    const Pattern sent = pattern_of(edge * edge, static_cast<std::uint64_t>(location));
    Block block(backend, location, edge * edge * bytes_of(Storage::f64));
    block.write(sent);
    const Pattern got = block.read();
    if (got == sent) return {};
    return {Outcome::Kind::wrong, difference(sent, got)};
  });
}

std::string rate_word(double bytes_per_s) {
  const auto tenths = std::llround(bytes_per_s / 1e8);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GB/s";
}

class Examination {
 public:
  Examination(Backend& backend, const Machine& measured)
      : backend_(backend), machine_(backend.machine()), measured_(measured) {}

  std::vector<Finding> run() {
    for (DeviceId d = kFirstDevice; d < end(); ++d) look_at_host_links(d);
    if (machine_.find_link(kPageable, kHost) >= 0 && machine_.find_link(kHost, kPageable) >= 0)
      note("pageable memory", send(backend_, {kPageable, kHost, kPageable}),
           "data comes through the pinned ring unchanged",
           "keep operands in pinned memory: fleet_alloc, fleet_host_register");
    for (DeviceId s = kFirstDevice; s < end(); ++s)
      for (DeviceId t = kFirstDevice; t < end(); ++t)
        if (s != t) look_at_pair(s, t);
    note_absent_pairs();
    note_uneven_links();
    return std::move(findings_);
  }

 private:
  DeviceId end() const { return static_cast<DeviceId>(machine_.devices.size()); }
  const std::string& name(DeviceId d) const { return machine_.devices[index(d)].name; }

  /// Memory gets a finding of its own only if it is at fault; the trip covers the rest.
  void look_at_host_links(DeviceId d) {
    const Outcome trip = send(backend_, {kHost, d, kHost});
    if (trip.kind == Outcome::Kind::simulated) {
      note("device " + name(d), trip, "", "");
      return;
    }
    const Outcome memory = keep(backend_, d);
    if (memory.kind != Outcome::Kind::right)
      note("device " + name(d), memory, "", "do not use it: FLEETBLAS_DEVICES names the others");
    note("device " + name(d), trip, "data to it and back unchanged",
         "do not use it: FLEETBLAS_DEVICES names the others");
  }

  void look_at_pair(DeviceId s, DeviceId t) {
    if (machine_.find_link(s, t) < 0) {
      absent_.push_back(name(s) + "->" + name(t));
      return;
    }
    note("link " + name(s) + "->" + name(t), send(backend_, {s, t, kHost}),
         "data from device to device unchanged",
         "turn off direct copies between these devices: the IOMMU or a switch changes them");
  }

  void note(const std::string& subject, const Outcome& outcome, const std::string& fine,
            const std::string& advice) {
    switch (outcome.kind) {
      case Outcome::Kind::right:
        findings_.push_back({subject, Verdict::ok, fine, ""});
        break;
      case Outcome::Kind::simulated:
        findings_.push_back({subject, Verdict::ok, "simulated: nothing to verify", ""});
        break;
      case Outcome::Kind::no_memory:
        findings_.push_back({subject, Verdict::broken, "no memory: " + outcome.why,
                             "free memory on it, or leave it out with FLEETBLAS_DEVICES"});
        break;
      case Outcome::Kind::wrong:
      case Outcome::Kind::failed:
        findings_.push_back({subject, Verdict::broken, outcome.why, advice});
        break;
    }
  }

  void note_absent_pairs() {
    if (absent_.empty()) return;
    constexpr std::size_t kNamed = 6;
    std::string names;
    for (std::size_t i = 0; i < std::min(kNamed, absent_.size()); ++i)
      names += (i > 0 ? ", " : "") + absent_[i];
    if (absent_.size() > kNamed)
      names += ", and " + std::to_string(absent_.size() - kNamed) + " more";
    findings_.push_back({"peer copies", Verdict::slow,
                         "no direct copies for " + std::to_string(absent_.size()) +
                             (absent_.size() == 1 ? " pair (" : " pairs (") + names +
                             "): data goes over the host",
                         "let devices reach each other: NVLink or one PCIe root, IOMMU off or in "
                         "passthrough, no FLEETBLAS_INJECT=nopeer"});
  }

  /// Links of one kind should be equally fast: a slow one is in a wrong slot, or shares a wire.
  void note_uneven_links() {
    std::map<std::array<int, 2>, double> best;
    const auto kind = [](const Link& link) {
      return std::array{place_kind(link.source), place_kind(link.target)};
    };
    for (const Link& link : measured_.links)
      best[kind(link)] = std::max(best[kind(link)], link.bytes_per_s);
    for (const Link& link : measured_.links)
      if (link.bytes_per_s < kUneven * best[kind(link)])
        findings_.push_back({"link " + name(link.source) + "->" + name(link.target), Verdict::slow,
                             rate_word(link.bytes_per_s) + " where the fastest of its kind has " +
                                 rate_word(best[kind(link)]),
                             "look at the slot, the lanes and the cables of the slower side"});
  }

  Backend& backend_;
  const Machine& machine_;
  const Machine& measured_;
  std::vector<std::string> absent_;
  std::vector<Finding> findings_;
};

}  // namespace

const char* to_string(Finding::Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::slow:
      return "slow";
    case Verdict::broken:
      return "broken";
  }
  return "unknown";
}

std::vector<Finding> examine_links(Backend& backend, const Machine& measured) {
  return Examination(backend, measured).run();
}

}  // namespace fleet

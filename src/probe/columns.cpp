// SPDX-License-Identifier: BSD-3-Clause
// columns.cpp: times copies of tiles with short and long columns beside products. It must not know
// what kind of backend it measures.
#include "probe/columns.hpp"

#include <cmath>
#include <span>
#include <string>

#include "probe/ports.hpp"
#include "probe/times.hpp"

namespace fleet {
namespace {

/// Column lengths that are measured, in doubles.
constexpr std::int64_t kRows[] = {512, 1024, 1280, 1536, 2048, 2816, 4096, 7168};
constexpr std::int64_t kCarefulRows[] = {256,  512,  768,  1024, 1152, 1280, 1408,
                                         1536, 1792, 2048, 2304, 2560, 2816, 3072,
                                         3328, 3584, 4096, 5120, 6144, 7168, 8192};
constexpr std::int64_t kNearRows[] = {512, 1024};
constexpr std::int64_t kCarefulNearRows[] = {256, 512, 1024, 2048};
constexpr std::int64_t kColumns = 1024;
/// Rows of the matrix: columns lie as far apart as it takes to be slow, or nearer.
constexpr std::int64_t kRowsApart = 16384;
constexpr std::int64_t kNearRowsApart = kNearColumns / bytes_of(Storage::f64);
static_assert(kRowsApart * bytes_of(Storage::f64) >= kFarColumns);
/// Column length with which contiguous columns are measured.
constexpr std::int64_t kWholeRows = 2048;
constexpr int kCopies = 6;
/// From this share of the rate of contiguous columns on, the difference is noise.
constexpr double kAsFast = 0.97;
constexpr int kFewKernels = 2, kManyKernels = 400;
constexpr char kPart[] = "columns";

std::span<const std::int64_t> rows_of(const ProbeSession& session) {
  if (session.careful()) return kCarefulRows;
  return kRows;
}

std::span<const std::int64_t> near_rows_of(const ProbeSession& session) {
  if (session.careful()) return kCarefulNearRows;
  return kNearRows;
}

const Link& link_of(const Machine& machine, LinkId id) {
  return machine.links[static_cast<std::size_t>(id)];
}

bool is_wire(const Machine& machine, LinkId id) {
  const Link& link = link_of(machine, id);
  return (!on_host(link.source) || !on_host(link.target)) &&
         std::ranges::none_of(link.ports,
                              [&](const PortShare& share) { return takes_thread(link, share); });
}

bool same_kind(const Machine& machine, LinkId one, LinkId other) {
  const Link &a = link_of(machine, one), &b = link_of(machine, other);
  return on_host(a.source) == on_host(b.source) && on_host(a.target) == on_host(b.target);
}

/// The first link of each kind: to devices, from devices, between devices.
std::vector<LinkId> representatives(const Machine& machine) {
  std::vector<LinkId> found;
  for (LinkId id = 0; id < static_cast<LinkId>(machine.links.size()); ++id)
    if (is_wire(machine, id) &&
        std::ranges::none_of(found, [&](LinkId known) { return same_kind(machine, known, id); }))
      found.push_back(id);
  return found;
}

/// The home of the matrix whose tiles the link moves.
DeviceId home_of(const Link& link) { return on_host(link.target) ? kHost : link.source; }

struct Beside {
  ProbePlan plan;
  std::vector<TaskId> copies, kernels;
};

Beside copies_beside(const Machine& machine, LinkId id, const ProbePlan::Columns& columns,
                     int kernels) {
  const Link& link = link_of(machine, id);
  Beside beside{.plan = ProbePlan(machine, DataType::f64, columns), .copies = {}, .kernels = {}};
  for (const DeviceId end : {link.source, link.target}) {
    if (on_host(end) || !machine.can_compute(end, DataType::f64)) continue;
    const std::vector<TaskId> ready = beside.plan.prime(end);
    for (int kernel = 0; kernel < kernels; ++kernel)
      beside.kernels.push_back(beside.plan.kernel(end, 0, Kernel::multiply, ready));
  }
  for (int copy = 0; copy < kCopies; ++copy) {
    const std::vector<TaskId> first = beside.kernels.empty() || copy > 0
                                          ? std::vector<TaskId>{}
                                          : std::vector<TaskId>{beside.kernels.front()};
    beside.copies.push_back(beside.plan.copy(id, first));
  }
  return beside;
}

double total_s(const Trace& trace, const std::vector<TaskId>& tasks) {
  return trace.spans[static_cast<std::size_t>(tasks.back())].stop_s -
         trace.spans[static_cast<std::size_t>(tasks.front())].start_s;
}

/// Seconds of a copy over this link beside `kernels` products. Empty if memory is too small.
std::vector<double> copy_s(const Machine& machine, LinkId id, const ProbePlan::Columns& columns,
                           int kernels, ProbeMemory& memory) {
  const Beside beside = copies_beside(machine, id, columns, kernels);
  const auto trace = memory.run(beside.plan);
  if (!trace) return {};
  return {usual(periods_s(*trace, beside.copies))};
}

/// The number of kernels that take longer than the copies; 0 if memory is too small.
int kernels_for(const Machine& machine, LinkId id, const ProbePlan::Columns& columns,
                ProbeMemory& memory) {
  const Beside few = copies_beside(machine, id, columns, kFewKernels);
  const auto trace = memory.run(few.plan);
  if (!trace || few.kernels.empty()) return 0;
  const double one_s = std::max(1e-9, total_s(*trace, few.kernels) / kFewKernels);
  const double needed = 1.3 * total_s(*trace, few.copies) / one_s;
  return static_cast<int>(std::clamp<double>(std::ceil(needed), kFewKernels, kManyKernels));
}

void measure_link(LinkId id, Machine& machine, ProbeMemory& memory, ProbeSession& session) {
  const Link& link = link_of(machine, id);
  const auto bytes_per_s = [&](ProbePlan::Columns columns) -> double {
    columns.home = home_of(link);
    const std::string name = "copy " + link_name(machine, id) + " beside products, " +
                             std::to_string(columns.rows) + " rows" +
                             (columns.rows_apart == 0            ? ", whole columns"
                              : columns.rows_apart == kRowsApart ? ""
                                                                 : ", near columns");
    const int kernels = kernels_for(machine, id, columns, memory);
    const std::vector<double> taken =
        session.repeated(name, "s", [&] { return copy_s(machine, id, columns, kernels, memory); });
    if (taken.empty() || !(taken.front() > link.latency_s)) return 0;
    const auto bytes = columns.rows * columns.columns * bytes_of(Storage::f64);
    return static_cast<double>(bytes) / (taken.front() - link.latency_s);
  };
  const double whole = bytes_per_s({.rows = kWholeRows, .columns = kColumns});
  if (whole <= 0) return;
  const auto shares = [&](std::span<const std::int64_t> lengths, std::int64_t rows_apart) {
    std::vector<ColumnRate> found;
    for (const std::int64_t rows : lengths) {
      const double rate = bytes_per_s({.rows = rows,
                                       .columns = kColumns,
                                       .rows_apart = rows_apart,
                                       .many = rows_apart == kNearRowsApart});
      if (rate <= 0) break;  // longer columns do not fit either
      found.push_back({rows * bytes_of(Storage::f64), std::min(1.0, rate / whole)});
    }
    return found;
  };
  std::vector<ColumnRate> far = shares(rows_of(session), kRowsApart), near;
  if (std::ranges::all_of(far, [](const ColumnRate& rate) { return rate.share > kAsFast; }))
    far.clear();
  else if (near = shares(near_rows_of(session), kNearRowsApart); !near.empty())
    near.push_back({kNearColumns, 1});  // as long as the distance, and so contiguous
  for (LinkId other = 0; other < static_cast<LinkId>(machine.links.size()); ++other)
    if (is_wire(machine, other) && same_kind(machine, id, other)) {
      machine.links[static_cast<std::size_t>(other)].columns = far;
      machine.links[static_cast<std::size_t>(other)].near_columns = near;
    }
}

}  // namespace

void measure_columns(Machine& machine, ProbeMemory& memory, ProbeSession& session) {
  const std::vector<LinkId> links = representatives(machine);
  if (links.empty()) return;
  session.part(kPart, machine, [&] {
    for (const LinkId id : links) measure_link(id, machine, memory, session);
  });
}

void expect_columns(const Machine& machine, ProbeSession& session) {
  session.expect(kPart, representatives(machine).size() *
                            (1 + rows_of(session).size() + near_rows_of(session).size()));
}

}  // namespace fleet

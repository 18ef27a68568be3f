// SPDX-License-Identifier: BSD-3-Clause
// probe.cpp: measures kernels by the spans of small runs; its siblings measure the rest.
// It must not know what kind of backend it measures, and reads a clock only to keep its budget.
#include "probe/probe.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "probe/columns.hpp"
#include "probe/crew.hpp"
#include "probe/issue_runs.hpp"
#include "probe/links.hpp"
#include "probe/parts.hpp"
#include "probe/ports.hpp"
#include "probe/sends.hpp"
#include "probe/small_plans.hpp"
#include "probe/staging.hpp"
#include "probe/times.hpp"
#include "probe/watts.hpp"

namespace fleet {
namespace {

constexpr int kLaunchRepeats = 9;
constexpr int kKernelRepeats = 3;
constexpr int kShortKernelRepeats = 9;  // if the run takes less than kShortRunS
constexpr double kShortRunS = 0.01;
/// A rate below this share of that at the previous edge is measured again, kRetries times.
constexpr double kCredible = 0.75;
constexpr int kRetries = 2;
/// A careful probe keeps all devices busy for this long, as a run does: under a power cap the first
/// tenths of a second are faster (docs/performance/lessons.md).
constexpr double kBusyS = 2;
constexpr double kMostKernels = 200;  // per run and device
/// The largest edge of a quick probe on GPUs: larger tiles gain only under a power cap, which a
/// quick probe does not reach.
constexpr std::int64_t kQuickEdge = 4096;
/// And the smallest one of types that are several times as fast as floats.
constexpr std::int64_t kLeastQuickEdge = 2048;
bool has_short_products(DataType type) {
  return bytes_of(type.storage) == 2 || type == DataType::tf32;
}
constexpr std::int64_t kStreamEdges[] = {512, 4096};
/// The order in which types are measured while time is left.
constexpr DataType kTypes[] = {DataType::f64, DataType::f32,  DataType::c64, DataType::c32,
                               DataType::f16, DataType::bf16, DataType::tf32};

struct Untimed {
  explicit Untimed(Backend& b) : backend(b) { backend.keep_times(false); }
  ~Untimed() { backend.keep_times(true); }
  Untimed(const Untimed&) = delete;
  Untimed& operator=(const Untimed&) = delete;
  Backend& backend;
};

class Prober {
 public:
  Prober(Backend& backend, Machine& machine, ProbeSession& session)
      : backend_(backend),
        memory_(backend),
        machine_(machine),
        said_(backend.machine().devices),
        found_(said_.size()),
        session_(session) {
    const std::vector<DataType>& types = session.request().types;
    for (Device& device : said_)
      std::erase_if(device.kernels, [&](const KernelRate& rate) {
        return !types.empty() && std::ranges::find(types, rate.type) == types.end();
      });
  }

  void measure() {
    const std::vector<Crew> all = crews_of(machine_, said_);
    std::vector<Series> series = series_of(all);
    expect(all.size(), series);
    measure_links(machine_, memory_, session_);
    session_.part("launches", machine_, [&] {
      for (const Crew& crew : all) {
        measure_launch(crew);
        measure_stream(crew);
      }
      measure_issue(all);
    });
    session_.part("ports", machine_, [&] {
      const double staged = staging_units(machine_);
      charge_staging(machine_, 0);  // GPUs load the host's memory otherwise
      fit_ports(machine_, backend_.machine().ports.size(), memory_, session_);
      fit_staging(machine_, staged, memory_, session_);
    });
    measure_sends(machine_, memory_, session_);
    measure_columns(machine_, memory_, session_);
    if (session_.careful()) return measure_kernels_by_type(series);
    // Plans need rates of kernels, so their time is guaranteed, however long the parts before took.
    session_.leave_at_least(session_.request().budget_s / 2);
    measure_kernels(series);
  }

 private:
  static std::string kernel_name(DataType type, std::int64_t edge) {
    return std::string(word_of(type)) + " multiply tile " + std::to_string(edge);
  }
  static std::string kernels_part(DataType type) { return "kernels " + std::string(word_of(type)); }

  /// The products of one type on one crew, edge after edge.
  struct Series {
    const Crew& crew;
    DataType type;
    std::vector<std::int64_t> edges;
    std::size_t next = 0;
    double last_s = 0;        ///< time of the last edge; in a careful probe, of its first run
    double arithmetic_s = 0;  ///< the part of it that was spent in products
    double last_rate = 0;     ///< mean flops_per_s at the last edge
  };

  double left_s() const { return session_.left_s(); }
  Device& device(DeviceId id) { return machine_.devices[static_cast<std::size_t>(id)]; }
  const std::vector<KernelRate>& said_kernels(DeviceId id) const {
    return said_[static_cast<std::size_t>(id)].kernels;
  }

  std::vector<Series> series_of(const std::vector<Crew>& crews) const;
  void expect(std::size_t crews, const std::vector<Series>& series);
  void measure_launch(const Crew& crew);
  void measure_stream(const Crew& crew);
  void measure_issue(const std::vector<Crew>& crews);
  void measure_kernels(std::vector<Series>& all);
  void measure_kernels_by_type(std::vector<Series>& all);
  void measure_next(Series& series);
  void measure_edge(Series& series);
  bool affordable(const Series& series) const;
  void adopt(DeviceId id);
  struct Timing {
    std::vector<DeviceId> busy;
    DataType type = DataType::f64;
    std::int64_t edge = 1;
    Kernel kernel = Kernel::multiply;
    int repeats = 1;
    double kernel_s = 0;     ///< of one kernel; 0: unknown
    bool sustained = false;  ///< take the mean of the later half instead of usual()
    std::vector<double> (*seconds)(const Trace&, const std::vector<TaskId>&) = periods_s;
  };
  std::vector<double> time_kernels(const Timing& timing);
  std::vector<double> time_carefully(const Series& series, Timing timing);

  Backend& backend_;
  ProbeMemory memory_;
  Machine& machine_;
  std::vector<Device> said_;  ///< as the backend describes them: the types and edges to measure
  std::vector<std::vector<KernelRate>> found_;  ///< by device
  ProbeSession& session_;
  double spread_ = 0;           ///< of the last kernels timed: the largest of any device
  std::size_t rates_left_ = 1;  ///< number of rates still to be measured carefully
};

void Prober::expect(std::size_t crews, const std::vector<Series>& series) {
  expect_links(machine_, session_);
  session_.expect("launches", (1 + std::size(kStreamEdges)) * crews + 1);
  session_.expect("ports", loads_of(machine_) + loads_of_staging(machine_));
  expect_sends(machine_, session_);
  expect_columns(machine_, session_);
  for (const Series& each : series) session_.expect(kernels_part(each.type), each.edges.size());
}

/// Usual seconds of this kernel on each of the devices while all of them are busy. Empty if the
/// tiles do not fit into their memory.
std::vector<double> Prober::time_kernels(const Timing& timing) {
  ProbePlan plan(machine_, timing.type, timing.edge);
  std::vector<TaskId> ready;
  for (const DeviceId id : timing.busy)
    for (const TaskId primed : plan.prime(id)) ready.push_back(primed);
  std::vector<std::vector<TaskId>> kernels(timing.busy.size());
  // Device after device, so that issuing to other devices does not delay short kernels.
  for (std::size_t i = 0; i < timing.busy.size(); ++i)
    for (int repeat = 0; repeat < timing.repeats; ++repeat)
      kernels[i].push_back(plan.kernel(timing.busy[i], 0, timing.kernel, ready));
  std::vector<double> taken;
  spread_ = 0;
  if (const auto trace = memory_.run(plan))
    for (const std::vector<TaskId>& of_device : kernels) {
      const std::vector<double> samples = timing.seconds(*trace, of_device);
      taken.push_back(timing.sustained ? later_half_mean(samples) : usual(samples));
      spread_ = std::max(spread_, spread_of(samples));
    }
  return taken;
}

void Prober::measure_launch(const Crew& crew) {
  for (const DataType type : kTypes) {
    // Spans, not periods, since such short kernels may wait to be issued.
    Timing timing{.busy = {}, .type = type, .repeats = 2, .seconds = spans_s};
    for (const DeviceId id : crew.busy)
      if (said_kernels(id).front().type == type) timing.busy.push_back(id);
    if (timing.busy.empty()) continue;
    time_kernels(timing);  // the first call of a library sets it up
    timing.repeats = kLaunchRepeats;
    const std::vector<double> taken =
        session_.repeated("launch", "s", [&] { return time_kernels(timing); });
    for_each_measured(crew, timing.busy, taken,
                      [this](DeviceId id, double launch_s) { device(id).launch_s = launch_s; });
  }
}

void Prober::measure_stream(const Crew& crew) {
  for (const std::int64_t edge : kStreamEdges) {
    const Timing timing{
        .busy = crew.busy, .edge = edge, .kernel = Kernel::add, .repeats = kKernelRepeats};
    const std::vector<double> taken = session_.repeated("add tile " + std::to_string(edge), "s",
                                                        [&] { return time_kernels(timing); });
    // An add reads two tiles and writes one.
    const auto bytes = static_cast<double>(3 * edge * edge * bytes_of(Storage::f64));
    bool mostly_launch = false;
    for_each_measured(crew, crew.busy, taken, [&](DeviceId id, double seconds) {
      const double moving_s = seconds - device(id).launch_s;
      if (moving_s > 0) device(id).memory_bytes_per_s = bytes / moving_s;
      mostly_launch = mostly_launch || moving_s < 10 * device(id).launch_s;
    });
    if (!mostly_launch) break;
  }
}

void Prober::measure_issue(const std::vector<Crew>& crews) {
  if (crews.empty()) return;
  const std::vector<DeviceId>& busy = crews.front().busy;
  const IssueRuns runs(machine_, busy, said_kernels(busy.front()).front().type);
  // Measuring each task may cost more than issuing it.
  const Untimed untimed(backend_);
  const std::vector<double> taken =
      session_.repeated("issue", "s", [&] { return runs.seconds(memory_); });
  if (!taken.empty()) machine_.issue_s = taken.front();
}

std::vector<Prober::Series> Prober::series_of(const std::vector<Crew>& crews) const {
  const bool quick = backend_.overlaps_launches() && !session_.careful();
  const std::int64_t most_edge = quick ? kQuickEdge : std::numeric_limits<std::int64_t>::max();
  std::vector<Series> all;
  for (const DataType type : kTypes)
    for (const Crew& crew : crews) {
      Series series{.crew = crew, .type = type, .edges = {}};
      for (const DeviceId id : crew.busy)
        for (const KernelRate& rate : said_kernels(id))
          if (rate.type == type && rate.edge <= most_edge) series.edges.push_back(rate.edge);
      std::ranges::sort(series.edges);
      const auto repeated = std::ranges::unique(series.edges);
      series.edges.erase(repeated.begin(), repeated.end());
      // There may be time for one rate of these types, and shorter products are over before the
      // device has begun in earnest.
      while (quick && has_short_products(type) && series.edges.size() > 1 &&
             series.edges.front() < kLeastQuickEdge)
        series.edges.erase(series.edges.begin());
      if (!series.edges.empty()) all.push_back(std::move(series));
    }
  return all;
}

/// Small edges of all types come first. An edge that may not fit into the rest of the budget is
/// left out with all larger ones: rates hardly change at such sizes.
void Prober::measure_kernels(std::vector<Series>& all) {
  for (bool busy = true; std::exchange(busy, false);)
    for (Series& series : all) {
      if (series.next >= series.edges.size()) continue;
      // Real devices take a while to load the kernels of a type, so they get one rate of each type,
      // then the rest of one type after another. Virtual devices get all types edge by edge.
      const bool whole = series.crew.alike.empty() && series.next > 0;
      do measure_next(series);
      while (whole && series.next < series.edges.size());
      busy = true;
    }
  for (DeviceId id = kFirstDevice; id < static_cast<DeviceId>(said_.size()); ++id) {
    device(id).kernels.clear();
    adopt(id);
  }
}

/// Type after type, so that a probe that is stopped or runs out of time has complete types.
void Prober::measure_kernels_by_type(std::vector<Series>& all) {
  for (const DataType type : kTypes) {
    if (std::ranges::none_of(all, [&](const Series& each) { return each.type == type; })) continue;
    session_.part(kernels_part(type), machine_, [&] {
      for (Series& series : all)
        while (series.type == type && series.next < series.edges.size()) {
          rates_left_ = 0;
          for (const Series& each : all) rates_left_ += each.edges.size() - each.next;
          measure_next(series);
        }
      for (DeviceId id = kFirstDevice; id < static_cast<DeviceId>(said_.size()); ++id) {
        std::erase_if(device(id).kernels,
                      [&](const KernelRate& rate) { return rate.type == type; });
        adopt(id);
      }
    });
  }
}

/// Moves the rates found for a device into the machine.
void Prober::adopt(DeviceId id) {
  auto& kernels = device(id).kernels;
  auto& found = found_[static_cast<std::size_t>(id)];
  kernels.insert(kernels.end(), found.begin(), found.end());
  found.clear();
  if (kernels.empty()) kernels = said_kernels(id);  // no tile fitted into its memory
  std::ranges::sort(kernels, {}, type_and_edge);
  if (!backend_.overlaps_launches()) return;
  // Rates must not fall with the edge, which subtracting launches can cause for small products.
  for (std::size_t i = kernels.size(); i-- > 1;)
    if (kernels[i - 1].type == kernels[i].type)
      kernels[i - 1].flops_per_s = std::min(kernels[i - 1].flops_per_s, kernels[i].flops_per_s);
}

void Prober::measure_next(Series& series) {
  if (affordable(series)) return measure_edge(series);
  for (; series.next < series.edges.size(); ++series.next)
    if (session_.careful())
      session_.note({.name = kernel_name(series.type, series.edges[series.next]), .unit = "s"});
}

bool Prober::affordable(const Series& series) const {
  if (series.next == 0) return true;
  const double growth = static_cast<double>(series.edges[series.next]) /
                        static_cast<double>(series.edges[series.next - 1]);
  // Arithmetic grows with the volume. The rest of the last edge's time is mostly loading the
  // kernels of a type and allocating, which takes no longer for larger tiles.
  const double around_s = std::max(0.0, series.last_s - series.arithmetic_s);
  const double next_s = around_s + growth * growth * growth * series.arithmetic_s;
  // A careful probe runs each kernel at least twice, and must leave the other values their share.
  if (session_.careful()) return 2 * next_s < kMostShares * session_.share_s();
  return next_s < left_s() / 2;
}

void Prober::measure_edge(Series& series) {
  const double start_s = backend_.clock_s();
  const std::int64_t edge = series.edges[series.next++];
  Timing timing{.busy = {},
                .type = series.type,
                .edge = edge,
                .repeats = series.last_s < kShortRunS ? kShortKernelRepeats : kKernelRepeats};
  for (const DeviceId id : series.crew.busy)
    if (std::ranges::any_of(said_kernels(id), [&](const KernelRate& rate) {
          return rate.type == series.type && rate.edge == edge;
        }))
      timing.busy.push_back(id);
  const auto size = static_cast<double>(edge);
  const double work = (is_complex(series.type.storage) ? 8 : 2) * size * size * size;
  std::vector<double> taken = time_kernels(timing);
  if (taken.empty()) series.next = series.edges.size();
  const double once_s = backend_.clock_s() - start_s;
  if (session_.careful() && !taken.empty()) {
    timing.kernel_s = mean(taken);
    series.arithmetic_s = timing.kernel_s * (timing.repeats + 1);
    taken = time_carefully(series, timing);
  }
  // Rates grow with the edge; a run whose rate does not was most likely disturbed.
  const int retries = session_.careful() ? 0 : kRetries;
  double spread = spread_;
  for (int again = 0; again < retries && !taken.empty(); ++again) {
    if (work / mean(taken) > kCredible * series.last_rate || series.last_s > left_s() / 4) break;
    const std::vector<double> retaken = time_kernels(timing);
    std::ranges::transform(taken, retaken, taken.begin(),
                           [](double a, double b) { return std::min(a, b); });
    spread = std::min(spread, spread_);
  }
  if (!session_.careful() && !taken.empty())
    session_.note_quick(kernel_name(series.type, edge), mean(taken), timing.repeats, spread);
  if (!taken.empty()) series.last_rate = work / mean(taken);
  for_each_measured(series.crew, timing.busy, taken, [&](DeviceId id, double seconds) {
    // A launch only matters for the smallest products.
    const double arithmetic_s = std::max(seconds - device(id).launch_s, seconds / 20);
    found_[static_cast<std::size_t>(id)].push_back({series.type, edge, work / arithmetic_s});
  });
  series.last_s = once_s;
  if (session_.careful()) return;
  series.last_s = backend_.clock_s() - start_s;
  series.arithmetic_s = taken.empty() ? 0 : mean(taken) * (timing.repeats + 1);
}

/// Each run has as many kernels as keep the devices busy for kBusyS. Rates may take more than their
/// share of the budget, since other values settle long before theirs is spent.
std::vector<double> Prober::time_carefully(const Series& series, Timing timing) {
  // Half of the time is for the work before and after the kernels of each run.
  const double busy_s = std::min(kBusyS, left_s() / static_cast<double>(rates_left_) / 2);
  const double run_s = busy_s / session_.request().least_repeats;
  timing.repeats = static_cast<int>(
      std::clamp(run_s / timing.kernel_s, static_cast<double>(kKernelRepeats), kMostKernels));
  timing.sustained = true;
  return session_.repeated(
      kernel_name(series.type, timing.edge), "s", [&] { return time_kernels(timing); }, 2 * busy_s);
}

}  // namespace

Machine probe(Backend& backend, double budget_s) {
  ProbeRequest request;
  request.budget_s = budget_s;
  ProbeReport report;
  return probe(backend, nullptr, request, report);
}

Machine probe(Backend& backend, CpuBlas* blas, const ProbeRequest& request, ProbeReport& report) {
  Machine machine = request.start != nullptr ? *request.start : backend.machine();
  Machine whole = machine;
  ProbeRequest kept = request;
  kept.save = [&](const Machine& measured, const ProbeReport& so_far) {
    whole = measured;
    whole.source = "partly measured by probe: " + std::to_string(so_far.done.size()) +
                   " parts, the last " + so_far.done.back();
    if (request.save) request.save(whole, so_far);
  };
  ProbeSession session(kept, [&] { return backend.clock_s(); });
  try {
    if (session.careful()) {
      if (blas != nullptr) session.expect("host", host_values());
      session.expect("pinning", pinning_values());
      if (counts_energy(backend)) session.expect("watts", kKindsOfWork);
    }
    Prober(backend, machine, session).measure();
    if (session.careful()) {
      if (blas != nullptr)
        session.part("host", machine,
                     [&] { measure_host(machine.devices[kHost], *blas, session); });
      session.part("pinning", machine, [&] { measure_pinning(backend, session); });
      if (counts_energy(backend))
        session.part("watts", machine,
                     [&] { measure_watts_carefully(backend, blas, machine, session); });
    }
    whole = machine;
    whole.source = "measured by probe" + session.left_out();
    session.report().complete = true;
    if (session.careful() && request.save) request.save(whole, session.report());
  } catch (const ProbeSession::Stopped&) {
    // The machine kept last is complete.
  }
  report = session.report();
  return whole;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// probe.cpp: the rates of a machine's links and kernels from the spans of small runs, one thing at
// a time; probe_ports.cpp then looks at what they share. It must not know what kind of backend it
// measures, nor look at a clock other than to keep its budget.
#include "exec/probe.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "exec/probe_plan.hpp"
#include "exec/probe_ports.hpp"

namespace fleet {
namespace {

/// Copies from small ones, which are all latency, to those of large tiles.
constexpr std::int64_t kCopyEdges[] = {16, 128, 256, 512, 2048};
/// Larger tiles than this only tell more of links that move such a one in less time than it takes.
constexpr std::int64_t kLargeEdge = 512;
constexpr double kShortCopyS = 4e-4;
constexpr int kCopyRepeats = 4;
/// Links and devices that are alike are measured on a few of them.
constexpr std::size_t kRepresentatives = 4;
constexpr int kLaunchRepeats = 9;
constexpr int kKernelRepeats = 3;
constexpr int kShortKernelRepeats = 9;  // while a whole run takes less than
constexpr double kShortRunS = 0.01;
/// A rate below this share of that at the edge before is measured again, so many times.
constexpr double kCredible = 0.75;
constexpr int kRetries = 2;
constexpr int kIssued = 64;
constexpr int kManyIssued = 512;
constexpr int kIssueRepeats = 5;
constexpr std::int64_t kStreamEdges[] = {512, 4096};
/// The order in which types get what time there is.
constexpr DataType kTypes[] = {DataType::f64, DataType::f32,  DataType::c64, DataType::c32,
                               DataType::f16, DataType::bf16, DataType::tf32};

/// The lower quartile: what else runs on the machine only ever makes things slower, but the fastest
/// of many is luck.
double usual(std::vector<double> values) {
  const auto quartile = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::ranges::nth_element(values, quartile);
  return *quartile;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// How often each of these tasks finished: seconds from the stop of the one before (of its own
/// start, for the first).
std::vector<double> periods_s(const Trace& trace, const std::vector<TaskId>& tasks) {
  std::vector<double> periods;
  double before_s = -1;
  for (const TaskId id : tasks) {
    const Span& span = trace.spans[static_cast<std::size_t>(id)];
    periods.push_back(span.stop_s - (before_s < 0 ? span.start_s : before_s));
    before_s = span.stop_s;
  }
  return periods;
}

/// How long each of these tasks ran, whatever came between them.
std::vector<double> spans_s(const Trace& trace, const std::vector<TaskId>& tasks) {
  std::vector<double> spans;
  for (const TaskId id : tasks) {
    const Span& span = trace.spans[static_cast<std::size_t>(id)];
    spans.push_back(span.stop_s - span.start_s);
  }
  return spans;
}

struct Sample {
  double bytes = 0;
  double seconds = 0;
};

/// seconds = latency_s + bytes / bytes_per_s with the least sum of squared relative errors.
void fit_link(const std::vector<Sample>& samples, double& latency_s, double& bytes_per_s) {
  // With each equation divided by its seconds: 1 = L * u + S * v.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const Sample& sample : samples) {
    const double u = 1 / sample.seconds, v = sample.bytes / sample.seconds;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  double latency = (u1 * vv - v1 * uv) / determinant;
  double seconds_per_byte = (v1 * uu - u1 * uv) / determinant;
  if (!(latency >= 0)) {  // also when there is but one size
    latency = 0;
    seconds_per_byte = v1 / vv;
  }
  if (!(seconds_per_byte > 0)) return;
  latency_s = latency;
  bytes_per_s = 1 / seconds_per_byte;
}

/// Devices whose kernels are timed together: as many as their ports have room for.
struct Crew {
  std::vector<DeviceId> busy;
  std::vector<DeviceId> alike;  ///< if not empty, what is measured holds for each of these
};

struct Untimed {
  explicit Untimed(Backend& b) : backend(b) { backend.keep_times(false); }
  ~Untimed() { backend.keep_times(true); }
  Untimed(const Untimed&) = delete;
  Untimed& operator=(const Untimed&) = delete;
  Backend& backend;
};

class Prober {
 public:
  Prober(Backend& backend, double budget_s)
      : backend_(backend),
        memory_(backend),
        machine_(backend.machine()),
        said_(backend.machine().devices),
        budget_(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget_s))),
        deadline_(Clock::now() + budget_) {}

  Machine measure() {
    measure_links();
    const std::vector<Crew> all = crews();
    for (const Crew& crew : all) {
      measure_launch(crew);
      measure_stream(crew);
    }
    measure_issue(all);
    fit_ports(machine_, memory_);
    // Whatever came before took: without rates of kernels there is no plan.
    deadline_ = std::max(deadline_, Clock::now() + budget_ / 2);
    measure_kernels(all);
    return machine_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The products of one type on one crew, edge after edge.
  struct Series {
    const Crew& crew;
    DataType type;
    std::vector<std::int64_t> edges;
    std::size_t next = 0;
    double last_s = 0;        ///< wall time of the last edge
    double arithmetic_s = 0;  ///< what of it was spent in products
    double last_rate = 0;     ///< flops_per_s at the last edge, in the mean
  };

  double left_s() const { return std::chrono::duration<double>(deadline_ - Clock::now()).count(); }
  Device& device(DeviceId id) { return machine_.devices[static_cast<std::size_t>(id)]; }
  const std::vector<KernelRate>& said_kernels(DeviceId id) const {
    return said_[static_cast<std::size_t>(id)].kernels;
  }

  void measure_links();
  void measure_links_alike(const std::vector<LinkId>& same);
  std::vector<Crew> crews();
  bool fits_ports(const std::vector<DeviceId>& busy, DeviceId newcomer);
  void measure_launch(const Crew& crew);
  void measure_stream(const Crew& crew);
  void measure_issue(const std::vector<Crew>& crews);
  void measure_kernels(const std::vector<Crew>& crews);
  void measure_edge(Series& series);
  bool affordable(const Series& series) const;
  struct Timing {
    std::vector<DeviceId> busy;
    DataType type = DataType::f64;
    std::int64_t edge = 1;
    Kernel kernel = Kernel::multiply;
    int repeats = 1;
    std::vector<double> (*seconds)(const Trace&, const std::vector<TaskId>&) = periods_s;
  };
  std::vector<double> time_kernels(const Timing& timing);

  Backend& backend_;
  ProbeMemory memory_;
  Machine machine_;
  std::vector<Device> said_;  ///< by the backend: which types and edges to measure
  Clock::duration budget_;
  Clock::time_point deadline_;
};

void Prober::measure_links() {
  std::vector<bool> known(machine_.links.size(), false);
  for (LinkId first = 0; first < static_cast<LinkId>(machine_.links.size()); ++first) {
    if (known[static_cast<std::size_t>(first)]) continue;
    std::vector<LinkId> same;
    for (LinkId other = first; other < static_cast<LinkId>(machine_.links.size()); ++other)
      if (other == first || links_alike(machine_, first, other)) same.push_back(other);
    for (const LinkId id : same) known[static_cast<std::size_t>(id)] = true;
    measure_links_alike(same);
  }
}

void Prober::measure_links_alike(const std::vector<LinkId>& same) {
  std::vector<Sample> samples;
  for (const std::int64_t edge : kCopyEdges) {
    if (edge > kLargeEdge && (samples.empty() || samples.back().seconds > kShortCopyS)) break;
    ProbePlan plan(machine_, DataType::f64, edge);
    std::vector<std::vector<TaskId>> copies;
    std::vector<TaskId> last;
    for (std::size_t i = 0; i < std::min(same.size(), kRepresentatives); ++i) {
      copies.emplace_back();
      for (int repeat = 0; repeat < kCopyRepeats; ++repeat) {
        last = {plan.copy(same[i], last)};
        copies.back().push_back(last.front());
      }
    }
    memory_.run(plan);  // touches the memory for the first time
    const auto trace = memory_.run(plan);
    if (!trace) break;
    std::vector<double> taken;
    for (const std::vector<TaskId>& of_link : copies)
      std::ranges::copy(periods_s(*trace, of_link), std::back_inserter(taken));
    samples.push_back({static_cast<double>(plan.tile_bytes()), usual(taken)});
  }
  if (samples.empty()) return;  // not even the smallest tile fits: the link keeps what was said
  Link measured = machine_.links[static_cast<std::size_t>(same.front())];
  fit_link(samples, measured.latency_s, measured.bytes_per_s);
  for (const LinkId id : same) set_rate(machine_, id, measured.latency_s, measured.bytes_per_s);
}

/// Virtual devices that are alike make a crew; real ones fill crews in turn.
std::vector<Crew> Prober::crews() {
  std::vector<Crew> crews;
  std::vector<bool> known(machine_.devices.size(), false);
  for (DeviceId id = kFirstDevice; id < static_cast<DeviceId>(machine_.devices.size()); ++id) {
    if (known[static_cast<std::size_t>(id)] || said_kernels(id).empty()) continue;
    std::vector<DeviceId> same;
    for (DeviceId other = id; other < static_cast<DeviceId>(machine_.devices.size()); ++other)
      if (devices_alike(machine_, id, other)) same.push_back(other);
    for (const DeviceId other : same) known[static_cast<std::size_t>(other)] = true;
    if (!same.empty()) {
      crews.push_back({.busy = {}, .alike = same});
      for (const DeviceId other : same)
        if (fits_ports(crews.back().busy, other)) crews.back().busy.push_back(other);
    } else if (!crews.empty() && crews.back().alike.empty() && fits_ports(crews.back().busy, id)) {
      crews.back().busy.push_back(id);
    } else {
      crews.push_back({.busy = {id}, .alike = {}});
    }
  }
  return crews;
}

bool Prober::fits_ports(const std::vector<DeviceId>& busy, DeviceId newcomer) {
  if (busy.empty()) return true;
  std::vector<double> load(machine_.ports.size(), 0.0);
  const auto add = [&](DeviceId id) {
    for (const PortShare& share : device(id).ports)
      load[static_cast<std::size_t>(share.port)] += share.weight;
  };
  std::ranges::for_each(busy, add);
  add(newcomer);
  for (std::size_t p = 0; p < load.size(); ++p)
    if (load[p] > machine_.ports[p].capacity) return false;
  return true;
}

/// Usual seconds of this kernel on each of the devices, all of them at work at once. Empty if
/// their memory does not hold the tiles.
std::vector<double> Prober::time_kernels(const Timing& timing) {
  ProbePlan plan(machine_, timing.type, timing.edge);
  std::vector<TaskId> ready;
  for (const DeviceId id : timing.busy)
    for (const TaskId primed : plan.prime(id)) ready.push_back(primed);
  std::vector<std::vector<TaskId>> kernels(timing.busy.size());
  // Device after device, so that issuing to the others does not come between short kernels.
  for (std::size_t i = 0; i < timing.busy.size(); ++i)
    for (int repeat = 0; repeat < timing.repeats; ++repeat)
      kernels[i].push_back(plan.kernel(timing.busy[i], 0, timing.kernel, ready));
  std::vector<double> taken;
  if (const auto trace = memory_.run(plan))
    for (const std::vector<TaskId>& of_device : kernels)
      taken.push_back(usual(timing.seconds(*trace, of_device)));
  return taken;
}

/// Hands each device the value that was measured on it, or on those that it is alike.
template <typename Apply>
void for_each_measured(const Crew& crew, const std::vector<DeviceId>& busy,
                       const std::vector<double>& values, Apply apply) {
  if (values.empty()) return;
  for (const DeviceId id : crew.alike) apply(id, mean(values));
  if (crew.alike.empty())
    for (std::size_t i = 0; i < busy.size(); ++i) apply(busy[i], values[i]);
}

void Prober::measure_launch(const Crew& crew) {
  for (const DataType type : kTypes) {
    // Their spans, since such short kernels may wait for being issued.
    Timing timing{.busy = {}, .type = type, .repeats = 2, .seconds = spans_s};
    for (const DeviceId id : crew.busy)
      if (said_kernels(id).front().type == type) timing.busy.push_back(id);
    if (timing.busy.empty()) continue;
    time_kernels(timing);  // the first call of a library sets it up
    timing.repeats = kLaunchRepeats;
    for_each_measured(crew, timing.busy, time_kernels(timing),
                      [this](DeviceId id, double launch_s) { device(id).launch_s = launch_s; });
  }
}

void Prober::measure_stream(const Crew& crew) {
  for (const std::int64_t edge : kStreamEdges) {
    const std::vector<double> taken = time_kernels(
        {.busy = crew.busy, .edge = edge, .kernel = Kernel::add, .repeats = kKernelRepeats});
    // Reads two tiles and writes one.
    const auto bytes = static_cast<double>(3 * edge * edge * bytes_of(DataType::f64));
    bool mostly_launch = false;
    for_each_measured(crew, crew.busy, taken, [&](DeviceId id, double seconds) {
      const double moving_s = seconds - device(id).launch_s;
      if (moving_s > 0) device(id).memory_bytes_per_s = bytes / moving_s;
      mostly_launch = mostly_launch || moving_s < 10 * device(id).launch_s;
    });
    if (!mostly_launch) break;
  }
}

/// Kernels that do nothing, each in a queue of its own: what is between their starts is the
/// issuing.
void Prober::measure_issue(const std::vector<Crew>& crews) {
  if (crews.empty()) return;
  const std::vector<DeviceId>& busy = crews.front().busy;
  ProbePlan plan(machine_, said_kernels(busy.front()).front().type, 1);
  for (int task = 0; task < kIssued; ++task) {
    const auto turn = static_cast<std::size_t>(task) % busy.size();
    plan.kernel(busy[turn], task / static_cast<int>(busy.size()), Kernel::add, {});
  }
  // Measuring each task would cost more than issuing it, where it has a price.
  const Untimed untimed(backend_);
  std::vector<double> taken, whole_s;
  for (int repeat = 0; repeat < kIssueRepeats; ++repeat)
    if (const auto trace = memory_.run(plan)) {
      const auto [first, last] = std::ranges::minmax(trace->spans, {}, &Span::start_s);
      taken.push_back((last.start_s - first.start_s) / (kIssued - 1));
      whole_s.push_back(trace->seconds);
    }
  if (taken.empty()) return;
  machine_.issue_s = usual(taken);
  if (machine_.issue_s > 0) return;
  // All tasks share the span of their run: what one more of them adds to it, then.
  for (int task = kIssued; task < kManyIssued; ++task) {
    const auto turn = static_cast<std::size_t>(task) % busy.size();
    plan.kernel(busy[turn], task % kIssued / static_cast<int>(busy.size()), Kernel::add, {});
  }
  std::vector<double> longer_s;
  for (int repeat = 0; repeat < kIssueRepeats; ++repeat)
    if (const auto trace = memory_.run(plan)) longer_s.push_back(trace->seconds);
  if (!longer_s.empty())
    machine_.issue_s = std::max(0.0, usual(longer_s) - usual(whole_s)) / (kManyIssued - kIssued);
}

/// Small edges of all types first. An edge that may not fit into what is left of the budget is left
/// out, and so are the larger ones: rates hardly change any more where kernels take that long.
void Prober::measure_kernels(const std::vector<Crew>& crews) {
  std::vector<Series> all;
  for (const Crew& crew : crews)
    for (const DataType type : kTypes) {
      Series series{.crew = crew, .type = type, .edges = {}};
      for (const DeviceId id : crew.busy)
        for (const KernelRate& rate : said_kernels(id))
          if (rate.type == type) series.edges.push_back(rate.edge);
      std::ranges::sort(series.edges);
      const auto repeated = std::ranges::unique(series.edges);
      series.edges.erase(repeated.begin(), repeated.end());
      all.push_back(std::move(series));
    }
  for (std::size_t d = kFirstDevice; d < said_.size(); ++d) machine_.devices[d].kernels.clear();

  for (bool busy = true; std::exchange(busy, false);)
    for (Series& series : all) {
      if (series.next >= series.edges.size()) continue;
      // Real devices take a while to load the kernels of a type: one type after the other, but a
      // rate for each. Virtual ones: as much of all types as there is time for.
      const bool whole = series.crew.alike.empty() && series.next > 0;
      do {
        if (affordable(series))
          measure_edge(series);
        else
          series.next = series.edges.size();
      } while (whole && series.next < series.edges.size());
      busy = true;
    }

  for (std::size_t d = kFirstDevice; d < said_.size(); ++d) {
    auto& kernels = machine_.devices[d].kernels;
    if (kernels.empty()) kernels = said_[d].kernels;  // nothing fitted into its memory
    std::ranges::sort(kernels, [](const KernelRate& a, const KernelRate& b) {
      return std::pair(a.type, a.edge) < std::pair(b.type, b.edge);
    });
  }
}

bool Prober::affordable(const Series& series) const {
  if (series.next == 0) return true;
  const double growth = static_cast<double>(series.edges[series.next]) /
                        static_cast<double>(series.edges[series.next - 1]);
  // Memory grows with the area, arithmetic with the volume.
  const double around_s = std::max(0.0, series.last_s - series.arithmetic_s);
  const double next_s = growth * growth * (around_s + growth * series.arithmetic_s);
  return next_s < left_s() / 2;
}

void Prober::measure_edge(Series& series) {
  const Clock::time_point start = Clock::now();
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
  const double work = (is_complex(series.type) ? 8 : 2) * size * size * size;
  std::vector<double> taken = time_kernels(timing);
  if (taken.empty()) series.next = series.edges.size();
  // Rates grow with the edge. One that does not was most likely disturbed.
  for (int again = 0; again < kRetries && !taken.empty(); ++again) {
    if (work / mean(taken) > kCredible * series.last_rate || series.last_s > left_s() / 4) break;
    const std::vector<double> retaken = time_kernels(timing);
    std::ranges::transform(taken, retaken, taken.begin(),
                           [](double a, double b) { return std::min(a, b); });
  }
  if (!taken.empty()) series.last_rate = work / mean(taken);
  for_each_measured(series.crew, timing.busy, taken, [&](DeviceId id, double seconds) {
    // A launch is noise next to any but the smallest product.
    const double arithmetic_s = std::max(seconds - device(id).launch_s, seconds / 20);
    device(id).kernels.push_back({series.type, edge, work / arithmetic_s});
  });
  series.last_s = std::chrono::duration<double>(Clock::now() - start).count();
  series.arithmetic_s = taken.empty() ? 0 : mean(taken) * (timing.repeats + 1);
}

}  // namespace

Machine probe(Backend& backend, double budget_s) {
  struct Timed {
    explicit Timed(Backend& b) : backend(b) { backend.keep_times(true); }
    ~Timed() { backend.keep_times(false); }
    Backend& backend;
  } const timed(backend);
  Machine machine = Prober(backend, budget_s).measure();
  machine.source = "measured by probe";
  return machine;
}

}  // namespace fleet

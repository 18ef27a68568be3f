// SPDX-License-Identifier: BSD-3-Clause
// observe.cpp: compares the busy times of devices, links and ports in two traces of one plan. It
// knows no clock.
#include "sim/observe.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "plan/kernel_times.hpp"
#include "sim/busy_time.hpp"
#include "sim/copy_times.hpp"

namespace fleet {
namespace {

/// Rates are observed where they are most of what a device or link does,
constexpr double kLeastPart = 0.5;
/// where kernels are long: all edges of a type share what is learnt from one of them, and how long
/// short kernels take says more of launches than of rates,
constexpr double kLeastWork = 0.9;
/// and where that is a good part of the run: what is short may be hidden, late or not measured. Of
/// the CPU beside devices the time that it took counts too: a small part may delay all, and its
/// times are always known.
constexpr double kLeastShareOfRun = 0.1;
/// A copy waits for its own link if it takes hardly longer than alone,
constexpr double kAlone = 0.9;
/// or else for the fullest of its ports, if that is full. (Or for the copy that feeds it.)
constexpr double kFull = 0.8;

using Spans = std::vector<Span>;

/// The same tasks in both traces.
struct Busy {
  Spans predicted, measured;
  void add(const Span& in_prediction, const Span& in_run) {
    predicted.push_back(in_prediction);
    measured.push_back(in_run);
  }
};

/// The kernels of one kind on one device.
struct KindOfKernel {
  Spans predicted;
  double seconds = 0;   ///< of all, each alone
  double launch_s = 0;  ///< the part of it that no rate changes
};

/// The copies that wait for one link or port.
struct Waiting {
  Busy busy;
  double latency_s = 0;  ///< of all, one after another
  std::vector<DeviceId> ends;
};

/// What a port carries over time, as if each copy had a constant rate.
class LoadOverTime {
 public:
  void add(const Span& span, double units) {
    const double rate = units / (span.stop_s - span.start_s);
    changes_.push_back({span.start_s, rate, 0});
    changes_.push_back({span.stop_s, -rate, 0});
  }
  /// After the last add(): sums up.
  void close() {
    std::ranges::sort(changes_, {}, &Change::at_s);
    double rate = 0, units = 0, before_s = 0;
    for (Change& change : changes_) {
      units += rate * (change.at_s - before_s);
      before_s = change.at_s;
      rate += change.rate;
      change = {change.at_s, rate, units};
    }
  }
  /// Units per second in this span, on average.
  double rate_in(const Span& span) const {
    return (units_until(span.stop_s) - units_until(span.start_s)) / (span.stop_s - span.start_s);
  }

 private:
  struct Change {
    double at_s, rate, units;  ///< once closed: the rate from then on, and the units until then
  };
  double units_until(double time_s) const {
    const auto after = std::ranges::upper_bound(changes_, time_s, {}, &Change::at_s);
    if (after == changes_.begin()) return 0;
    const Change& last = *std::prev(after);
    return last.units + last.rate * (time_s - last.at_s);
  }
  std::vector<Change> changes_;
};

class Observer {
 public:
  Observer(const Plan& plan, const Machine& machine, const Trace& predicted, const Trace& measured)
      : plan_(plan),
        machine_(machine),
        predicted_(predicted),
        measured_(measured),
        devices_(machine.devices.size()),
        kinds_(machine.devices.size()),
        links_(machine.links.size()),
        ports_(machine.ports.size()),
        loads_(machine.ports.size()),
        users_(machine.ports.size()) {
    for (std::size_t d = 0; d < machine.devices.size(); ++d)
      for (const PortShare& share : machine.devices[d].ports)
        users_[at(share.port)].push_back(static_cast<DeviceId>(d));
  }

  std::vector<Correction> observe() {
    gather();
    for (std::size_t d = 0; d < devices_.size(); ++d)
      for (const auto& [kind, kernels] : kinds_[d]) observe_kernels(d, kind, kernels);
    for (std::size_t l = 0; l < links_.size(); ++l)
      observe_copies({RateId::Kind::link, static_cast<int>(l)}, links_[l]);
    for (std::size_t p = 0; p < ports_.size(); ++p)
      if (!waits_for_slow_device(ports_[p]))
        observe_copies({RateId::Kind::port, static_cast<int>(p)}, ports_[p]);
    return std::move(found_);
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }

  /// Copies of a device whose kernels are slower than known come late and spread out: the port that
  /// they share with others is busy for longer, however fast it is.
  bool waits_for_slow_device(const Waiting& port) const {
    return std::ranges::any_of(found_, [&](const Correction& correction) {
      const bool of_kernels = correction.rate.kind == RateId::Kind::products ||
                              correction.rate.kind == RateId::Kind::streams;
      return of_kernels && correction.factor * kNoise < 1 &&
             std::ranges::find(port.ends, correction.rate.index) != port.ends.end();
    });
  }

  void gather() {
    KernelTimes times(*plan_.program, machine_, plan_.tuning);
    std::vector<std::size_t> copies;
    for (std::size_t t = 0; t < plan_.tasks.size(); ++t) {
      const Task& task = plan_.tasks[t];
      if (task.kind == TaskKind::compute) {
        add_kernel(task, predicted_.spans[t], measured_.spans[t], times);
      } else if (takes_time(predicted_.spans[t])) {
        load_ports(task, predicted_.spans[t]);
        copies.push_back(t);
      }
    }
    for (LoadOverTime& load : loads_) load.close();
    for (const std::size_t t : copies)
      add_copy(plan_.tasks[t], predicted_.spans[t], measured_.spans[t]);
  }

  static bool takes_time(const Span& span) { return span.stop_s > span.start_s; }

  void load_ports(const Task& copy, const Span& expected) {
    const double bytes = lone_copy(plan_, machine_, copy).bytes;
    for (const PortShare& share : machine_.links[at(copy.link)].ports)
      loads_[at(share.port)].add(expected, bytes * share.weight);
  }

  void add_kernel(const Task& task, const Span& expected, const Span& taken, KernelTimes& times) {
    const std::size_t d = at(task.device());
    devices_[d].add(expected, taken);
    const double launch_s = machine_.devices[d].launch_s;
    if (task.kernel == Kernel::multiply) {
      const TileOp& op = plan_.program->op(task.op);
      KindOfKernel& kind = kinds_[d][products_of(task, op)];
      kind.predicted.push_back(expected);
      kind.seconds += times.seconds(task.device(), op, task.tile);
      kind.launch_s += launch_s;
    } else if (streams_memory(task.kernel) && machine_.devices[d].memory_bytes_per_s > 0) {
      KindOfKernel& kind = kinds_[d][{RateId::Kind::streams, DataType{}}];
      kind.predicted.push_back(expected);
      // Alone such a kernel takes its span: it is the only thing known about all of them.
      kind.seconds += std::max(launch_s, expected.stop_s - expected.start_s);
      kind.launch_s += launch_s;
    }
  }

  /// What a multiply of this task shows.
  std::pair<RateId::Kind, DataType> products_of(const Task& task, const TileOp& op) const {
    if (on_host(task.device())) return {RateId::Kind::beside, DataType{}};
    return {RateId::Kind::products,
            machine_.rated_as(task.device(), plan_.program->type_of(op, task.tile))};
  }

  void add_copy(const Task& copy, const Span& expected, const Span& taken) {
    // One thread copies and computes: which of the two has it when, only the thread knows.
    if (const DeviceId owner = device_with_thread(copy.link); owner >= 0)
      return devices_[at(owner)].add(expected, taken);
    // What devices get from each other holds for one pattern of copies
    // (docs/performance/lessons.md).
    const Link& link = machine_.links[at(copy.link)];
    if (!on_host(link.source) && !on_host(link.target)) return;
    if (waits_for_feeder(copy, taken)) return;
    const LoneCopy lone = lone_copy(plan_, machine_, copy);
    if (lone.seconds() >= kAlone * (expected.stop_s - expected.start_s)) {
      links_[at(copy.link)].busy.add(expected, taken);
      links_[at(copy.link)].latency_s += lone.latency_s;
    } else if (const auto port = fullest_port(copy.link, expected)) {
      ports_[*port].busy.add(expected, taken);
      ports_[*port].ends.insert(ports_[*port].ends.end(), {copy.from.device, copy.to.device});
    }
  }

  /// A copy goes on piece by piece with the one that feeds it: where that one took as long, the
  /// time says nothing of this link.
  bool waits_for_feeder(const Task& copy, const Span& taken) const {
    if (copy.upstream == kNoTask) return false;
    const Span& feeder = measured_.spans[at(copy.upstream)];
    return feeder.stop_s - feeder.start_s >= kAlone * (taken.stop_s - taken.start_s);
  }

  /// The port that the copies of this link wait for in this span of the prediction.
  std::optional<std::size_t> fullest_port(LinkId link, const Span& span) const {
    std::optional<std::size_t> fullest;
    double most = kFull;
    for (const PortShare& share : machine_.links[at(link)].ports) {
      const std::size_t p = at(share.port);
      const double part = loads_[p].rate_in(span) / machine_.ports[p].capacity;
      if (!users_[p].empty()) return {};  // kernels have a part of it that nobody measures
      if (part <= most) continue;
      most = part;
      fullest = p;
    }
    return fullest;
  }

  /// The device that has a port of this link to itself for its kernels; -1: there is none.
  DeviceId device_with_thread(LinkId link) const {
    for (const PortShare& share : machine_.links[at(link)].ports)
      if (users_[at(share.port)].size() == 1) return users_[at(share.port)].front();
    return -1;
  }

  void observe_kernels(std::size_t d, const std::pair<RateId::Kind, DataType>& kind,
                       const KindOfKernel& kernels) {
    const double busy = busy_s(devices_[d].predicted);
    if (busy <= 0 || kernels.seconds <= 0) return;
    const double at_work = 1 - kernels.launch_s / kernels.seconds;
    if (at_work < kLeastWork) return;
    const double part = at_work * busy_s(kernels.predicted) / busy;
    note({kind.first, static_cast<int>(d), kind.second}, part, busy, busy_s(devices_[d].measured));
  }

  void observe_copies(const RateId& rate, const Waiting& copies) {
    const double busy = busy_s(copies.busy.predicted);
    if (busy > 0) note(rate, 1 - copies.latency_s / busy, busy, busy_s(copies.busy.measured));
  }

  /// Of `expected_s` the rate makes `part`, and the rest would take as long with any rate:
  /// taken = expected (1 - part) + expected part / factor.
  void note(const RateId& rate, double part, double expected_s, double taken_s) {
    part = std::min(part, 1.0);
    if (part < kLeastPart || taken_s <= 0) return;
    const bool was_long =
        rate.kind == RateId::Kind::beside && taken_s >= kLeastShareOfRun * measured_.seconds;
    if (expected_s < kLeastShareOfRun * predicted_.seconds && !was_long) return;
    const double rest = taken_s / expected_s - (1 - part);
    const double factor = rest <= part / kMostCorrection ? kMostCorrection : part / rest;
    found_.push_back({rate, std::max(factor, 1 / kMostCorrection)});
  }

  const Plan& plan_;
  const Machine& machine_;
  const Trace& predicted_;
  const Trace& measured_;
  std::vector<Busy> devices_;  ///< kernels, and the copies that their threads do
  std::vector<std::map<std::pair<RateId::Kind, DataType>, KindOfKernel>> kinds_;
  std::vector<Waiting> links_, ports_;
  std::vector<LoadOverTime> loads_;           ///< by port
  std::vector<std::vector<DeviceId>> users_;  ///< by port: devices whose kernels use it
  std::vector<Correction> found_;
};

}  // namespace

bool has_task_times(const Plan& plan, const Trace& trace) {
  // The CPU's lane knows its times, whether or not the devices beside it do.
  const Span* first = nullptr;
  for (std::size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    if (task.kind == TaskKind::compute && on_host(task.device())) continue;
    const Span& span = trace.spans[t];
    if (first == nullptr) first = &span;
    if (span.start_s > 0 || span.stop_s != first->stop_s) return true;
  }
  return false;
}

std::vector<Correction> observe(const Plan& plan, const Machine& machine, const Trace& predicted,
                                const Trace& measured) {
  // Kernels that wait for memory shared with the host show neither their own rate nor the link's.
  if (!plan.tuning.sharing.empty()) return {};
  return Observer(plan, machine, predicted, measured).observe();
}

std::vector<Correction> agreed(std::span<const Correction> before,
                               std::span<const Correction> now) {
  std::vector<Correction> both;
  for (const Correction& latest : now) {
    const auto earlier = std::ranges::find(before, latest.rate, &Correction::rate);
    if (earlier == before.end()) continue;
    const bool same_way = (earlier->factor < 1) == (latest.factor < 1);
    const Correction& nearer =
        distance(earlier->factor) < distance(latest.factor) ? *earlier : latest;
    if (same_way && distance(nearer.factor) > kNoise) both.push_back(nearer);
  }
  return both;
}

}  // namespace fleet

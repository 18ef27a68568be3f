// SPDX-License-Identifier: BSD-3-Clause
// watts.cpp: does one kind of work after another, and reads the energy counters meanwhile.
#include "probe/watts.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "probe/host_energy.hpp"
#include "probe/host_product.hpp"
#include "probe/small_plans.hpp"

namespace fleet {
namespace {

/// Counters that stand still for longer do not work.
constexpr double kStandstillS = 2;
/// Time for a device to reach the power of a kind of work.
constexpr double kSettleS = 0.1;
/// What one kind of work takes beyond kSettleS and the span that is measured: counters advance
/// every 100 ms.
constexpr double kPeriodS = 0.15;
/// Devices whose watts are within this ratio are alike.
constexpr double kAlike = 1.1;
/// The edges of tiles that keep a device busy, of those that are copied, and of those that take no
/// time.
constexpr std::int64_t kFillingEdge = 4096, kCopiedEdge = 2048, kTinyEdge = 16;
constexpr double kMostTasks = 20'000;
constexpr std::int64_t kHostEdge = 2048;
constexpr auto kBetweenReads = std::chrono::milliseconds(1);

/// What a device does while its power is measured; false: it cannot.
using Work = std::function<bool()>;

/// Follows one counter from a thread of its own, while others work.
class Follower {
 public:
  explicit Follower(std::function<double()> read)
      : read_(std::move(read)), thread_([this](const std::stop_token& stop) { follow(stop); }) {}

  /// Watts between the first and the last advance that lie between these times; nothing unless
  /// they are at least `span_s` apart.
  std::optional<double> watts(double from_s, double to_s, double span_s) {
    const std::lock_guard lock(mutex_);
    const auto late = [&](const Advance& a) { return a.at_s >= from_s; };
    const auto first = std::ranges::find_if(advances_, late);
    auto last = advances_.end();
    while (last != first && std::prev(last)->at_s > to_s) --last;
    if (last - first < 2 || std::prev(last)->at_s - first->at_s < span_s) return {};
    return (std::prev(last)->joules - first->joules) / (std::prev(last)->at_s - first->at_s);
  }

 private:
  struct Advance {
    double at_s, joules;
  };
  void follow(const std::stop_token& stop) {
    double before = read_();
    while (!stop.stop_requested()) {
      const double now = read_(), at_s = now_s();
      if (now != before) {
        const std::lock_guard lock(mutex_);
        advances_.push_back({at_s, now});
      }
      before = now;
      std::this_thread::sleep_for(kBetweenReads);
    }
  }

  std::function<double()> read_;
  std::mutex mutex_;
  std::vector<Advance> advances_;
  std::jthread thread_;
};

/// The counters of all devices and, last, of the host, if it can be read.
class Meter {
 public:
  explicit Meter(Backend& backend) : backend_(backend) {
    for (DeviceId d = kFirstDevice; d < std::ssize(backend.machine().devices); ++d)
      devices_.push_back(d);
  }
  bool reads_host() const { return host_.is_readable(); }
  const std::vector<DeviceId>& devices() const { return devices_; }

  /// Watts during `work`, which is repeated until each counter has advanced over `span_s` of it.
  /// Empty if one stands still, or the work cannot be done.
  std::vector<double> watts(const Work& work, double span_s);

 private:
  Backend& backend_;
  std::vector<DeviceId> devices_;
  HostEnergy host_;
};

std::vector<double> Meter::watts(const Work& work, double span_s) {
  // The first time, memory is allocated and filled, and kernels are loaded.
  if (!work()) return {};
  std::deque<Follower> followers;
  for (const DeviceId d : devices_)
    followers.emplace_back([this, d] { return backend_.joules(d).value_or(0); });
  if (reads_host()) followers.emplace_back([this] { return host_.joules(); });
  const double begin_s = now_s();
  while (true) {
    if (!work()) return {};
    const double end_s = now_s();
    std::vector<double> found;
    for (Follower& follower : followers)
      if (const auto watts = follower.watts(begin_s + kSettleS, end_s, span_s))
        found.push_back(*watts);
    if (found.size() == followers.size()) return found;
    if (end_s - begin_s > kSettleS + span_s + kStandstillS) return {};
  }
}

/// The type whose products are measured: doubles if they can be.
DataType type_of(const Machine& machine, const std::vector<DeviceId>& devices) {
  for (const DataType type : {DataType::f64, DataType::f32})
    if (std::ranges::all_of(devices, [&](DeviceId d) { return machine.can_compute(d, type); }))
      return type;
  return machine.devices[static_cast<std::size_t>(devices.front())].kernels.front().type;
}

/// Kernels that keep all devices busy for `busy_s`, or tiny ones.
ProbePlan kernels(const Machine& machine, const std::vector<DeviceId>& devices, Kernel kernel,
                  std::int64_t edge, double busy_s) {
  const DataType type = type_of(machine, devices);
  ProbePlan plan(machine, type, edge);
  for (const DeviceId d : devices) {
    std::vector<TaskId> ready;
    if (edge > kTinyEdge) ready = plan.prime(d);
    const double once_s = kernel == Kernel::multiply
                              ? machine.multiply_s(d, type, edge, edge, edge)
                              : machine.stream_s(d, 3 * edge * edge * bytes_of(type.storage));
    for (double turn = 0; turn < std::clamp(busy_s / once_s, 1.0, kMostTasks); ++turn)
      plan.kernel(d, 0, kernel, ready);
  }
  return plan;
}

/// Copies over every link that `wanted` picks, side by side for `busy_s`.
template <typename Wanted>
ProbePlan copies(const Machine& machine, Wanted wanted, double busy_s) {
  ProbePlan plan(machine, DataType::f64, kCopiedEdge);
  for (LinkId l = 0; l < std::ssize(machine.links); ++l) {
    if (!wanted(machine.links[static_cast<std::size_t>(l)])) continue;
    const double once_s = machine.copy_s(l, plan.tile_bytes());
    for (double turn = 0; turn < std::clamp(busy_s / once_s, 1.0, kMostTasks); ++turn)
      plan.copy(l, {});
  }
  return plan;
}

/// Equal numbers for devices that are nearly alike.
void even_out(std::vector<double>& watts, std::size_t count) {
  const auto end = watts.begin() + static_cast<std::ptrdiff_t>(count);
  const auto [least, most] = std::minmax_element(watts.begin(), end);
  if (*most > kAlike * *least) return;
  std::fill(watts.begin(), end,
            std::accumulate(watts.begin(), end, 0.0) / static_cast<double>(count));
}

}  // namespace

bool counts_energy(Backend& backend) {
  const auto devices = static_cast<DeviceId>(backend.machine().devices.size());
  for (DeviceId d = kFirstDevice; d < devices; ++d)
    if (!backend.joules(d)) return false;
  return devices > kFirstDevice;
}

bool measure_watts(Backend& backend, CpuBlas* blas, Machine& machine, double budget_s) {
  if (!counts_energy(backend)) return false;
  Meter meter(backend);
  const std::vector<DeviceId>& devices = meter.devices();
  const double span_s = std::max(kPeriodS, budget_s / kKindsOfWork - kSettleS - kPeriodS);
  const double busy_s = kSettleS + span_s + kPeriodS;
  ProbeMemory memory(backend);
  const auto runs = [&](ProbePlan plan) {
    return [&memory, plan = std::move(plan)] { return memory.run(plan).has_value(); };
  };
  const bool with_host = meter.reads_host() && blas != nullptr;
  const auto measure = [&](double Watts::*kind, const Work& work) {
    std::vector<double> found = meter.watts(work, span_s);
    if (found.empty()) return false;
    even_out(found, devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i)
      machine.devices[static_cast<std::size_t>(devices[i])].watts.*kind = found[i];
    if (with_host) machine.devices[kHost].watts.*kind = found.back();
    return true;
  };
  const Machine before = machine;
  const auto sleep = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return true;
  };
  const auto with_host_end = [](const Link& link) {
    return on_host(link.source) != on_host(link.target);
  };
  const auto between = [](const Link& link) {
    return !on_host(link.source) && !on_host(link.target);
  };
  const bool have_peers = std::ranges::any_of(machine.links, between);
  // Waiting comes last: a device that has worked is warm, and draws more for that.
  bool done =
      measure(&Watts::idle, sleep) &&
      measure(&Watts::copy, runs(copies(machine, with_host_end, busy_s))) &&
      (!have_peers || measure(&Watts::exchange, runs(copies(machine, between, busy_s)))) &&
      measure(&Watts::stream, runs(kernels(machine, devices, Kernel::add, kFillingEdge, busy_s))) &&
      measure(&Watts::multiply,
              runs(kernels(machine, devices, Kernel::multiply, kFillingEdge, busy_s))) &&
      measure(&Watts::wait, runs(kernels(machine, devices, Kernel::add, kTinyEdge, 0)));
  if (done && with_host) {
    const CpuBlas::Lease all_cores(*blas, core_count());
    HostProduct product(*blas, DataType::f64, kHostEdge);
    const std::vector<double> found = meter.watts([&] { return product.run_s() >= 0; }, span_s);
    done = !found.empty();
    if (done) machine.devices[kHost].watts.multiply = found.back();
  }
  for (Device& device : machine.devices) {
    Watts& watts = device.watts;
    if (!watts.known()) continue;
    watts.wait = std::max(watts.wait, watts.idle);
    if (!have_peers) watts.exchange = watts.copy;
  }
  if (!done) machine = before;
  return done;
}

void measure_watts_carefully(Backend& backend, CpuBlas* blas, Machine& machine,
                             ProbeSession& session) {
  const double budget_s =
      std::clamp(kKindsOfWork * session.share_s(), kWattsBudgetS, kCarefulWattsBudgetS);
  if (!measure_watts(backend, blas, machine, budget_s))
    session.note({.name = "watts", .unit = "W"});
}

}  // namespace fleet

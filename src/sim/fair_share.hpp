// SPDX-License-Identifier: BSD-3-Clause
// fair_share.hpp: fluid flows that share ports max-min fairly. It knows a Machine's ports and their
// users; it does not know plans, tasks or queues.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/sizes.hpp"
#include "machine/machine.hpp"

namespace fleet {

using FlowId = int;
inline constexpr FlowId kNoFlow = -1;

/// The user of a flow, which determines its ports: a link, or the kernels of a device.
using UserId = int;

/// The work of a flow: bytes of a copy (rates in bytes per second), or seconds of a kernel (rates
/// in seconds per second). `chunk` is the amount by which a chained flow lags its upstream.
struct Demand {
  UserId user = 0;
  double amount = 0;
  double cap = 0;  ///< rate with the machine otherwise idle
  double chunk = 0;
};

/// Rates by progressive filling: the rates of all flows rise equally until a flow reaches its cap,
/// or a port that it takes is full. The rate of a kernel rises so that it fills a port as fast as a
/// copy does: a kernel and a copy on one thread get half of it each.
///
/// A flow cannot overtake its upstream flow: once it lags by no more than its chunk, its rate is at
/// most that of its upstream. All changes between two calls of settle() happen at one time.
class FairShare {
 public:
  enum class Event { none, finished, chunk_arrived };

  FairShare(const Machine& machine, int flows);

  UserId user_of_link(LinkId link) const { return link; }
  UserId user_of_kernels(DeviceId device) const { return links_ + device; }

  void start(FlowId flow, const Demand& demand, FlowId upstream, double now_s);
  /// To be called when the flow has finished.
  void stop(FlowId flow);
  /// Requests a chunk_arrived event if the first chunk has not arrived yet.
  void announce(FlowId flow, double now_s);
  bool first_chunk_arrived(FlowId flow, double now_s) const;

  /// Gives every flow affected by the changes its new rate. Returns the flows whose next event may
  /// have moved; valid until the next call.
  std::span<const FlowId> settle(double now_s);

  double next_event_s(FlowId flow) const;
  /// The next event of `flow` that is due by `now_s`; one per call.
  Event take_event(FlowId flow, double now_s);

  /// How often a flow got a new rate: the measure of what the sharing has cost.
  std::int64_t rates_given() const { return rates_given_; }

  bool active(FlowId flow) const { return at(flow).active; }
  double rate(FlowId flow) const { return at(flow).rate; }

 private:
  struct Flow {
    double left = 0;  ///< at since_s
    double rate = 0;
    double since_s = 0;
    double amount = 0;
    double cap = 0;
    double limit = 0;  ///< while filling: the cap, or less if an upstream is slower
    double rise = 1;
    double chunk = 0;
    double finish_s = kNever;
    double chunk_s = kNever;  ///< when the first chunk arrives, if requested
    double catch_s = kNever;  ///< when the flow catches up with its upstream
    UserId user = 0;
    FlowId upstream = kNoFlow;
    FlowId child = kNoFlow;    ///< first downstream flow
    FlowId sibling = kNoFlow;  ///< next downstream flow of the same upstream
    unsigned mark = 0;
    bool active = false;
    bool leaving = false;  ///< finished; keeps its ports until settle()
    bool announced = false;
  };
  struct Take {
    PortId port;
    double weight;
  };
  struct PortState {
    double capacity = 0;
    double wanted = 0;  ///< demand of its flows at their caps
    double free = 0;    ///< while filling: capacity left by frozen flows
    double pace = 0;    ///< while filling: units per level taken by the rising flows
    int rising = 0;
    unsigned mark = 0;
    bool contested = false;
    std::vector<FlowId> flows;
    bool overbooked() const { return wanted > capacity * (1 + 1e-9); }
  };

  Flow& at(FlowId flow) { return flows_[static_cast<std::size_t>(flow)]; }
  const Flow& at(FlowId flow) const { return flows_[static_cast<std::size_t>(flow)]; }
  std::span<const Take> takes(UserId user) const {
    const auto u = static_cast<std::size_t>(user);
    return {takes_.data() + take_begin_[u], take_begin_[u + 1] - take_begin_[u]};
  }
  PortState& port(const Take& take) { return ports_[static_cast<std::size_t>(take.port)]; }

  void add_user(std::span<const PortShare> shares, PortId own_port);
  void set_kernel_pace(const Machine& machine);
  void join(FlowId flow);
  void leave(FlowId flow);
  double left_at(const Flow& flow, double now_s) const {
    return flow.left - flow.rate * (now_s - flow.since_s);
  }
  bool caught_up(const Flow& flow, double now_s) const;

  void collect();
  void collect_flow(FlowId flow);
  void collect_port(PortState& port);
  void prepare_filling(double now_s);
  void limit_by_upstream(Flow& flow, double now_s);
  void fill();
  void freeze(std::size_t index, double level);
  void hold_back(const Flow& ahead, double level);
  void freeze_full_port(PortState& full, double level);
  void schedule(Flow& flow, double now_s);

  int links_;
  std::vector<Flow> flows_;
  std::vector<PortState> ports_;
  std::vector<Take> takes_;
  std::vector<std::size_t> take_begin_{0};
  std::vector<double> rise_;  ///< rate per level, by user
  unsigned mark_ = 0;
  std::int64_t rates_given_ = 0;

  // Work lists, kept between calls for their storage.
  std::vector<FlowId> touched_flows_, leaving_, affected_, rising_, restarted_;
  std::vector<PortState*> touched_ports_, contested_;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// lanes.hpp: the clocks of all ranks: one lane computes, one has messages. It knows no algorithm.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/tasks.hpp"
#include "sim/costs.hpp"
#include "sim/load.hpp"

namespace fleet::lu {

/// What the seconds of a rank go to.
enum class Spent {
  panel,     ///< panels, or squares without pivots
  pivots,    ///< messages within panels
  copy,      ///< rows packed and unpacked
  solve,     ///< dtrsm
  ahead,     ///< products that the next panel needs
  product,   ///< all other products
  wait,      ///< for panels, or for L and U
  wait_rows  ///< for rows that are exchanged
};
constexpr std::size_t kSpentKinds = 8;

/// Of a lane, for tests and pictures.
struct LaneSpan {
  enum class Lane { main, messages };
  int rank;
  Lane lane;
  Spent spent;
  std::int64_t step;
  double begin_s, end_s;
};

/// Ranks `first`, `first` + `stride` and so on, and what their message takes once all are ready.
struct Group {
  int first = 0, stride = 1, count = 0;
  double cost_s = 0;
  double end_s = 0;  ///< once it is known
};

struct Totals {
  std::array<double, kSpentKinds> rank_s{};  ///< sums over all ranks
  double message_s = 0;                      ///< of all ranks' lanes of messages
  double transfer_s = 0;                     ///< between the host and GPUs
  double flops = 0;
};

/// How the CPU's part and the transfers to GPUs follow each other (paper 3, 4.6).
enum class Transfers {
  first,   ///< all cores rest while matrices go to the GPU
  overlap  ///< one core brings them, the others compute
};

class Lanes {
 public:
  struct Options {
    Overlap overlap;
    Transfers transfers;
    bool keeps_spans = false;
    /// Ranks share the cores of one machine; they have no GPUs then.
    OneMachine machine = {};
  };
  Lanes(int ranks, int cores, Options options);

  /// Cores that compute in general. With `full` one of them is away while a message is under way.
  double cores() const { return cores_; }
  /// `seconds` of the computing lane.
  void compute(int rank, Spent spent, std::int64_t step, double seconds);
  /// Seconds of the cores, and of the GPUs until the core that serves them is needed.
  struct Sides {
    double cpu_s = 0, gpu_s = 0;
  };
  Sides work(int rank, Spent spent, std::int64_t step, const SharedWork& work);
  /// One of the cores has messages now.
  bool has_messages(int rank) const;
  /// All members have their parts ready. With a core for messages the message starts when the last
  /// member is, else when all wait for it (without a thread nothing goes on meanwhile).
  void post(Group& group, Spent spent, std::int64_t step);
  void wait(Group& group, Spent spent, std::int64_t step);
  /// Without a thread, a message that its members begin to look at while they compute.
  void begin(Group& group, Spent spent, std::int64_t step) {
    if (!is_driven() && group.cost_s > 0) start(group, spent, step);
  }
  /// What a rank works on next does not need the message that ends at `end_s`; what it posts
  /// meanwhile does. Then `reach` waits for it.
  void expect(int rank, double end_s) { expected_s_[static_cast<std::size_t>(rank)] = end_s; }
  void reach(int rank, Spent spent, std::int64_t step);
  /// `seconds` of the computing lane for what is posted next, once what is expected is there.
  void prepare(int rank, Spent spent, std::int64_t step, double seconds);
  /// Messages go on while ranks compute.
  bool is_driven() const {
    return options_.overlap == Overlap::dedicated || options_.overlap == Overlap::full;
  }
  /// What a message loses to others on its links while it is under way.
  void delay(Group& group, double seconds);
  /// A message that all members wait for, beside those that others bring.
  void meet(const Group& group, Spent spent, std::int64_t step);
  void count(double flops) { totals_.flops += flops; }
  /// When the last rank is done.
  double end_s();

  const Totals& totals() const { return totals_; }
  std::vector<LaneSpan>& spans() { return spans_; }

 private:
  struct Interval {
    double begin_s = 0, end_s = 0;
  };
  double ready_s(std::size_t rank) const { return std::max(main_s_[rank], expected_s_[rank]); }
  void start(Group& group, Spent spent, std::int64_t step);
  /// Where ranks share cores, work is kept until somebody asks when it ends: how fast it is depends
  /// on who works at the same time.
  void settle();
  void pass(std::size_t rank, Spent spent, std::int64_t step, double end_s);
  /// When `core_s` of work end that begin at `begin_s`.
  double cores_end_s(std::size_t rank, double begin_s, double core_s) const;

  const Options options_;
  const double cores_;
  std::vector<double> main_s_, link_s_, expected_s_;
  /// The last times that a core had messages, by rank, the oldest first.
  std::vector<std::array<Interval, 4>> away_;
  struct Piece {
    Spent spent;
    std::int64_t step;
    double seconds;
  };
  std::optional<Load> load_;  ///< where ranks share cores
  std::vector<std::vector<Piece>> kept_;
  Totals totals_;
  std::vector<LaneSpan> spans_;
};

}  // namespace fleet::lu

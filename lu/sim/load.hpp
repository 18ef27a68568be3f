// SPDX-License-Identifier: BSD-3-Clause
// load.hpp: ranks of one machine that have fewer cores together than they would use. It knows no
// messages and no work by name.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace fleet::lu {

/// The cores of a machine. Messages come first, as interrupts and threads that have slept do; what
/// they leave is shared by all who compute.
class Load {
 public:
  explicit Load(double cores) : cores_(cores) {}

  /// From begin_s to end_s a message takes `demand` cores.
  void note_message(double begin_s, double end_s, double demand) {
    if (end_s > begin_s && demand > 0) messages_.push_back({begin_s, end_s, demand});
  }
  /// Nothing begins before that any more.
  void forget(double before_s) {
    for (std::vector<Use>* const uses : {&messages_, &work_})
      std::erase_if(*uses, [before_s](const Use& use) { return use.end_s <= before_s; });
  }

  /// One piece of work after another, from `now_s` on, each with the seconds that it takes where
  /// its cores are free.
  struct Chain {
    double now_s = 0, demand = 0;
    std::vector<double> seconds;
    std::vector<double> end_s;  ///< of each piece, once they are run
  };
  /// All chains beside each other, beside messages and beside what was run before.
  void run(std::vector<Chain>& chains);

 private:
  struct Use {
    double begin_s, end_s, demand;
  };
  /// Of what is known: work, or messages.
  static double demand(const std::vector<Use>& uses, double at_s);
  /// The first time after `at_s` when something that is known begins or ends.
  double next_change_s(double at_s) const;

  const double cores_;
  std::vector<Use> messages_, work_;
};

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// solver.hpp: one system on the ranks of a grid, wherever its matrix lies. It knows no clock.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "factor/factor.hpp"
#include "work/workshop.hpp"

namespace fleet::lu {

struct Trial {
  std::int64_t n, nb;
  int rows, cols;
  bool column_major = false;
  Schedule schedule;
  /// How ranks read their node's energy counters, which all of them share.
  struct Counters {
    std::string folder = "/sys/class/powercap";
    int ranks_on_node = 1;
  };
  Counters counters = {};
};

/// All ranks of the grid make the same calls. Each may throw Failure.
class Solver {
 public:
  virtual ~Solver() = default;
  /// Why there is none for this trial, on all ranks the same; empty if there is one.
  virtual std::string refusal() const = 0;
  /// Makes the system, and whatever takes memory or time once.
  virtual void prepare() = 0;
  virtual Factored factor(const std::function<void(std::int64_t, std::int64_t)>& after_step) = 0;
  virtual std::vector<double> solve() = 0;
  /// How panels come to other ranks, once prepared; empty: in host memory, as all messages do.
  virtual std::string panel_way() const { return {}; }
  /// Of the system as it was.
  virtual double residual(const std::vector<double>& x) = 0;
};

/// In the memory of the first device that `means` names, or on the host where it names none. All
/// outlive it.
std::unique_ptr<Solver> make_solver(const Trial& trial, const Grid& grid, const Means& means,
                                    const Rank& rank);

}  // namespace fleet::lu

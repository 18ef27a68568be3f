// SPDX-License-Identifier: BSD-3-Clause
// balance.hpp: how much of its work a rank does by its cores where it has devices too (R of paper
// 3), by what both took before. Pure: the program and the simulator ask the same.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

namespace fleet::lu {

/// Kinds of work, each with a share of its own (paper 3, Table 5).
enum class Work {
  solve,      ///< dtrsm by itself, which only paper 3's tasks have: else it is part of the others
  ahead,      ///< what the next panel needs: few columns, so that transfers weigh more
  alone,      ///< the others, by all cores
  overlapped  ///< the others, while one of the cores has messages to drive
};
constexpr std::size_t kWorks = 4;
const char* to_string(Work work);

/// Of columns (or rows) that are worked on at once, those of the CPU.
struct Split {
  std::int64_t columns, on_cpu;
};

/// The shares for which cores and devices end together: P_cpu/(P_cpu + P_devices), with the rates
/// that both had at work of the same kind; or none of the cores', where devices alone are faster.
class Balance {
 public:
  /// `cores` do the CPU's part. `given`: that share always.
  explicit Balance(int cores = 1, std::optional<double> given = {})
      : cores_(cores), given_(given) {}

  /// The next work on up to `columns`. Where nothing is known of a kind it is a few of them, to be
  /// measured; ask again for the others.
  Split split(Work work, std::int64_t columns) const;
  /// What a split took: work in any unit, always the same one, and seconds, on either side. A side
  /// without work teaches nothing.
  struct Taken {
    double cpu = 0, cpu_s = 0, devices = 0, devices_s = 0;
  };
  void learn(Work work, const Taken& taken);

  /// The work of a kind so far.
  struct Done {
    double cpu = 0, all = 0;
  };
  const std::array<Done, kWorks>& done() const { return done_; }

 private:
  struct Rates {
    double cpu = 0, devices = 0;     ///< 0: not known
    bool are_tried = false;          ///< by a few columns only
    double together = 0, alone = 0;  ///< of all, with cores and by devices alone; 0: not known
    int times_same = 0;              ///< in a row, either way
    bool were_together = false;
  };
  bool is_known(Work work) const;
  /// Do cores take part?
  bool has_cpu(const Rates& rates) const;
  Split trial(std::int64_t columns) const;
  double share(const Rates& rates) const;

  int cores_;
  std::optional<double> given_;
  std::array<Rates, kWorks> rates_;
  std::array<Done, kWorks> done_;
};

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// rank.hpp: what a rank computes and waits with. It knows no matrices.
#pragma once
#include "work/blas.hpp"
#include "work/crew.hpp"
#include "work/devices.hpp"
#include "work/engine.hpp"
#include "work/recorder.hpp"

namespace fleet::lu {

struct Rank {
  const Blas& one_core;   ///< of a task of the crew
  const Blas& all_cores;  ///< of the thread that factors, alone
  Crew& crew;
  Engine& engine;
  Recorder& recorder;
  Devices* devices = nullptr;  ///< none: cores do it all
  /// Whoever computes looks after messages between tasks: no thread does.
  bool polls = false;

  /// Work on columns, by all cores of the rank; `between` as Crew::share says.
  void share(std::int64_t columns, const std::function<void(std::int64_t, std::int64_t)>& work,
             const std::function<void()>& between = {}) const {
    crew.share(columns, work, looking_after(between));
  }
  /// `between`, and messages where whoever computes looks after them.
  std::function<void()> looking_after(const std::function<void()>& between) const {
    if (!polls) return between;
    return [this, &between] {
      engine.poll();
      if (between) between();
    };
  }
};

}  // namespace fleet::lu

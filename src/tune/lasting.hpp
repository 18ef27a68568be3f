// SPDX-License-Identifier: BSD-3-Clause
// lasting.hpp: plans for what lasts of a machine that runs have corrected, at prices by all of it.
#pragma once
#include "machine/corrections.hpp"
#include "sim/simulate.hpp"
#include "tune/tune.hpp"

namespace fleet {

inline void price(Tuned& tuned, const Machine& machine) {
  tuned.cost = predicted(tuned.plan, machine);
}

/// What `tune_for` finds for for_plans(machine), with its cost by `machine`. The times of its
/// candidates stay those by which it was chosen.
template <typename TuneFor>
auto tuned_for_lasting(const Machine& machine, const TuneFor& tune_for) {
  const Machine lasting = for_plans(machine);
  auto tuned = tune_for(lasting);
  if (lasting != machine) price(tuned, machine);
  return tuned;
}

}  // namespace fleet

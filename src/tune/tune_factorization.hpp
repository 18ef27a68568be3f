// SPDX-License-Identifier: BSD-3-Clause
// tune_factorization.hpp: the width of strips, the devices and the stages of a factorization. Pure.
#pragma once
#include "tune/tune.hpp"

namespace fleet {

/// A width of strips on some of the devices that the tuner tried.
struct TriedStrips {
  std::int64_t width = 0;
  std::vector<DeviceId> workers;
  std::size_t stages = 0, tasks = 0;
  Cost cost;            ///< predicted, of all stages; 0 s where there is no plan
  double value = 0;     ///< by the request's goal
  std::string refusal;  ///< why there is no plan; empty: there is one
};

/// A factorization as one plan for each stage, in their order.
struct TunedFactorization {
  std::vector<Plan> stages;
  Cost cost;                       ///< predicted: of the simulated plans, one after another
  std::int64_t width = 0;          ///< of strips, in elements
  int planned = 0;                 ///< candidates that were planned and simulated
  std::vector<TriedStrips> tried;  ///< all of them, in the order of the search
};

/// Plans and simulates widths of strips (request.tile alone, if it is not 0) for all workers, and
/// with request.selects for fewer, and returns what takes the least value by the request's goal.
/// Where the strips do not fit into memory, it takes stages. Throws Error(no_memory) where not one
/// strip of any width fits, and as schedule_factorization.
TunedFactorization tune(const Factorization& what, const Machine& machine,
                        const TuneRequest& request);

/// Seconds of the factorization by the CPU's LAPACK on all cores: at the rate of its products,
/// which it reaches about two thirds of; infinite if the host has no rates.
double host_s(const Factorization& what, const Machine& machine);

}  // namespace fleet

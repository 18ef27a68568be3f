// SPDX-License-Identifier: BSD-3-Clause
// ahead.hpp: candidates of one problem, planned and simulated before their turn by helpers. It
// chooses none: what comes out is the same with any number of helpers.
#pragma once
#include <exception>
#include <optional>
#include <vector>

#include "base/helpers.hpp"
#include "plan/plan.hpp"
#include "sim/trace.hpp"

namespace fleet {

class Ahead {
 public:
  struct Simulated {
    Plan plan;
    Trace trace;
    std::int64_t rates_given = 0;  ///< as simulate() says
  };

  /// Both must outlive it.
  Ahead(const Problem& problem, const Machine& machine) : problem_(problem), machine_(machine) {}

  Helpers& helpers() { return helpers_; }
  /// These are likely to be asked for, in this order, and none of those expected before.
  void expect(const std::vector<Tuning>& tunings);
  /// Plans and simulates it, unless that has happened. Throws as make_plan.
  Simulated take(const Tuning& tuning);

 private:
  struct Expected {
    Tuning tuning;
    std::optional<Simulated> simulated;
    std::exception_ptr refusal;
    std::shared_ptr<Helpers::Job> job;
  };
  Simulated simulated(const Tuning& tuning);

  const Problem& problem_;
  const Machine& machine_;
  Expansions expansions_;  ///< shared by candidates with equal cuts
  std::vector<std::shared_ptr<Expected>> expected_;
  Helpers helpers_;  ///< goes before what they work at
};

}  // namespace fleet

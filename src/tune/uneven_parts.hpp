// SPDX-License-Identifier: BSD-3-Clause
// uneven_parts.hpp: variants of the fastest plans of a team in which workers have uneven parts of
// C, or tiles of their own sizes.
#pragma once
#include <vector>

#include "tune/attempts.hpp"
#include "tune/teams.hpp"
#include "tune/tune.hpp"

namespace fleet {

class UnevenParts {
 public:
  /// All must outlive it.
  UnevenParts(const Problem& problem, const Machine& machine, const TuneRequest& request,
              Attempts& attempts)
      : problem_(problem),
        machine_(machine),
        request_(request),
        attempts_(attempts),
        choice_(attempts.choice()) {}

  /// Parts of C that are larger for the owner of operands, or for faster workers, and tiles of two
  /// sizes: each while a part of the budget lasts.
  void attempt(const Team& team);

 private:
  void attempt_owned(const Team& team, std::int64_t end);
  void attempt_balanced(const Team& team, std::int64_t end);
  void attempt_two_sizes(const Team& team, std::int64_t end);
  bool may_cut(const Tuning& tuning) const;
  int owner(const Team& workers) const;
  std::vector<double> speeds(const Tuning& tuning) const;
  double speed_of_input(DeviceId worker, int factor) const;
  double all_by_s(DeviceId device, const Tuning& tuning) const;

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  Attempts& attempts_;
  Choice& choice_;
};

}  // namespace fleet

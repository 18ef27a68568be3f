// SPDX-License-Identifier: BSD-3-Clause
// paralia.hpp: the model by which PARALiA chooses devices and their shares (paper 2, 3.1 to 3.3,
// equations 1 to 5). It makes no plan.
#pragma once
#include <vector>

#include "tune/teams.hpp"

namespace fleet {

/// What the model predicts for a set of devices.
struct Selection {
  Team workers;
  std::vector<double> shares;  ///< of the tiles, by worker (3.5: each gets its ratio of them)
  double seconds = 0;          ///< Eq. 5, of the slowest device
  double joules = 0;           ///< their watts while they multiply, all the time; 0: not known
};

/// Eq. 1 to 5 for `workers` with shares that start equal and are adjusted until the predicted times
/// agree within 5 % (3.1); with equal ones only, if not `adjusts`.
///
/// Readings: Eq. 3 and 4 have bytes / devices, which is the share here (the same where shares are
/// equal); the extra bytes of Eq. 4 are of those portions, which is what a 2D grid really
/// exchanges; shared bandwidth is bandwidth / slowdown, where the slowdown of two links that work
/// at once is their load on a port beyond its capacity, at most 2 (3.4), and the worst partner
/// counts; routes pass through one more device of the set at most; devices that share memory have
/// link time zero.
enum class Shares { equal, adjusted };
Selection predict_as_paralia(const Problem& problem, const Machine& machine, const Team& workers,
                             Shares shares);

/// The set with the least value of the request's goal by this prediction; all workers with equal
/// shares where the request does not select (its `comm_opt`).
Selection select_as_paralia(const Problem& problem, const Machine& machine, const Team& workers,
                            const TuneRequest& request);

}  // namespace fleet

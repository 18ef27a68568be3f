// SPDX-License-Identifier: BSD-3-Clause
// machine.hpp: the GPUs of this node as a Machine whose rates are still to be measured. It
// must not know plans.
#pragma once
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "run/backend.hpp"

namespace fleet::cuda {

/// GPUs that CUDA shows to this process (CUDA_VISIBLE_DEVICES), 0 when there is no driver or none
/// that is new enough; `why` says so then.
int visible_devices(std::string& why);

/// Those of these devices that have a context, or room for one, and for a few bytes.
std::vector<int> usable_devices(const std::vector<int>& ordinals);

/// How copies between an ordered pair of GPUs turned out to work.
enum class Peer {
  direct,   ///< a copy by the copy engine arrived as it was sent
  refused,  ///< the driver says that there is no peer access
  wrong,    ///< the driver says that there is, and what arrived was something else
};

/// Makes CUDA's contexts on these devices, side by side. One that fails says so to whoever uses it.
void start_contexts(const std::vector<int>& ordinals);

/// Peer access switched on for every ordered pair of these devices for which the driver allows it,
/// and each pair tried with data: result[from][to]. Throws Error(device_failed, no_memory).
std::vector<std::vector<Peer>> connect(const std::vector<int>& ordinals);

/// What makes the panels of Cholesky factorizations.
enum class CholeskyPanels { kernels, cusolver };

/// Devices, links and ports of these GPUs with placeholder rates, and no link for a pair that is
/// not direct.
Machine shape_of(const std::vector<int>& ordinals, const std::vector<std::vector<Peer>>& peers,
                 CholeskyPanels cholesky);

/// Compute capability of the current device: 90 for 9.0, 0 where it cannot be asked.
int capability_of_device();

/// Driver, GPUs and pairs, for `fleetblas doctor`. Throws Error(device_failed).
std::vector<Finding> describe(const std::vector<int>& ordinals,
                              const std::vector<std::vector<Peer>>& peers);

/// The facts that measured rates depend on: driver, and name and identity of each GPU.
std::string identity_of(const std::vector<int>& ordinals);

}  // namespace fleet::cuda

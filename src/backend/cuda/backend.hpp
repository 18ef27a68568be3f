// SPDX-License-Identifier: BSD-3-Clause
// backend.hpp: GPUs. In a library of its own, which libfleetblas.so loads at run time
// (device_library.hpp); nothing else needs CUDA.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "run/backend.hpp"

namespace fleet::cuda {

/// The GPUs with these numbers (as CUDA counts them within CUDA_VISIBLE_DEVICES), as devices from
/// kFirstDevice on in this order. machine() has placeholder rates: see probe.
///
/// Streams per queue, events between them; copies by copy engines, and by a kernel where an engine
/// would overwrite the opposite triangle; pageable memory through a pinned ring filled by CPU
/// threads. A plan that comes again with the same arguments is also tried as one graph over all
/// devices, and then run in the way that took less. Throws Error(device_failed, unsupported,
/// no_memory, bad_option).
std::unique_ptr<Backend> make_backend(const Options& options, const std::vector<int>& ordinals);

}  // namespace fleet::cuda

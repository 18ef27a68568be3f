// SPDX-License-Identifier: BSD-3-Clause
// known_kernels.hpp: the launches whose kernels the driver has loaded. It must not know who
// launches.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cuda/stream_memory.hpp"
#include "base/error.hpp"
#include "run/launch.hpp"

namespace fleet::cuda {

// The driver loads a kernel with its first launch, and waits for all streams of the device then:
// for ever, if a stream of the program is held until this launch is done. Which kernel cuBLAS takes
// depends on sizes too: a product of floats of another size has another one.

/// Names what a launch needs on a device: where two have the same, the second loads nothing.
std::uint64_t kernels_of(const Launch& launch, int ordinal);

bool are_known(std::uint64_t kernels);
void note_known(std::uint64_t kernels);

/// Launches that had to be refused, of a device; they are forgotten.
std::vector<Launch> take_wanted(int ordinal);
void want(const Launch& launch, int ordinal);

/// Calls `put`, which puts the launch into a stream of the device. `known` spares the next one like
/// it the look. Throws Error(device_failed) if a kernel would have to be loaded while a stream is
/// held.
template <typename Put>
void put_if_loaded(const Launch& launch, int ordinal, std::uint64_t& known, Put&& put) {
  const std::uint64_t kernels = kernels_of(launch, ordinal);
  std::optional<NoNewHold> as_it_is;
  if (kernels != known && !are_known(kernels)) {
    as_it_is.emplace();
    if (any_stream_is_held()) {
      want(launch, ordinal);
      throw Error(Status::device_failed,
                  "a kernel cannot be loaded while a stream waits for an event");
    }
  }
  put();
  if (as_it_is) note_known(kernels);
  known = kernels;
}

}  // namespace fleet::cuda

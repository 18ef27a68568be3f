// SPDX-License-Identifier: BSD-3-Clause
// known_kernels.hpp: the launches whose kernels the driver has loaded. It must not know who
// launches.
#pragma once
#include <cstdint>
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

/// The same of what no Launch says: the first product of a type, and squares of triangles in words
/// of so many bytes.
enum class OtherKernels : std::uint64_t { first_product, squares };
std::uint64_t kernels_of(OtherKernels what, std::uint64_t which, int ordinal);

bool are_known(std::uint64_t kernels);
void note_known(std::uint64_t kernels);

/// Launches that had to be refused, of a device; they are forgotten.
std::vector<Launch> take_wanted(int ordinal);
void want(const Launch& launch, int ordinal);

/// Calls `put`, which launches these kernels. False, without, if they would have to be loaded while
/// a stream is held.
template <typename Put>
bool puts_loaded(std::uint64_t kernels, Put&& put) {
  if (are_known(kernels)) return put(), true;
  const NoNewHold as_it_is;
  if (any_stream_is_held()) return false;
  put();
  note_known(kernels);
  return true;
}

/// Calls `put`, which puts the launch into a stream of the device. `known` spares the next one like
/// it the look. Throws Error(device_failed) if a kernel would have to be loaded while a stream is
/// held.
template <typename Put>
void put_if_loaded(const Launch& launch, int ordinal, std::uint64_t& known, Put&& put) {
  const std::uint64_t kernels = kernels_of(launch, ordinal);
  if (kernels == known) return put();
  if (!puts_loaded(kernels, put)) {
    want(launch, ordinal);
    throw Error(Status::device_failed,
                "a kernel cannot be loaded while a stream waits for an event");
  }
  known = kernels;
}

}  // namespace fleet::cuda

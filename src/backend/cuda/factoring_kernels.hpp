// SPDX-License-Identifier: BSD-3-Clause
// factoring_kernels.hpp: copies between the parts of a panel, and what of a block reflector is no
// product. It knows no panel's layout.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "run/launch.hpp"

namespace fleet::cuda {

// All throw Error(device_failed), and take elements of the four types of BLAS.

/// Copies the elements of `from` that its fill names, and no others.
void copy_filled(Storage storage, const View& from, const View& to, cudaStream_t stream);
/// The strictly lower part of the square `from`.
void copy_below_diagonal(Storage storage, const View& from, const View& to, cudaStream_t stream);
/// The diagonal of the square `from`, as a column.
void copy_diagonal(Storage storage, const View& from, void* to, cudaStream_t stream);
/// The square becomes a unit lower triangle: ones on its diagonal, zeros above.
void make_unit_lower(Storage storage, const View& square, cudaStream_t stream);
/// The identity.
void make_identity(Storage storage, const View& square, cudaStream_t stream);
/// The places of two halves of each element of a matrix.
struct SplitPlaces {
  void* first = nullptr;
  void* second = nullptr;
  std::int64_t ld = 0;  ///< of both, in halves
};
/// first + second / Panel::kSecond = from * factor, to 22 bits, for floats.
void split_in_halves(const View& from, float factor, const SplitPlaces& to, cudaStream_t stream);
/// The triangular factors of blocks of `edge` reflectors each, as larft makes them: of the products
/// v^H*v, which are a square, and tau. t is zero before.
void make_small_factors(Storage storage, const View& products, const void* tau, std::int64_t edge,
                        const View& t, cudaStream_t stream);

}  // namespace fleet::cuda

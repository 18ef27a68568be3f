// SPDX-License-Identifier: BSD-3-Clause
// binding.hpp: what one run binds to a plan: the addresses of its matrices, and its scalars.
#pragma once
#include <array>
#include <complex>
#include <cstdint>
#include <span>
#include <vector>

#include "program/tile_program.hpp"

namespace fleet {

/// The values that one call binds to a plan: per operand a pointer, a leading dimension and the
/// distance between the items of a batch (elements), and the scalars. Real types use the real
/// parts. The leading dimension of a vector is its increment, negative where its elements lie last
/// first; the pointer is always to the lowest address.
struct Arguments {
  std::array<void*, 3> data{};
  std::array<std::int64_t, 3> ld{};
  std::array<std::int64_t, 3> stride{};
  std::complex<double> alpha{1, 0};
  std::complex<double> beta{1, 0};
};

/// By device and slot: the memory of slots that outlive a plan; null for those of its arena. Empty
/// where the plan has none.
using KeptSlots = std::vector<std::vector<void*>>;

/// The values that a run binds to a plan, by the ids of its program: the homes of its matrices, and
/// scalars.
struct Binding {
  struct Matrix {
    void* data = nullptr;
    std::int64_t ld = 0;      ///< elements; negative: a vector whose elements lie last first
    std::int64_t stride = 0;  ///< elements between the items of a batch
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  std::vector<Matrix> matrices;
  std::vector<std::complex<double>> scalars;
  KeptSlots slots = {};
  friend bool operator==(const Binding&, const Binding&) = default;
};

/// Binds the arguments of each call of a program. Throws std::bad_alloc.
Binding bind(const TileProgram& program, std::span<const Arguments> calls);

/// Binds a factorization: the matrix, and memory for the outcomes of its panels,
/// outcome_elements(panels) elements, which decode_outcomes reads. Throws std::bad_alloc.
Binding bind(const Strips& strips, void* a, std::int64_t lda, void* outcomes);

/// What the outcomes of a factorization say, in LAPACK's words: returns its info. `pivots`
/// (1-based; getrf) and `tau` (elements; geqrf) are diagonal() long.
std::int64_t decode_outcomes(const Strips& strips, const void* outcomes, std::int64_t* pivots,
                             void* tau);

}  // namespace fleet

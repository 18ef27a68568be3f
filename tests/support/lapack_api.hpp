// SPDX-License-Identifier: BSD-3-Clause
// lapack_api.hpp: the functions of lapack.h by element type, and matrices at the places that they
// take. It knows no factorization.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fleetblas/lapack.h"
#include "support/lapack_matrix.hpp"

namespace fleet::test {

template <typename T>
struct Lapack;
#define FLEET_LAPACK(x, T, org, orm)                              \
  template <>                                                     \
  struct Lapack<T> {                                              \
    static constexpr auto potrf = fleet_##x##potrf;               \
    static constexpr auto getrf = fleet_##x##getrf;               \
    static constexpr auto getrf_panel = fleet_##x##getrf_panel;   \
    static constexpr auto getrf_pivots = fleet_##x##getrf_pivots; \
    static constexpr auto getrf_apply = fleet_##x##getrf_apply;   \
    static constexpr auto getrf_update = fleet_##x##getrf_update; \
    static constexpr auto lacpy = fleet_##x##lacpy;               \
    static constexpr auto pack_rows = fleet_##x##pack_rows;       \
    static constexpr auto unpack_rows = fleet_##x##unpack_rows;   \
    static constexpr auto geqrf = fleet_##x##geqrf;               \
    static constexpr auto potrs = fleet_##x##potrs;               \
    static constexpr auto getrs = fleet_##x##getrs;               \
    static constexpr auto posv = fleet_##x##posv;                 \
    static constexpr auto gesv = fleet_##x##gesv;                 \
    static constexpr auto solve = fleet_##x##solve;               \
    static constexpr auto trtrs = fleet_##x##trtrs;               \
    static constexpr auto inverse = fleet_##x##inverse;           \
    static constexpr auto slogdet = fleet_##x##slogdet;           \
    static constexpr auto trtri = fleet_##x##trtri;               \
    static constexpr auto getri = fleet_##x##getri;               \
    static constexpr auto potri = fleet_##x##potri;               \
    static constexpr auto lauum = fleet_##x##lauum;               \
    static constexpr auto orgqr = fleet_##x##org;                 \
    static constexpr auto ormqr = fleet_##x##orm;                 \
    static constexpr auto larfb = fleet_##x##larfb;               \
  };
FLEET_LAPACK(s, float, orgqr, ormqr)
FLEET_LAPACK(d, double, orgqr, ormqr)
FLEET_LAPACK(c, std::complex<float>, ungqr, unmqr)
FLEET_LAPACK(z, std::complex<double>, ungqr, unmqr)
#undef FLEET_LAPACK

/// Any host memory that a program has: the matrix itself.
inline constexpr int kOwnMemory = -3;

/// A matrix at a location of a context, from begin to end of its life.
template <typename T>
class Placed {
 public:
  Placed(fleet_context* context, const Matrix<T>& matrix, int location)
      : context_(context), matrix_(matrix), location_(location) {
    if (location == kOwnMemory) return;
    EXPECT_EQ(fleet_alloc(context, location, bytes(), &place_), FLEET_OK) << fleet_message();
    EXPECT_EQ(fleet_copy(context, place_, matrix_.data.data(), bytes()), FLEET_OK);
  }
  ~Placed() {
    if (place_ != nullptr) fleet_free(context_, place_);
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  T* data() { return location_ == kOwnMemory ? matrix_.data.data() : static_cast<T*>(place_); }
  std::int64_t ld() const { return matrix_.ld; }
  /// As it is now, with what is between its columns.
  const Matrix<T>& now() {
    if (place_ != nullptr) {
      EXPECT_EQ(fleet_copy(context_, matrix_.data.data(), place_, bytes()), FLEET_OK);
    }
    return matrix_;
  }

 private:
  std::size_t bytes() const { return matrix_.data.size() * sizeof(T); }

  fleet_context* context_;
  Matrix<T> matrix_;
  int location_;
  void* place_ = nullptr;
};

}  // namespace fleet::test

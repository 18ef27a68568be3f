// SPDX-License-Identifier: BSD-3-Clause
// test_lapack_no_memory.cpp: any allocation in LAPACK's routines may fail: the result is right, or
// the status says that nothing was touched. It knows nothing below the C API.
#include <gtest/gtest.h>

#include "support/failing_new.hpp"
#include "support/host_context.hpp"
#include "support/lapack_api.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::difference;
using test::HostContext;
using test::Matrix;
using test::product;
using test::with_failure;
using Real = Matrix<double>;

/// Calls `call` with its n-th allocation failing, for every n, or for fewer in sanitizer builds;
/// after each one of `is_right` and `is_untouched`, by the status.
void fail_everywhere(const auto& reset, const auto& call, const auto& is_right,
                     const auto& is_untouched) {
  for (const bool one : {true, false}) {
    bool failed = true;
    for (long n = 1; failed; n += test::scaled_step()) {
      reset();
      fleet_status status = FLEET_INTERNAL;
      failed = with_failure(n, one, [&] { status = call(); });
      if (status == FLEET_OK) {
        ASSERT_TRUE(is_right()) << "allocation " << n;
      } else {
        ASSERT_EQ(status, FLEET_NO_MEMORY) << fleet_message() << " at allocation " << n;
        ASSERT_TRUE(is_untouched()) << "allocation " << n;
      }
    }
  }
}

class LapackNoMemory : public testing::Test {
 protected:
  LapackNoMemory() { a_.strengthen(); }
  bool solves() const {
    return difference(product(Op::none, a_, Op::none, x_), b_).largest() < 1e-10;
  }
  void reset() {
    matrix_ = a_;
    x_ = b_;
  }
  std::mt19937 random_{3};
  HostContext context_{test::host_options(2)};
  Real a_{130, 130, random_}, b_{130, 4, random_};
  Real matrix_ = a_, x_ = b_;
  std::vector<std::int64_t> pivots_ = std::vector<std::int64_t>(130);
  std::int64_t info_ = 0, iter_ = 0;
};

TEST_F(LapackNoMemory, InGesv) {
  fail_everywhere([&] { reset(); },
                  [&] {
                    return fleet_dgesv(context_, 130, 4, matrix_.data.data(), a_.ld, pivots_.data(),
                                       x_.data.data(), x_.ld, &info_);
                  },
                  [&] { return solves(); },
                  [&] { return matrix_.data == a_.data && x_.data == b_.data; });
}

TEST_F(LapackNoMemory, InSolve) {
  for (const std::int64_t columns : {1, 4}) {  // with factors on the devices, and at home
    b_ = Real(130, columns, random_);
    const Real before(130, columns, random_);
    fail_everywhere([&] { x_ = before; },
                    [&] {
                      return fleet_dsolve(context_, FLEET_NO_TRANS, 130, columns, a_.data.data(),
                                          a_.ld, b_.data.data(), b_.ld, x_.data.data(), x_.ld,
                                          &info_);
                    },
                    [&] { return solves(); }, [&] { return x_.data == before.data; });
  }
}

TEST_F(LapackNoMemory, InDsgesv) {
  fail_everywhere([&] { reset(); },
                  [&] {
                    return fleet_dsgesv(context_, 130, 4, matrix_.data.data(), a_.ld,
                                        pivots_.data(), b_.data.data(), b_.ld, x_.data.data(),
                                        x_.ld, &iter_, &info_);
                  },
                  [&] { return solves(); }, [&] { return matrix_.data == a_.data; });
}

TEST_F(LapackNoMemory, InGetri) {
  const Real one = Real::identity(130);
  Real factors = a_;
  ASSERT_EQ(fleet_dgetrf(context_, 130, 130, factors.data.data(), a_.ld, pivots_.data(), &info_),
            FLEET_OK);
  fail_everywhere(
      [&] { matrix_ = factors; },
      [&] {
        return fleet_dgetri(context_, 130, matrix_.data.data(), a_.ld, pivots_.data(), &info_);
      },
      [&] { return difference(product(Op::none, a_, Op::none, matrix_), one).largest() < 1e-10; },
      [&] { return matrix_.data == factors.data; });
}

TEST_F(LapackNoMemory, InGeqrfAndOrmqr) {
  std::vector<double> tau(130);
  Real q = Real::identity(130);
  fail_everywhere(
      [&] {
        reset();
        q = Real::identity(130);
      },
      [&] {
        const fleet_status status =
            fleet_dgeqrf(context_, 130, 130, matrix_.data.data(), a_.ld, tau.data());
        return status != FLEET_OK
                   ? status
                   : fleet_dormqr(context_, FLEET_LEFT, FLEET_NO_TRANS, 130, 130, 130,
                                  matrix_.data.data(), a_.ld, tau.data(), q.data.data(), q.ld);
      },
      [&] {
        return difference(product(Op::none, q, Op::none, matrix_.triangle(Fill::upper)), a_)
                   .largest() < 1e-10;
      },
      // Of the second call, which begins with factors.
      [&] { return q.data == Real::identity(130).data; });
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// mixed.cpp: equations by factors in single precision, refined by residuals in double. It knows no
// C types.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "core/mixed_factors.hpp"
#include "cpu/element.hpp"
#include "cpu/narrow.hpp"
#include "cpu/plain_matrix.hpp"
#include "linalg/host_matrix.hpp"
#include "linalg/solve.hpp"

namespace fleet::linalg {
namespace {

// LAPACK's: the most refinements, how small a residual is, and what `iterations` says otherwise.
constexpr std::int64_t kMostIterations = 30;
constexpr double kBackwardMost = 1.0;
constexpr std::int64_t kOverflow = -2;
constexpr std::int64_t kNoFactors = -3;
constexpr std::int64_t kNoConvergence = -kMostIterations - 1;

template <typename T>
T* column(const View& view, std::int64_t col) {
  return static_cast<T*>(view.data) + col * view.ld;
}

/// What refinement does with a matrix and its factors, wherever they are.
struct Operators {
  std::function<void(const View& right)> solve;  ///< in single precision, in the place of `right`
  std::function<void(const View& x, const View& target)> subtract_product;  ///< target -= a*x
};

/// One system of T = double or complex<double>.
template <typename T>
class MixedSolver {
 public:
  using Narrow = typename NarrowOf<T>::Type;

  /// Throws Error(no_memory).
  MixedSolver(const Level3& on, const MixedSolve& call)
      : on_(on),
        narrow_(on.context(), narrow_of(on.storage()), on.symbol()),
        call_(call),
        n_(call.a.rows),
        columns_(call.b.cols),
        right_memory_(narrow_.storage(), n_, columns_),
        x_memory_(on.storage(), n_, columns_),
        residual_memory_(on.storage(), n_, columns_),
        right_(right_memory_.view(n_, columns_)),
        x_(x_memory_.view(n_, columns_)),
        residual_(residual_memory_.view(n_, columns_)) {}

  /// Nothing but x and pivots is written. LAPACK's iter.
  std::int64_t solve() {
    const HostMatrix b(on_, call_.b, Access::read);
    HostMatrix x(on_, call_.x, Access::write);
    if (!narrow(b.view(), right_)) return kOverflow;
    std::optional<std::int64_t> iterations = solve_on_devices(b.view());
    if (!iterations) iterations = solve_on_host(b.view());
    if (*iterations < 0) return *iterations;
    return past_first_write([&] {
      for_elements([&](std::int64_t row, std::int64_t col) {
        column<T>(x.view(), col)[row] = column<T>(x_, col)[row];
      });
      x.write_back();
      return *iterations;
    });
  }

 private:
  /// Nothing where the host has to do it.
  std::optional<std::int64_t> solve_on_devices(const View& b) {
    // No call may ask the context for anything else as long as these live.
    const auto factors = on_.context().mixed_factors({.symbol = on_.symbol(),
                                                      .storage = on_.storage(),
                                                      .a = call_.a,
                                                      .columns = columns_,
                                                      .pivots = call_.pivots});
    if (factors == nullptr) return std::nullopt;
    if (!factors->fits()) return kOverflow;
    if (factors->info() != 0) return kNoFactors;
    set_limit(factors->norm());
    try {
      return refine(b, {.solve =
                            [&](const View& right) {
                              exchange_rows_here(narrow_, right, call_.pivots, n_, Order::forward);
                              factors->solve(right);
                            },
                        .subtract_product =
                            [&](const View& x, const View& target) {
                              factors->subtract_product(x, target);
                            }});
    } catch (const Error& error) {
      if (error.status() == Status::internal) throw;
      factors->note_failure(error);
      return std::nullopt;
    }
  }

  std::int64_t solve_on_host(const View& b) {
    narrow(b, right_);
    const Workspace memory(narrow_.storage(), n_, n_);
    const View factors = memory.view(n_, n_);
    if (!take_matrix(factors)) return kOverflow;
    if (getrf(narrow_, factors, call_.pivots) != 0) return kNoFactors;
    return refine(
        b, {.solve =
                [&](const View& right) { getrs(narrow_, Op::none, factors, call_.pivots, right); },
            .subtract_product =
                [&](const View& x, const View& target) {
                  on_.gemm(-1, Op::none, call_.a, Op::none, x, 1, target);
                }});
  }

  /// From b in single precision to x.
  std::int64_t refine(const View& b, const Operators& with) {
    with.solve(right_);
    for_elements([&](std::int64_t row, std::int64_t col) {
      column<T>(x_, col)[row] = widened(column<Narrow>(right_, col)[row]);
    });
    for (std::int64_t iteration = 0; iteration <= kMostIterations; ++iteration) {
      if (iteration > 0) {
        if (!narrow(residual_, right_)) return kOverflow;
        with.solve(right_);
        for_elements([&](std::int64_t row, std::int64_t col) {
          column<T>(x_, col)[row] += widened(column<Narrow>(right_, col)[row]);
        });
      }
      for_elements([&](std::int64_t row, std::int64_t col) {
        column<T>(residual_, col)[row] = column<T>(b, col)[row];
      });
      with.subtract_product(x_, residual_);
      if (is_small()) return iteration;
      if (is_lost()) break;
    }
    return kNoConvergence;
  }

  template <typename Work>
  void for_elements(Work work) {
    in_parallel(on_, columns_, n_ * columns_ * bytes_of(on_.storage()),
                [&](std::int64_t first, std::int64_t end) {
                  for (std::int64_t col = first; col < end; ++col)
                    for (std::int64_t row = 0; row < n_; ++row) work(row, col);
                });
  }

  /// False where an element is beyond what single precision holds.
  bool narrow(const View& from, const View& to) {
    std::atomic<bool> all_fit{true};
    in_parallel(on_, from.cols, from.rows * from.cols * bytes_of(on_.storage()),
                [&](std::int64_t first, std::int64_t end) {
                  for (std::int64_t col = first; col < end && all_fit; ++col)
                    for (std::int64_t row = 0; row < from.rows; ++row) {
                      const T value = column<T>(from, col)[row];
                      const bool fits = fits_single(value);
                      if (!fits) all_fit = false;
                      column<Narrow>(to, col)[row] = fits ? narrowed(value) : Narrow(0);
                    }
                });
    return all_fit;
  }

  /// The matrix in single precision, and its norm: the largest sum over a row.
  bool take_matrix(const View& to) {
    const HostMatrix a(on_, call_.a, Access::read);
    if (!narrow(a.view(), to)) return false;
    std::vector<double> sums(static_cast<std::size_t>(n_));
    in_parallel(
        on_, n_, n_ * n_ * bytes_of(on_.storage()), [&](std::int64_t first, std::int64_t end) {
          for (std::int64_t col = 0; col < n_; ++col)
            for (std::int64_t row = first; row < end; ++row)
              sums[static_cast<std::size_t>(row)] += std::abs(column<T>(a.view(), col)[row]);
        });
    double norm = 0;
    for (const double sum : sums)
      if (norm < sum || std::isnan(sum)) norm = sum;
    set_limit(norm);
    return true;
  }

  void set_limit(double norm) {
    constexpr double kUnit = std::numeric_limits<double>::epsilon() / 2;
    limit_ = norm * kUnit * std::sqrt(static_cast<double>(n_)) * kBackwardMost;
  }

  /// The size of the element of a column that is largest, as pivots are chosen.
  double largest(const View& view, std::int64_t col) const {
    const T* elements = column<T>(view, col);
    double most = size_of(elements[0]);
    for (std::int64_t row = 1; row < n_; ++row)
      if (size_of(elements[row]) > most) most = size_of(elements[row]);
    return most;
  }

  bool is_small() const {
    for (std::int64_t col = 0; col < columns_; ++col)
      if (largest(residual_, col) > largest(x_, col) * limit_) return false;
    return !is_lost();
  }

  /// Factors that overflowed leave no numbers, and no refinement brings them back.
  bool is_lost() const {
    for (std::int64_t col = 0; col < columns_; ++col)
      if (!std::isfinite(largest(residual_, col))) return true;
    return false;
  }

  const Level3& on_;
  Level3 narrow_;
  const MixedSolve& call_;
  std::int64_t n_, columns_;
  Workspace right_memory_, x_memory_, residual_memory_;
  View right_, x_, residual_;  ///< on the host
  double limit_ = 0;
};

/// Nothing where there is no memory to try.
template <typename T>
std::optional<std::int64_t> in_single(const Level3& on, const MixedSolve& call) {
  try {
    return MixedSolver<T>(on, call).solve();
  } catch (const Error& error) {
    if (error.status() != Status::no_memory) throw;
  } catch (const std::bad_alloc&) {
  }
  return std::nullopt;
}

}  // namespace

std::int64_t mixed_gesv(const Level3& on, const MixedSolve& call, std::int64_t& iterations) {
  iterations = 0;
  if (call.a.rows == 0) return 0;
  const auto done = on.storage() == Storage::c64 ? in_single<std::complex<double>>(on, call)
                                                 : in_single<double>(on, call);
  // LAPACK's word for a choice not to try single precision.
  constexpr std::int64_t kNotTried = -1;
  iterations = done.value_or(kNotTried);
  if (iterations >= 0) return 0;
  const std::int64_t info = getrf(on, call.a, call.pivots);
  if (info != 0) return info;
  past_first_write([&] {
    on.context().copy(call.x, call.b, on.storage());
    getrs(on, Op::none, call.a, call.pivots, call.x);
  });
  return 0;
}

}  // namespace fleet::linalg

// SPDX-License-Identifier: BSD-3-Clause
// mixed.cpp: equations by factors in single precision, refined by residuals in double. It knows no
// C types.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "cpu/element.hpp"
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
struct NarrowOf {
  using Type = float;
  static constexpr Storage kStorage = Storage::f32;
};
template <>
struct NarrowOf<std::complex<double>> {
  using Type = std::complex<float>;
  static constexpr Storage kStorage = Storage::c32;
};

bool fits(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return !(value < -kLargest || value > kLargest);  // NaN does
}
bool fits(std::complex<double> value) { return fits(value.real()) && fits(value.imag()); }

float narrowed(double value) { return static_cast<float>(value); }
std::complex<float> narrowed(std::complex<double> value) {
  return {static_cast<float>(value.real()), static_cast<float>(value.imag())};
}
double widened(float value) { return value; }
std::complex<double> widened(std::complex<float> value) { return value; }

template <typename T>
T* column(const View& view, std::int64_t col) {
  return static_cast<T*>(view.data) + col * view.ld;
}

/// One system of T = double or complex<double>.
template <typename T>
class MixedSolver {
 public:
  using Narrow = typename NarrowOf<T>::Type;

  /// Throws Error(no_memory).
  MixedSolver(const Level3& on, const MixedSolve& call)
      : on_(on),
        narrow_(on.context(), NarrowOf<T>::kStorage, on.symbol()),
        call_(call),
        n_(call.a.rows),
        columns_(call.b.cols),
        factors_(narrow_.storage(), n_, n_),
        right_(narrow_.storage(), n_, columns_),
        residual_(on.storage(), n_, columns_) {}

  /// Nothing but x and pivots is written. LAPACK's iter.
  std::int64_t solve() {
    HostMatrix b(on_, call_.b, Access::read);
    HostMatrix x(on_, call_.x, Access::write);
    const View factors = factors_.view(n_, n_), right = right_.view(n_, columns_);
    const View residual = residual_.view(n_, columns_);
    if (!narrow(b.view(), right)) return kOverflow;
    if (!take_matrix(factors)) return kOverflow;
    if (getrf(narrow_, factors, call_.pivots) != 0) return kNoFactors;
    return past_first_write([&] {
      getrs(narrow_, Op::none, factors, call_.pivots, right);
      for_elements([&](std::int64_t row, std::int64_t col) {
        column<T>(x.view(), col)[row] = widened(column<Narrow>(right, col)[row]);
      });
      const std::int64_t iterations = refine(b.view(), x.view(), residual, factors, right);
      x.write_back();
      return iterations;
    });
  }

 private:
  std::int64_t refine(const View& b, const View& x, const View& residual, const View& factors,
                      const View& right) {
    for (std::int64_t iteration = 0; iteration <= kMostIterations; ++iteration) {
      if (iteration > 0) {
        if (!narrow(residual, right)) return kOverflow;
        getrs(narrow_, Op::none, factors, call_.pivots, right);
        for_elements([&](std::int64_t row, std::int64_t col) {
          column<T>(x, col)[row] += widened(column<Narrow>(right, col)[row]);
        });
      }
      for_elements([&](std::int64_t row, std::int64_t col) {
        column<T>(residual, col)[row] = column<T>(b, col)[row];
      });
      on_.gemm(-1, Op::none, call_.a, Op::none, x, 1, residual);
      if (is_small(residual, x)) return iteration;
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
                      if (!fits(value)) all_fit = false;
                      column<Narrow>(to, col)[row] = fits(value) ? narrowed(value) : Narrow(0);
                    }
                });
    return all_fit;
  }

  /// The matrix in single precision, and its norm: the largest sum over a row.
  bool take_matrix(const View& to) {
    HostMatrix a(on_, call_.a, Access::read);
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
    constexpr double kUnit = std::numeric_limits<double>::epsilon() / 2;
    limit_ = norm * kUnit * std::sqrt(static_cast<double>(n_)) * kBackwardMost;
    return true;
  }

  /// The size of the element of a column that is largest, as pivots are chosen.
  double largest(const View& view, std::int64_t col) const {
    const T* elements = column<T>(view, col);
    double most = size_of(elements[0]);
    for (std::int64_t row = 1; row < n_; ++row)
      if (size_of(elements[row]) > most) most = size_of(elements[row]);
    return most;
  }

  bool is_small(const View& residual, const View& x) const {
    for (std::int64_t col = 0; col < columns_; ++col)
      if (largest(residual, col) > largest(x, col) * limit_) return false;
    return true;
  }

  const Level3& on_;
  Level3 narrow_;
  const MixedSolve& call_;
  std::int64_t n_, columns_;
  Workspace factors_, right_, residual_;
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

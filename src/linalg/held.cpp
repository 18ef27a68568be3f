// SPDX-License-Identifier: BSD-3-Clause
// held.cpp: what is computed with the LU factors of a matrix that is only read: on devices they
// stay there. It knows no C types.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"
#include "core/held_factors.hpp"
#include "cpu/copies.hpp"
#include "cpu/element.hpp"
#include "linalg/host_matrix.hpp"
#include "linalg/inverse.hpp"
#include "linalg/solve.hpp"

namespace fleet::linalg {
namespace {

void copy_here(const Level3& on, const View& from, const View& to) {
  const std::int64_t element = bytes_of(on.storage());
  in_parallel(
      on, from.cols, from.rows * from.cols * element,
      [&](std::int64_t first, std::int64_t end) { copy_columns(from, to, element, first, end); });
}

/// The unit matrix with its rows exchanged by pivots.
void write_exchanged_unit(const Level3& on, const View& x,
                          const std::vector<std::int64_t>& pivots) {
  const auto n = static_cast<std::size_t>(x.rows);
  std::vector<std::int64_t> row_at(n), place_of(n);
  std::iota(row_at.begin(), row_at.end(), 0);
  for (std::size_t i = 0; i < n; ++i)
    std::swap(row_at[i], row_at[static_cast<std::size_t>(pivots[i] - 1)]);
  for (std::size_t i = 0; i < n; ++i)
    place_of[static_cast<std::size_t>(row_at[i])] = static_cast<std::int64_t>(i);
  with_wide_element(on.storage(), [&]<typename T>(T) {
    in_parallel(on, x.cols, x.rows * x.cols * bytes_of(on.storage()),
                [&](std::int64_t first, std::int64_t end) {
                  for (std::int64_t col = first; col < end; ++col) {
                    T* column = static_cast<T*>(x.data) + col * x.ld;
                    std::fill(column, column + x.rows, T(0));
                    column[place_of[static_cast<std::size_t>(col)]] = T(1);
                  }
                });
  });
}

/// By several threads where both are on the host. Throws as Context::copy does.
void copy(const Level3& on, const View& from, const View& to) {
  Context& context = on.context();
  if (!context.bring_to_cpu(from, on.storage(), Access::read) ||
      !context.bring_to_cpu(to, on.storage(), Access::write))
    return context.copy(to, from, on.storage());
  copy_here(on, from, to);
  context.note_cpu_wrote(to, on.storage());
}

/// Factors in memory of our own.
class Factored {
 public:
  /// Throws Error(no_memory, device_failed).
  Factored(const Level3& on, const View& a, std::int64_t* pivots)
      : memory_(on.storage(), a.rows, a.rows), factors_(memory_.view(a.rows, a.rows)) {
    copy(on, a, factors_);
    info_ = getrf(on, factors_, pivots);
  }
  const View& view() const { return factors_; }
  std::int64_t info() const { return info_; }

 private:
  Workspace memory_;
  View factors_;
  std::int64_t info_ = 0;
};

class HeldSolver {
 public:
  HeldSolver(const Level3& on, const View& a)
      : on_(on), a_(a), n_(a.rows), pivots_(static_cast<std::size_t>(n_)) {}

  std::int64_t solve(Op op, const View& b, const View& x) {
    bool is_written = false;
    if (const auto info = solve_on_devices(op, b, x, is_written)) return *info;
    const auto at_home = [&]() -> std::int64_t {
      const Factored factored(on_, a_, pivots_.data());
      if (factored.info() != 0 || is_empty(b)) return factored.info();
      const auto in_place = [&] { getrs(on_, op, factored.view(), pivots_.data(), x); };
      if (x.data == b.data) return in_place(), 0;
      past_first_write([&] {
        copy(on_, b, x);
        in_place();
      });
      return 0;
    };
    return is_written ? past_first_write(at_home) : at_home();
  }

  /// In x, which may be a.
  std::int64_t invert(const View& x) {
    bool is_written = false;
    if (x.data != a_.data)
      if (const auto info = invert_on_devices(x, is_written)) return *info;
    const auto at_home = [&] {
      if (x.data != a_.data) copy(on_, a_, x);
      const std::int64_t info = getrf(on_, x, pivots_.data());
      return info == 0 ? getri(on_, x, pivots_.data()) : info;
    };
    return is_written ? past_first_write(at_home) : at_home();
  }

  /// The diagonal of U, into n elements; LAPACK's info.
  std::int64_t diagonal(void* to) {
    if (const auto info = diagonal_on_devices(to)) return *info;
    const Factored factored(on_, a_, pivots_.data());
    const auto bytes = static_cast<std::size_t>(bytes_of(on_.storage()));
    for (std::int64_t i = 0; i < n_; ++i)
      std::memcpy(static_cast<char*>(to) + static_cast<std::size_t>(i) * bytes,
                  on_.part_of(factored.view(), i, i, 1, 1).data, bytes);
    return factored.info();
  }
  bool is_odd() const {
    std::int64_t exchanged = 0;
    for (std::int64_t i = 0; i < n_; ++i)
      exchanged += pivots_[static_cast<std::size_t>(i)] != i + 1 ? 1 : 0;
    return exchanged % 2 != 0;
  }

 private:
  std::unique_ptr<HeldFactors> factors(std::int64_t columns) {
    return on_.context().held_factors({.symbol = on_.symbol(),
                                       .storage = on_.storage(),
                                       .a = a_,
                                       .columns = columns,
                                       .pivots = pivots_.data()});
  }

  /// Does `work` with the factors. False: it failed, and the host goes on.
  template <typename Work>
  static bool succeeds(const HeldFactors& held, Work work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      if (error.status() == Status::internal) throw;
      held.note_failure(error);
    } catch (const std::bad_alloc&) {
      held.note_failure(Error(Status::no_memory, "the host has no memory for a solution"));
    } catch (const std::length_error&) {
      held.note_failure(Error(Status::no_memory, "a solution is too large to plan"));
    }
    return false;
  }
  bool is_on_host() const { return on_.context().bring_to_cpu(a_, on_.storage(), Access::read); }

  /// Nothing where the factors have to come home. `is_written`: x is not what it was.
  std::optional<std::int64_t> solve_on_devices(Op op, const View& b, const View& x,
                                               bool& is_written) {
    if (!is_on_host()) return std::nullopt;
    const HostMatrix given(on_, b, Access::read);
    HostMatrix found(on_, x, Access::write);
    // No call may ask the context for anything else as long as these live.
    auto held = factors(b.cols);
    if (held == nullptr) return std::nullopt;
    if (held->info() != 0) return held->info();
    // Few vectors are solved in memory of their own, so that X is what it was where this fails.
    const bool in_place = held->is_by_columns() && found.view().data != given.view().data;
    is_written = in_place && found.view().data == x.data;
    std::optional<Workspace> memory;
    View right = found.view();
    const bool is_solved = succeeds(*held, [&] {
      if (!in_place) right = memory.emplace(on_.storage(), n_, b.cols).view(n_, b.cols);
      copy_here(on_, given.view(), right);
      if (op == Op::none) exchange_rows_here(on_, right, pivots_.data(), n_, Order::forward);
      held->solve(op, right);
      if (op != Op::none) exchange_rows_here(on_, right, pivots_.data(), n_, Order::backward);
    });
    if (!is_solved) return std::nullopt;
    held.reset();
    past_first_write([&] {
      if (!in_place) copy_here(on_, right, found.view());
      found.write_back();
    });
    return 0;
  }

  /// Likewise.
  std::optional<std::int64_t> invert_on_devices(const View& x, bool& is_written) {
    if (!is_on_host()) return std::nullopt;
    HostMatrix found(on_, x, Access::write);
    auto held = factors(n_);
    if (held == nullptr) return std::nullopt;
    if (held->info() != 0) return held->info();
    is_written = found.view().data == x.data;
    const bool is_solved = succeeds(*held, [&] {
      write_exchanged_unit(on_, found.view(), pivots_);
      held->solve(Op::none, found.view());
    });
    if (!is_solved) return std::nullopt;
    held.reset();
    past_first_write([&] { found.write_back(); });
    return 0;
  }

  std::optional<std::int64_t> diagonal_on_devices(void* to) {
    const auto held = factors(0);
    if (held == nullptr) return std::nullopt;
    if (held->info() > 0) return held->info();
    if (!succeeds(*held, [&] { held->diagonal(to); })) return std::nullopt;
    return 0;
  }

  const Level3& on_;
  const View& a_;
  const std::int64_t n_;
  std::vector<std::int64_t> pivots_;
};

}  // namespace

std::int64_t solve(const Level3& on, Op op, const View& a, const View& b, const View& x) {
  return a.rows == 0 ? 0 : HeldSolver(on, a).solve(op, b, x);
}

std::int64_t inverse(const Level3& on, const View& a, const View& x) {
  return a.rows == 0 ? 0 : HeldSolver(on, a).invert(x);
}

LogDet log_det(const Level3& on, const View& a) {
  LogDet result;
  if (a.rows == 0) return result;
  HeldSolver solver(on, a);
  const Workspace diagonal(on.storage(), a.rows, 1);
  void* const elements = diagonal.view(a.rows, 1).data;
  if (solver.diagonal(elements) > 0) return {.sign = 0, .log = -INFINITY};
  if (solver.is_odd()) result.sign = -1;
  with_wide_element(on.storage(), [&]<typename T>(T) {
    for (std::int64_t i = 0; i < a.rows; ++i) {
      const T& element = static_cast<const T*>(elements)[i];
      const double size = std::abs(element);
      if constexpr (std::is_floating_point_v<T>) {
        if (element < 0) result.sign = -result.sign;  // also where it is infinite
      } else {
        result.sign *= std::complex<double>(element) / size;
      }
      result.log += std::log(size);
    }
  });
  return result;
}

}  // namespace fleet::linalg

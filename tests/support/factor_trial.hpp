// SPDX-License-Identifier: BSD-3-Clause
// factor_trial.hpp: random matrices that plans factor, and what their factors multiply to. It knows
// no planner.
#pragma once
#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "plan/factor_planner.hpp"
#include "program/strips.hpp"
#include "run/execute.hpp"
#include "support/dense.hpp"
#include "support/random_plans.hpp"

namespace fleet::test {

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using Type = T;
};

/// A matrix, its factors by a plan, and the verdict about them.
template <typename T>
class FactorTrial {
 public:
  FactorTrial(const Factorization& what, Generator& random)
      : what_(what), ld_(what.m + between(random, 0, 5)), original_(what.m, what.n) {
    std::uniform_real_distribution<double> value(-1, 1);
    const auto element = [&] {
      if constexpr (std::is_same_v<T, typename RealOf<T>::Type>)
        return T(static_cast<T>(value(random)));
      else
        return T(static_cast<typename RealOf<T>::Type>(value(random)),
                 static_cast<typename RealOf<T>::Type>(value(random)));
    };
    a_.assign(static_cast<std::size_t>(ld_ * std::max<std::int64_t>(1, what.n)), T(777));
    for (std::int64_t j = 0; j < what.n; ++j)
      for (std::int64_t i = 0; i < what.m; ++i) at(i, j) = element();
    if (what.routine == Factoring::potrf) {  // Hermitian, with a heavy diagonal
      for (std::int64_t j = 0; j < what.n; ++j) {
        for (std::int64_t i = 0; i < j; ++i) {
          if constexpr (std::is_same_v<T, typename RealOf<T>::Type>)
            at(i, j) = at(j, i);
          else
            at(i, j) = std::conj(at(j, i));
        }
        at(j, j) = T(static_cast<typename RealOf<T>::Type>(what.n + 1));
      }
    }
    before_ = a_;
    for (std::int64_t j = 0; j < what.n; ++j)
      for (std::int64_t i = 0; i < what.m; ++i) original_.at(i, j) = at(i, j);
    pivots_.resize(static_cast<std::size_t>(what.diagonal()));
    tau_.resize(static_cast<std::size_t>(what.diagonal()));
  }

  std::string run(const Plan& plan, Backend& backend) {
    const Trace trace = this->trace(plan, backend, 0);
    return trace.status == Status::ok ? "" : trace.message;
  }

  void begin_again() { a_ = before_; }
  const std::vector<T>& values() const { return a_; }

  Trace trace(const Plan& plan, Backend& backend, std::uint64_t serial) {
    const Strips& strips = *plan.program->strips;
    outcomes_.resize(static_cast<std::size_t>(strips.outcome_elements(strips.panels)));
    void* home = a_.data();
    const auto bytes = static_cast<std::int64_t>(a_.size() * sizeof(T));
    const bool away = !on_host(what_.home);
    if (away) {
      home = backend.allocate(what_.home, bytes);
      backend.transfer(what_.home, whole(home), kHost, whole(a_.data()), sizeof(T));
    }
    Trace trace = execute(plan, fleet::bind(strips, home, ld_, outcomes_.data()), backend, serial);
    if (away) {
      backend.transfer(kHost, whole(a_.data()), what_.home, whole(home), sizeof(T));
      backend.release(what_.home, home);
    }
    return trace;
  }

  std::string verdict(const Strips& strips) {
    const std::int64_t info =
        decode_outcomes(strips, outcomes_.data(), pivots_.data(), tau_.data());
    if (info != 0) return "info is " + std::to_string(info);
    if (const std::string fault = untouched(); !fault.empty()) return fault;
    const auto size = static_cast<long double>(what_.m + what_.n);
    const long double bound =
        20 * size *
        static_cast<long double>(std::numeric_limits<typename RealOf<T>::Type>::epsilon()) *
        (what_.routine == Factoring::potrf ? size : 1 + std::sqrt(size));
    const long double error = error_of_factors();
    if (error <= bound) return {};
    return "the factors are off by " + std::to_string(static_cast<double>(error / bound)) +
           " times the bound";
  }

  /// The distance of what the factors multiply to from the matrix; after a verdict.
  long double error_of_factors() {
    Dense got = what_.routine == Factoring::potrf   ? of_potrf()
                : what_.routine == Factoring::getrf ? of_getrf()
                                                    : of_geqrf();
    return distance(got, original_);
  }

 private:
  T& at(std::int64_t i, std::int64_t j) { return a_[static_cast<std::size_t>(i + j * ld_)]; }
  View whole(void* data) const {
    return {.data = data,
            .rows = static_cast<std::int64_t>(a_.size()),
            .cols = 1,
            .ld = static_cast<std::int64_t>(a_.size())};
  }

  /// The gaps between columns, and the triangle that potrf does not name.
  std::string untouched() {
    for (std::int64_t j = 0; j < what_.n; ++j)
      for (std::int64_t i = 0; i < ld_; ++i) {
        const bool is_ours = i < what_.m && (what_.routine != Factoring::potrf ||
                                             (what_.uplo == Uplo::lower ? i >= j : i <= j));
        const auto k = static_cast<std::size_t>(i + j * ld_);
        if (!is_ours && std::memcmp(&a_[k], &before_[k], sizeof(T)) != 0)
          return "element (" + std::to_string(i) + ", " + std::to_string(j) + ") was written";
      }
    return {};
  }

  Dense of_potrf() {
    Dense factor(what_.n, what_.n), turned(what_.n, what_.n);
    for (std::int64_t j = 0; j < what_.n; ++j)
      for (std::int64_t i = j; i < what_.n; ++i) {
        const Wide value = what_.uplo == Uplo::lower ? Wide(at(i, j)) : std::conj(Wide(at(j, i)));
        factor.at(i, j) = value;
        turned.at(j, i) = std::conj(value);
      }
    return product(factor, turned);
  }

  Dense of_getrf() {
    const std::int64_t k = what_.diagonal();
    Dense lower(what_.m, k), upper(k, what_.n);
    for (std::int64_t j = 0; j < k; ++j)
      for (std::int64_t i = j; i < what_.m; ++i) lower.at(i, j) = i == j ? Wide(1) : Wide(at(i, j));
    for (std::int64_t j = 0; j < what_.n; ++j)
      for (std::int64_t i = 0; i <= std::min(j, k - 1); ++i) upper.at(i, j) = Wide(at(i, j));
    Dense got = product(lower, upper);
    for (std::int64_t i = k - 1; i >= 0; --i)
      for (std::int64_t j = 0; j < what_.n; ++j)
        std::swap(got.at(i, j), got.at(pivots_[static_cast<std::size_t>(i)] - 1, j));
    return got;
  }

  Dense of_geqrf() {
    const std::int64_t k = what_.diagonal();
    Dense got(what_.m, what_.n);
    for (std::int64_t j = 0; j < what_.n; ++j)
      for (std::int64_t i = 0; i <= std::min(j, what_.m - 1); ++i) got.at(i, j) = Wide(at(i, j));
    for (std::int64_t r = k - 1; r >= 0; --r)
      for (std::int64_t j = 0; j < what_.n; ++j) {
        Wide sum = got.at(r, j);
        for (std::int64_t i = r + 1; i < what_.m; ++i)
          sum += std::conj(Wide(at(i, r))) * got.at(i, j);
        sum *= Wide(tau_[static_cast<std::size_t>(r)]);
        got.at(r, j) -= sum;
        for (std::int64_t i = r + 1; i < what_.m; ++i) got.at(i, j) -= Wide(at(i, r)) * sum;
      }
    return got;
  }

  const Factorization what_;
  const std::int64_t ld_;
  Dense original_;
  std::vector<T> a_, before_, outcomes_, tau_;
  std::vector<std::int64_t> pivots_;
};

/// `most`: rows and columns.
inline Factorization random_factorization(Generator& random, int devices, std::int64_t most) {
  constexpr Storage kStorages[] = {Storage::f32, Storage::f64, Storage::c32, Storage::c64};
  Factorization what{.routine = static_cast<Factoring>(between(random, 0, kFactorings - 1)),
                     .storage = kStorages[between(random, 0, 3)],
                     .uplo = chance(random, 50) ? Uplo::upper : Uplo::lower,
                     .m = between(random, 1, most),
                     .n = between(random, 1, most)};
  const std::int64_t place = between(random, 0, 3);
  what.home = place == 0   ? kPageable
              : place == 1 ? kFirstDevice + static_cast<DeviceId>(between(random, 0, devices - 1))
                           : kHost;
  return make_factorization(what);
}

/// Runs plans that follow each other on a random matrix of their type. Returns what is wrong.
template <typename T>
std::string verdict_of_factors(const Factorization& what, const std::vector<Plan>& plans,
                               Backend& backend, Generator& random) {
  FactorTrial<T> trial(what, random);
  for (const Plan& plan : plans)
    if (const std::string fault = trial.run(plan, backend); !fault.empty()) return fault;
  return trial.verdict(*plans.front().program->strips);
}
inline std::string verdict_of_factors(const Factorization& what, const std::vector<Plan>& plans,
                                      Backend& backend, Generator& random) {
  switch (what.storage) {
    case Storage::f32:
      return verdict_of_factors<float>(what, plans, backend, random);
    case Storage::f64:
      return verdict_of_factors<double>(what, plans, backend, random);
    case Storage::c32:
      return verdict_of_factors<std::complex<float>>(what, plans, backend, random);
    default:
      return verdict_of_factors<std::complex<double>>(what, plans, backend, random);
  }
}

/// The plans of all stages, with `per_stage` strips each.
inline std::vector<Plan> plans_of_stages(const Strips& all, int per_stage, const Machine& machine,
                                         const Tuning& tuning) {
  std::vector<Plan> plans;
  const auto add = [&](const Stage& stage) {
    Strips strips = all;
    strips.stage = stage;
    plans.push_back(schedule_factorization(std::make_shared<const TileProgram>(expand(strips)),
                                           machine, tuning));
  };
  for (int begin = 0; begin < all.count(); begin += per_stage)
    add({.begin = begin, .end = std::min(begin + per_stage, all.count())});
  if (all.what.routine == Factoring::getrf && plans.size() > 1)
    for (int begin = 0; begin + 1 < all.panels; begin += per_stage)
      add({.begin = begin, .end = std::min(begin + per_stage, all.panels), .only_exchanges = true});
  return plans;
}

/// A random factorization with its plans, all of which a device may do.
struct FactorCase {
  Factorization what;
  std::vector<Plan> plans;
  std::string text;
};
inline FactorCase random_factor_case(Generator& random, const Machine& machine, std::int64_t most) {
  const int devices = machine.device_count();
  FactorCase made{.what = random_factorization(random, devices, most)};
  Tuning tuning;
  for (int d = 0; d < devices; ++d) tuning.workers.push_back(kFirstDevice + d);
  tuning.grid = {1, devices};
  tuning.tile = between(random, 1, std::min<std::int64_t>(made.what.diagonal(), 1024));
  tuning.own_copies = chance(random, 20);
  if (chance(random, 20)) tuning.rules = tuning.rules.without(Rule::overlap);
  Strips strips = strips_of(made.what, tuning.tile);
  strips.in_halves = chance(random, 50) && made.what.routine == Factoring::getrf &&
                     made.what.storage == Storage::f32;
  const int per_stage =
      chance(random, 60) ? strips.count() : static_cast<int>(between(random, 1, strips.count()));
  made.plans = plans_of_stages(strips, per_stage, machine, tuning);
  made.text = to_text(made.what) + ", strips of " + std::to_string(tuning.tile) + ", " +
              std::to_string(per_stage) + " at a time, " + std::to_string(devices) + " devices" +
              (strips.in_halves ? ", in halves" : "");
  return made;
}

}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
// test_factor_plans.cpp: plans of factorizations pass their check, and give the factors of random
// matrices in random legal orders, in core and in stages.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/host/backend.hpp"
#include "plan/factor_planner.hpp"
#include "program/strips.hpp"
#include "run/execute.hpp"
#include "sim/simulate.hpp"
#include "support/cpu_blas.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Generator;

/// A dense matrix in the widest type, to multiply factors with.
using Wide = std::complex<long double>;
struct Dense {
  Dense(std::int64_t m, std::int64_t n)
      : rows(m), cols(n), values(static_cast<std::size_t>(m * n)) {}
  Wide& at(std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i + j * rows)];
  }
  std::int64_t rows, cols;
  std::vector<Wide> values;
};

Dense product(Dense& a, Dense& b) {
  Dense c(a.rows, b.cols);
  for (std::int64_t j = 0; j < b.cols; ++j)
    for (std::int64_t k = 0; k < a.cols; ++k)
      for (std::int64_t i = 0; i < a.rows; ++i) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

long double distance(Dense& a, Dense& b) {
  long double most = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i)
    most = std::max(most, std::abs(a.values[i] - b.values[i]));
  return most;
}

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
class Trial {
 public:
  Trial(const Factorization& what, Generator& random)
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
    const Strips& strips = *plan.program->strips;
    outcomes_.resize(static_cast<std::size_t>(strips.outcome_elements(strips.panels)));
    void* home = a_.data();
    const auto bytes = static_cast<std::int64_t>(a_.size() * sizeof(T));
    const bool away = !on_host(what_.home);
    if (away) {
      home = backend.allocate(what_.home, bytes);
      backend.transfer(what_.home, whole(home), kHost, whole(a_.data()), sizeof(T));
    }
    const Trace trace =
        execute(plan, fleet::bind(strips, home, ld_, outcomes_.data()), backend, 0);
    if (away) {
      backend.transfer(kHost, whole(a_.data()), what_.home, whole(home), sizeof(T));
      backend.release(what_.home, home);
    }
    return trace.status == Status::ok ? "" : trace.message;
  }

  std::string verdict(const Strips& strips) {
    const std::int64_t info = decode_outcomes(strips, outcomes_.data(), pivots_.data(), tau_.data());
    if (info != 0) return "info is " + std::to_string(info);
    if (const std::string fault = untouched(); !fault.empty()) return fault;
    Dense got = what_.routine == Factoring::potrf   ? of_potrf()
                : what_.routine == Factoring::getrf ? of_getrf()
                                                    : of_geqrf();
    const auto size = static_cast<long double>(what_.m + what_.n);
    const long double bound =
        20 * size * static_cast<long double>(
                        std::numeric_limits<typename RealOf<T>::Type>::epsilon()) *
        (what_.routine == Factoring::potrf ? size : 1 + std::sqrt(size));
    const long double error = distance(got, original_);
    if (error <= bound) return {};
    return "the factors are off by " + std::to_string(static_cast<double>(error / bound)) +
           " times the bound";
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
        const bool is_ours =
            i < what_.m && (what_.routine != Factoring::potrf ||
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
      for (std::int64_t i = j; i < what_.m; ++i)
        lower.at(i, j) = i == j ? Wide(1) : Wide(at(i, j));
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

Factorization random_factorization(Generator& random, int devices) {
  constexpr Storage kStorages[] = {Storage::f32, Storage::f64, Storage::c32, Storage::c64};
  Factorization what{.routine = static_cast<Factoring>(between(random, 0, kFactorings - 1)),
                     .storage = kStorages[between(random, 0, 3)],
                     .uplo = chance(random, 50) ? Uplo::upper : Uplo::lower,
                     .m = between(random, 1, 40),
                     .n = between(random, 1, 40)};
  const std::int64_t place = between(random, 0, 3);
  what.home = place == 0 ? kPageable
              : place == 1 ? kFirstDevice + static_cast<DeviceId>(between(random, 0, devices - 1))
                           : kHost;
  return make_factorization(what);
}

/// The plans of all stages, with `per_stage` strips each.
std::vector<Plan> plans_of(const Strips& all, int per_stage, const Machine& machine,
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
      add({.begin = begin,
           .end = std::min(begin + per_stage, all.panels),
           .only_exchanges = true});
  return plans;
}

template <typename T>
std::string try_one(const Factorization& what, const std::vector<Plan>& plans, Backend& backend,
                    Generator& random) {
  Trial<T> trial(what, random);
  for (const Plan& plan : plans)
    if (const std::string fault = trial.run(plan, backend); !fault.empty()) return fault;
  return trial.verdict(*plans.front().program->strips);
}

TEST(FactorPlans, AreRightInRandomLegalOrders) {
  Generator random(15);
  Options options;
  options.inject.poison = true;
  for (std::int64_t trial = 0; trial < test::scaled(1500); ++trial) {
    const int devices = static_cast<int>(between(random, 1, 4));
    const Machine machine =
        chance(random, 30) ? test::uneven_node(random, devices) : test::node(devices);
    const Factorization what = random_factorization(random, devices);
    Tuning tuning;
    for (int d = 0; d < devices; ++d) tuning.workers.push_back(kFirstDevice + d);
    tuning.grid = {1, devices};
    tuning.tile = between(random, 1, what.diagonal());
    tuning.own_copies = chance(random, 20);
    if (chance(random, 20)) tuning.rules = tuning.rules.without(Rule::overlap);
    const Strips strips = strips_of(what, tuning.tile);
    const int per_stage = chance(random, 60) ? strips.count()
                                             : static_cast<int>(between(random, 1, strips.count()));
    const std::vector<Plan> plans = plans_of(strips, per_stage, machine, tuning);
    const std::string text = std::to_string(trial) + ": " + to_text(what) + ", strips of " +
                             std::to_string(tuning.tile) + ", " + std::to_string(per_stage) +
                             " at a time, " + std::to_string(devices) + " devices";
    for (const Plan& plan : plans) {
      ASSERT_EQ(check(plan), "") << text;
      ASSERT_GT(simulate(plan, machine).seconds, 0) << text;
    }
    options.inject.order = random();
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    const std::string fault = what.storage == Storage::f32 ? try_one<float>(what, plans, *backend, random)
                              : what.storage == Storage::f64
                                  ? try_one<double>(what, plans, *backend, random)
                              : what.storage == Storage::c32
                                  ? try_one<std::complex<float>>(what, plans, *backend, random)
                                  : try_one<std::complex<double>>(what, plans, *backend, random);
    ASSERT_EQ(fault, "") << text;
  }
}

TEST(FactorPlans, AreTheSameFromTheSameInputs) {
  const Machine machine = test::node(3);
  const Strips strips = strips_of({.routine = Factoring::getrf, .m = 100, .n = 90}, 16);
  Tuning tuning{.workers = {2, 3, 4}, .grid = {1, 3}, .tile = 16};
  const auto program = std::make_shared<const TileProgram>(expand(strips));
  EXPECT_EQ(schedule_factorization(program, machine, tuning),
            schedule_factorization(program, machine, tuning));
}

TEST(FactorPlans, RefuseStripsThatDoNotFit) {
  const Machine machine = test::node(2);
  const Strips strips = strips_of({.routine = Factoring::potrf, .m = 64, .n = 64}, 16);
  Tuning tuning{.workers = {2, 3}, .grid = {1, 2}, .tile = 16};
  tuning.memory_cap.assign(machine.devices.size(), 1 << 14);
  const auto program = std::make_shared<const TileProgram>(expand(strips));
  EXPECT_THROW(schedule_factorization(program, machine, tuning), Error);
}

}  // namespace
}  // namespace fleet

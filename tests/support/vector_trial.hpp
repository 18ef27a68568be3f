// SPDX-License-Identifier: BSD-3-Clause
// vector_trial.hpp: runs one problem of gemv, axpy or dot with random operands and increments by a
// plan on a host backend, and compares with sums in long double. It makes no plans.
#pragma once
#include <cstdlib>
#include <string>
#include <vector>

#include "support/host_trial.hpp"
#include "support/random_plans.hpp"

namespace fleet::test {

inline Problem random_vectors(Generator& random, int devices, std::int64_t most) {
  constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::c32, DataType::c64};
  CallShape shape;
  Conditions conditions;
  shape.routine = static_cast<Routine>(between(random, kLevel3Routines, kRoutines - 1));
  shape.type = kTypes[between(random, 0, 3)];
  shape.op_a = static_cast<Op>(between(random, 0, 2));
  shape.m = random_size(random, most);
  shape.n = random_size(random, most);
  const DeviceId same = random_home(random, devices);
  for (DeviceId& home : conditions.homes)
    home = chance(random, 50) ? same : random_home(random, devices);
  conditions.beta_is_zero = chance(random, 30);
  return make_problem(shape, conditions);
}

/// The operands of one call at their homes, and the expected C.
template <typename T>
class VectorTrial {
 public:
  VectorTrial(const Problem& problem, std::uint64_t seed) : problem_(problem), random_(seed) {
    for (const Operand& operand : problem.operands) {
      const bool is_matrix = &operand == &problem.operands[kA] && problem.routine == Routine::gemv;
      std::int64_t ld = is_matrix ? std::max<std::int64_t>(1, operand.rows) + random_.between(0, 3)
                                  : random_.between(1, 3);
      host_.emplace_back(operand.rows, operand.cols, ld);
      if (!is_matrix && random_.chance(0.3)) ld = -ld;
      ld_.push_back(ld);
    }
    alpha_ = problem.routine == Routine::dot ? T(1) : random_scalar<T>(random_);
    if (problem.routine == Routine::axpy) beta_ = T(1);
    if (problem.routine == Routine::gemv && updates()) beta_ = random_scalar<T>(random_);
    for (const int x : {kA, kB, kC})
      if (x != kC || updates()) host_[at(x)].fill_random(random_);  // else it stays NaN
    expect();
  }

  Trace run(const Plan& plan, Backend& backend) {
    Arguments arguments{.alpha = std::complex<double>(alpha_), .beta = std::complex<double>(beta_)};
    std::vector<std::pair<DeviceId, void*>> given;
    for (const int x : {kA, kB, kC}) {
      const DeviceId home = problem_.operands[at(x)].home;
      arguments.ld[at(x)] = ld_[at(x)];
      arguments.data[at(x)] = host_[at(x)].data();
      if (home == kPageable) continue;
      void* there = backend.allocate(home, std::max<std::int64_t>(1, bytes(x)));
      given.emplace_back(home, there);
      arguments.data[at(x)] = there;
      backend.transfer(home, whole(x, there), kPageable, whole(x, host_[at(x)].data()), sizeof(T));
    }
    Trace trace = execute(plan, arguments, backend);
    if (trace.status == Status::ok && problem_.operands[kC].home != kPageable)
      backend.transfer(kPageable, whole(kC, host_[kC].data()), problem_.operands[kC].home,
                       whole(kC, arguments.data[kC]), sizeof(T));
    for (const auto& [home, data] : given) backend.release(home, data);
    return trace;
  }

  /// "" if C is right and nothing else was written.
  std::string verdict() {
    for (std::int64_t j = 0; j < problem_.n; ++j) {
      const auto got = wide(element(kC, j));
      const auto want = expected_[at(j)];
      // Not <=: NaN is wrong.
      if (!(std::abs(got - want) <= bound_[at(j)]))
        return to_text(problem_) + ": element " + std::to_string(j) + " is " +
               std::to_string(static_cast<double>(got.real())) + ", not " +
               std::to_string(static_cast<double>(want.real()));
    }
    return host_[kC].broken_guard();
  }

  const std::vector<T> result() {
    std::vector<T> all;
    for (std::int64_t j = 0; j < problem_.n; ++j) all.push_back(element(kC, j));
    return all;
  }

 private:
  using Wide = std::complex<long double>;
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  static Wide wide(T value) {
    if constexpr (Scalar<T>::kComplex)
      return {value.real(), value.imag()};
    else
      return {value, 0};
  }
  bool updates() const { return problem_.operands[kC].access == Access::update; }
  std::int64_t bytes(int x) const {
    return std::abs(ld_[at(x)]) * problem_.operands[at(x)].cols * std::int64_t{sizeof(T)};
  }
  /// The whole buffer, including the gaps, which hold a pattern.
  View whole(int x, void* data) const {
    const std::int64_t ld = std::abs(ld_[at(x)]), cols = problem_.operands[at(x)].cols;
    return {.data = data, .rows = ld, .cols = cols, .ld = ld};
  }
  T& element(int x, std::int64_t i) {
    const std::int64_t size = problem_.operands[at(x)].cols;
    return host_[at(x)].at(0, ld_[at(x)] < 0 ? size - 1 - i : i);
  }
  /// The factor of element j of C at step k.
  Wide factor(std::int64_t j, std::int64_t k) {
    if (problem_.routine == Routine::axpy) return wide(element(kA, j));
    const bool turned = problem_.op_a != Op::none;
    Wide a = problem_.routine == Routine::dot
                 ? wide(element(kA, k))
                 : wide(turned ? host_[kA].at(k, j) : host_[kA].at(j, k));
    if (problem_.op_a == Op::conjugate) a = std::conj(a);
    return a * wide(element(kB, k));
  }
  /// Computes C and the error bound of any order of summation: each product and each sum rounds
  /// once.
  void expect() {
    for (std::int64_t j = 0; j < problem_.n; ++j) {
      Wide sum = 0;
      long double size = 0;
      for (std::int64_t k = 0; k < problem_.k; ++k) {
        const Wide one = wide(alpha_) * factor(j, k);
        sum += one;
        size += std::abs(one);
      }
      if (beta_ != T(0)) {
        sum += wide(beta_) * wide(element(kC, j));
        size += std::abs(wide(beta_) * wide(element(kC, j)));
      }
      expected_.push_back(sum);
      bound_.push_back(4 * static_cast<long double>(problem_.k + 3) * kEpsilon<T> * size);
    }
  }

  const Problem problem_;
  Random random_;
  T alpha_{}, beta_{};
  std::vector<Guarded<T>> host_;
  std::vector<std::int64_t> ld_;  ///< negative: reversed vector
  std::vector<Wide> expected_;
  std::vector<long double> bound_;
};

}  // namespace fleet::test

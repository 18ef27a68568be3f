// SPDX-License-Identifier: BSD-3-Clause
// level3_trial.hpp: runs one problem of a routine other than gemm with random operands by a plan on
// a host backend, and compares with the oracle. It makes no plans.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "recover/recover.hpp"
#include "support/host_trial.hpp"
#include "support/level3_operands.hpp"

namespace fleet::test {

inline Level3 oracles(Routine routine) {
  switch (routine) {
    case Routine::symm:
      return Level3::symm;
    case Routine::hemm:
      return Level3::hemm;
    case Routine::syrk:
      return Level3::syrk;
    case Routine::herk:
      return Level3::herk;
    case Routine::syr2k:
      return Level3::syr2k;
    case Routine::her2k:
      return Level3::her2k;
    case Routine::trmm:
      return Level3::trmm;
    case Routine::trsm:
      return Level3::trsm;
    default:
      return Level3::gemmt;
  }
}

/// The call of `problem`, with random scalars and without matrices.
template <typename T>
Level3Call<T> call_of(const Problem& problem, Random& random) {
  Level3Call<T> call;
  call.routine = oracles(problem.routine);
  call.side = problem.side;
  call.uplo = problem.uplo;
  call.diag = problem.diag;
  call.op_a = problem.traits().symmetric ? Op::none : problem.op_a;
  call.op_b = problem.op_b;
  call.m = problem.m;
  call.n = problem.n;
  call.k = problem.k;
  call.alpha = random_scalar<T>(random);
  call.beta = problem.operands[kC].access == Access::write ? T(0) : random_scalar<T>(random);
  return call;
}

/// The operands of one call at their homes, and the expected C.
template <typename T>
class Level3Trial {
 public:
  Level3Trial(const Problem& problem, std::uint64_t seed, std::int64_t guard_rows)
      : problem_(problem),
        random_(seed),
        operands_(call_of<T>(problem, random_), guard_rows, random_) {}

  /// `recovers`: the CPU completes a failed run; throws what recover() throws.
  Trace run(const Plan& plan, Backend& backend, bool recovers = false) {
    const Level3Call<T> call = operands_.call();
    expected_ = expect_level3(call);
    Arguments arguments{.alpha = std::complex<double>(call.alpha),
                        .beta = std::complex<double>(call.beta)};
    if (call.routine == Level3::herk) arguments.alpha = arguments.alpha.real();
    if (has_hermitian_c(call.routine)) arguments.beta = arguments.beta.real();
    place(kA, call.a, call.lda, shape_of_a(call), arguments, backend);
    if (problem_.traits().has_b) place(kB, call.b, call.ldb, shape_of_b(call), arguments, backend);
    place(kC, operands_.output(), operands_.output_ld(), shape_of_output(call), arguments, backend);
    if (!problem_.traits().has_b)
      arguments.data[kB] = arguments.data[kA], arguments.ld[kB] = arguments.ld[kA];
    const Binding binding = bind(*plan.program, {&arguments, 1});
    const auto run = backend.begin(plan, binding, 0);
    Trace trace = complete(plan, binding, *run);
    try {
      if (recovers && trace.status != Status::ok)
        recover({plan, binding, trace, *run}, {}, backend, *shared_cpu_blas());
    } catch (const Error&) {
      release(backend);
      throw;
    }
    if (recovers || trace.status == Status::ok) fetch_c(arguments, backend);
    release(backend);
    return trace;
  }

  /// "" if C is right and nothing else was written.
  std::string verdict() const {
    if (std::string wrong = first_difference(*expected_, operands_.output(), operands_.output_ld());
        !wrong.empty())
      return to_text(expected_->call) + ": " + wrong;
    return operands_.first_overwritten();
  }

 private:
  void release(Backend& backend) {
    for (const auto& [home, data] : given_) backend.release(home, data);
    given_.clear();
  }

  /// Guard rows are copied too. Devices reach only pinned memory that the backend has allocated.
  void place(int x, const T* data, std::int64_t ld, Shape shape, Arguments& arguments,
             Backend& backend) {
    const auto at = static_cast<std::size_t>(x);
    const DeviceId home = problem_.operands[at].home;
    arguments.data[at] = const_cast<T*>(data);
    arguments.ld[at] = ld;
    if (home == kPageable) return;
    const std::int64_t bytes = std::max<std::int64_t>(1, ld * shape.cols) * std::int64_t{sizeof(T)};
    void* there = backend.allocate(home, bytes);
    given_.emplace_back(home, there);
    arguments.data[at] = there;
    backend.transfer(home, {there, ld, shape.cols, ld}, kPageable,
                     {const_cast<T*>(data), ld, shape.cols, ld}, sizeof(T));
  }

  void fetch_c(const Arguments& arguments, Backend& backend) {
    const DeviceId home = problem_.operands[kC].home;
    if (home == kPageable) return;
    const std::int64_t ld = operands_.output_ld();
    backend.transfer(kPageable, {operands_.output(), ld, problem_.n, ld}, home,
                     {arguments.data[kC], ld, problem_.n, ld}, sizeof(T));
  }

  const Problem problem_;
  Random random_;
  Level3Operands<T> operands_;
  std::optional<ExpectedLevel3<T>> expected_;
  std::vector<std::pair<DeviceId, void*>> given_;
};

}  // namespace fleet::test

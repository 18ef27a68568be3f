// SPDX-License-Identifier: BSD-3-Clause
// first_calls.cpp: the kinds of calls that the process has made. It must not know runs.
#include "backend/cuda/first_calls.hpp"

#include <array>
#include <atomic>

#include "base/exit_guard.hpp"

namespace fleet::cuda {
namespace {

/// A number for the routine and the type: gemm has all types, the others those of BLAS.
constexpr int kBlasTypes = 4, kGemmTypes = kComputes * kStorages;
constexpr int kProductKinds = kGemmTypes + (kRoutines - 1) * kBlasTypes;
constexpr int kKinds = kProductKinds + kFactorings * kBlasTypes;
unsigned kind_of(const Problem& problem) {
  const int routine = static_cast<int>(problem.routine);
  const auto [compute, storage] = problem.type;
  const int kind = routine == 0 ? static_cast<int>(compute) * kStorages
                                : kGemmTypes + (routine - 1) * kBlasTypes;
  return static_cast<unsigned>(kind + static_cast<int>(storage));
}

unsigned kind_of(const Factorization& what) {
  return static_cast<unsigned>(kProductKinds + static_cast<int>(what.routine) * kBlasTypes +
                               static_cast<int>(what.storage));
}

void outlast_handlers_of(unsigned kind) {
  static std::array<std::atomic<bool>, kKinds> known{};
  if (!known[kind].load(std::memory_order_relaxed) && !known[kind].exchange(true))
    ExitGuard::install_again();
}

}  // namespace

void outlast_handlers_of(const TileProgram& program) {
  for (const ProgramCall& call : program.calls) outlast_handlers_of(kind_of(call.problem));
  if (program.strips) outlast_handlers_of(kind_of(program.strips->what));
}

}  // namespace fleet::cuda

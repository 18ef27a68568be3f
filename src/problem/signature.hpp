// SPDX-License-Identifier: BSD-3-Clause
// signature.hpp: the table of arguments as lists that can be searched and gone through. It must not
// know the values of arguments.
#pragma once
#include <span>

#include "problem/arguments.hpp"
#include "problem/problem.hpp"

namespace fleet {

struct NamedArg {
  Arg arg;
  const char* name;
};
using Signature = std::span<const NamedArg>;

#define FLEET_NAMED_ARG(argument, name, extra) \
  NamedArg { Arg::argument, #name }
/// kArguments_gemm and so on.
#define FLEET_LIST(form) \
  inline constexpr NamedArg kArguments_##form[] = {FLEET_ARGUMENTS_##form(FLEET_NAMED_ARG, )};
FLEET_LIST(gemm)
FLEET_LIST(gemmt)
FLEET_LIST(symm)
FLEET_LIST(hemm)
FLEET_LIST(syrk)
FLEET_LIST(herk)
FLEET_LIST(syr2k)
FLEET_LIST(her2k)
FLEET_LIST(trmm)
FLEET_LIST(trsm)
FLEET_LIST(gemv)
FLEET_LIST(axpy)
FLEET_LIST(dot)
FLEET_LIST(gemm_strided_batched)
FLEET_LIST(gemm_ex)
FLEET_LIST(gemm_strided_batched_ex)
#undef FLEET_LIST
/// kAsync_gemm and so on.
#define FLEET_LIST(form) \
  inline constexpr NamedArg kAsync_##form[] = {FLEET_ASYNC_##form(FLEET_NAMED_ARG, )};
FLEET_LIST(gemm)
FLEET_LIST(gemmt)
FLEET_LIST(symm)
FLEET_LIST(hemm)
FLEET_LIST(syrk)
FLEET_LIST(herk)
FLEET_LIST(syr2k)
FLEET_LIST(her2k)
FLEET_LIST(trmm)
FLEET_LIST(trsm)
FLEET_LIST(gemv)
FLEET_LIST(axpy)
FLEET_LIST(dot)
#undef FLEET_LIST
#undef FLEET_NAMED_ARG

/// In the order of Routine.
inline constexpr std::array<Signature, kRoutines> kSignatures{
    kArguments_gemm, kArguments_gemmt, kArguments_symm,  kArguments_hemm, kArguments_syrk,
    kArguments_herk, kArguments_syr2k, kArguments_her2k, kArguments_trmm, kArguments_trsm,
    kArguments_gemv, kArguments_axpy,  kArguments_dot};

constexpr Signature signature_of(Routine routine) {
  return kSignatures[static_cast<std::size_t>(routine)];
}

constexpr bool has(Signature signature, Arg arg) {
  for (const NamedArg& one : signature)
    if (one.arg == arg) return true;
  return false;
}

}  // namespace fleet

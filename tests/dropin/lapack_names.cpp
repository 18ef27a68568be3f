// SPDX-License-Identifier: BSD-3-Clause
// lapack_names.cpp: calls every routine of LAPACK under every exported name, on the identity of two
// rows, and prints those whose info is not 0. It is linked to the preload library alone, and must
// not know where a call is computed.
#include "preload/lapack_names.hpp"

#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "problem/lapack_arguments.hpp"

#define DECLARE(name, ...) extern "C" void name(...);
FLEET_LAPACK_NAMES(DECLARE)
#undef DECLARE

namespace {

using fleet::LapackArg;
using fleet::preload::ComplexDouble;
using fleet::preload::ComplexFloat;

template <class T>
constexpr T unit(double re) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(re);
  else
    return {static_cast<decltype(T::re)>(re), 0};
}

/// The arguments of one call. Integers are followed by bits that 32 of them do not have.
template <class T, class Int>
struct Arguments {
  T a[4] = {unit<T>(1), unit<T>(0), unit<T>(0), unit<T>(1)};
  T b[4] = {unit<T>(1), unit<T>(0), unit<T>(0), unit<T>(1)};
  T c[4] = {unit<T>(1), unit<T>(0), unit<T>(0), unit<T>(1)};
  T tau[2] = {};
  T work[256] = {};
  T swork[64] = {};
  double rwork[16] = {};
  Int ipiv[2] = {1, 2};
  Int two[2] = {2, -1};
  Int room[2] = {64, -1};
  Int iter[2] = {-9, -9};
  Int info[2] = {-9, -9};

  void* at(LapackArg arg) {
    static char no[] = "N", lower[] = "L", forward[] = "F", columns[] = "C";
    if (arg == LapackArg::trans || arg == LapackArg::diag) return no;
    if (arg == LapackArg::direct) return forward;
    if (arg == LapackArg::storev) return columns;
    if (is_flag(arg)) return lower;
    if (arg == LapackArg::lwork) return room;
    if (is_integer(arg)) return two;
    return arg == LapackArg::a       ? static_cast<void*>(a)
           : arg == LapackArg::b     ? b
           : arg == LapackArg::c     ? c
           : arg == LapackArg::tau   ? tau
           : arg == LapackArg::ipiv  ? ipiv
           : arg == LapackArg::work  ? work
           : arg == LapackArg::swork ? swork
           : arg == LapackArg::rwork ? rwork
           : arg == LapackArg::iter  ? static_cast<void*>(iter)
                                     : info;
  }

  void judge(const char* name, bool has_info) const {
    if ((has_info && info[0] != 0) || info[1] != -9)
      printf("%s: info %lld, then %lld\n", name, (long long)info[0], (long long)info[1]);
    if (ipiv[0] != 1 || ipiv[1] != 2 || iter[1] != -9) printf("%s: integers\n", name);
  }
};

}  // namespace

int main() {
  constexpr std::size_t kLength = 1;
#define ADDRESS(argument, check, extra) arguments.at(LapackArg::argument)
#define IS_INFO(argument, check, extra) (LapackArg::argument == LapackArg::info)
#define CALL(name, word, routine, T, Int, lengths, xerbla, ddot)                 \
  {                                                                              \
    Arguments<T, Int> arguments;                                                 \
    const bool infos[] = {FLEET_LAPACK_##routine(IS_INFO, )};                    \
    name(FLEET_LAPACK_##routine(ADDRESS, ), kLength, kLength, kLength, kLength); \
    arguments.judge(#name, infos[sizeof infos / sizeof *infos - 1]);             \
  }
  FLEET_LAPACK_NAMES(CALL)
  printf("%d names\n", fleet::preload::kLapackCount);
}

// SPDX-License-Identifier: BSD-3-Clause
// lapack_illegal.cpp: calls of LAPACK with one illegal argument each, and what the program's own
// xerbla_ is told about them, on stdout. It takes the arguments of each routine from the table of
// the library; what LAPACK says of them it does not know.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "preload/lapack_names.hpp"
#include "problem/lapack_arguments.hpp"

extern "C" void xerbla_(const char* name, const int* position, std::size_t length) {
  printf("  xerbla <%.*s> %d\n", static_cast<int>(length), name, *position);
}

// The plain names alone: a LAPACK has those.
#define ALL_TYPES(X, word, routine) \
  X(s##word, routine) X(d##word, routine) X(c##word, routine) X(z##word, routine)
#define NAMES(X)                                                                                   \
  ALL_TYPES(X, getrf, getrf)                                                                       \
  ALL_TYPES(X, potrf, potrf)                                                                       \
  ALL_TYPES(X, geqrf, geqrf)                                                                       \
  ALL_TYPES(X, getrs, getrs) ALL_TYPES(X, potrs, potrs) ALL_TYPES(X, gesv, gesv)                   \
      ALL_TYPES(X, posv, posv) ALL_TYPES(X, getri, getri) ALL_TYPES(X, potri, potri)               \
          ALL_TYPES(X, trtri, trtri) ALL_TYPES(X, trtrs, trtrs) ALL_TYPES(X, lauum, lauum)         \
              X(sorgqr, orgqr) X(dorgqr, orgqr) X(cungqr, orgqr) X(zungqr, orgqr) X(sormqr, ormqr) \
                  X(dormqr, ormqr) X(cunmqr, ormqr) X(zunmqr, ormqr) X(dsgesv, dsgesv)             \
                      X(zcgesv, zcgesv)
#define DECLARE(word, routine) extern "C" void word##_(...);
NAMES(DECLARE)

namespace {

using fleet::LapackArg;
constexpr std::size_t kLength = 1;

/// The arguments of a call of 4 x 3, all legal but one.
struct Arguments {
  LapackArg spoiled;
  char spoiled_flag;
  int spoiled_value;
  double matrix[256] = {};
  int integers[64] = {};
  int values[static_cast<int>(LapackArg::length)] = {};
  char flags[static_cast<int>(LapackArg::length)] = {};
  int info = 55;

  void* at(LapackArg arg, bool square) {
    const auto index = static_cast<int>(arg);
    if (is_flag(arg)) {
      flags[index] = arg == spoiled                                     ? spoiled_flag
                     : arg == LapackArg::side || arg == LapackArg::uplo ? 'L'
                                                                        : 'N';
      return &flags[index];
    }
    if (is_integer(arg)) {
      values[index] = arg == spoiled                                  ? spoiled_value
                      : arg == LapackArg::lwork                       ? 64
                      : arg == LapackArg::m                           ? 4
                      : arg == LapackArg::n                           ? (square ? 4 : 3)
                      : arg == LapackArg::nrhs || arg == LapackArg::k ? 2
                                                                      : 4;
      return &values[index];
    }
    if (arg == LapackArg::info) return &info;
    if (arg == LapackArg::ipiv || arg == LapackArg::iter) return integers;
    return matrix;
  }
};

}  // namespace

int main() {
#define ADDRESS(argument, check, extra) arguments.at(LapackArg::argument, kSquare)
#define LISTED(argument, check, extra) {LapackArg::argument, #argument}
#define CALL(word, routine)                                                                       \
  {                                                                                               \
    constexpr struct {                                                                            \
      LapackArg arg;                                                                              \
      const char* name;                                                                           \
    } kArgs[] = {FLEET_LAPACK_##routine(LISTED, )};                                               \
    constexpr bool kSquare = false;                                                               \
    for (const auto [arg, name] : kArgs)                                                          \
      for (const int value : {-1, 0, 3, 7}) {                                                     \
        if (!is_flag(arg) && !is_integer(arg)) continue;                                          \
        /* The query of a workspace and calls that are legal compute. */                          \
        Arguments arguments{                                                                      \
            .spoiled = arg, .spoiled_flag = "XTCQ"[(value + 1) / 3 % 4], .spoiled_value = value}; \
        for (double& x : arguments.matrix) x = 1;                                                 \
        printf("%s %s %d\n", #word, name, value);                                                 \
        word##_(FLEET_LAPACK_##routine(ADDRESS, ), kLength, kLength, kLength, kLength);           \
        printf("  info %d\n", arguments.info < 0 ? arguments.info : 0);                           \
      }                                                                                           \
  }
  NAMES(CALL)
}

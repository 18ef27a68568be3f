// SPDX-License-Identifier: BSD-3-Clause
// factorization.hpp: a matrix that is to be factored in place: which factors, shape and placement.
// No pointer.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "problem/problem.hpp"

namespace fleet {

/// LAPACK's names: A = L*L^H or U^H*U, A = P*L*U with partial pivoting, A = Q*R by reflectors.
enum class Factoring : std::uint8_t { potrf, getrf, geqrf };
inline constexpr int kFactorings = 3;
const char* word_of(Factoring routine);

struct Factorization {
  Factoring routine = Factoring::getrf;
  Storage storage = Storage::f64;
  Uplo uplo = Uplo::lower;  ///< potrf: the triangle that is stored
  std::int64_t m = 0, n = 0;
  DeviceId home = kHost;
  /// Devices among which whole columns of the matrix lie, strip by strip in turn, `home` being the
  /// first; empty: all of it is at home.
  std::vector<DeviceId> dealt = {};
  /// In single precision, of a matrix that lies beside it in double, with which solutions are
  /// refined (dsgesv, zcgesv): the factors may have the errors of single precision by any way.
  bool refined = false;
  /// The matrix, which is on the host, is only read: its factors stay on the devices, for equations
  /// that are solved with them there.
  bool kept = false;
  DataType type() const { return {.storage = storage}; }
  /// The devices that hold it in memory of its own, strip by strip; empty: it lies as one matrix.
  std::vector<DeviceId> holders() const {
    return refined && dealt.empty() ? std::vector{home} : dealt;
  }
  std::int64_t diagonal() const { return m < n ? m : n; }
  friend bool operator==(const Factorization&, const Factorization&) = default;
};

/// Throws Error(bad_argument) for a negative size or home, columns that are dealt to the host, to a
/// device twice, or of an upper triangle, one that is refined on the host or is not a square getrf
/// in single precision, one that is kept and is not a square getrf of a matrix on the host, a type
/// other than s, d, c, z, bytes that 64 bits do not count, and a potrf that is not square; with its
/// defaults for what the routine does not have.
Factorization make_factorization(const Factorization& wanted);

/// As LAPACK's benchmarks count: n^3/3, 2n^3/3 and 4n^3/3 of a square matrix; complex ones four
/// times as many.
double flops(const Factorization& what);

/// A product of whole matrices with its type, shape and home, and about as much arithmetic: for
/// what knows products only.
Problem product_like(const Factorization& what);

/// "dgetrf m=8192 n=8192 a@h", "zpotrf n=4096 a@0 uplo=u", "dgeqrf m=9000 n=900 a@0+1" (dealt),
/// "sgetrf m=8192 n=8192 a@0 refined", "dgetrf m=8192 n=8192 a@h kept";
/// parse_factorization(to_text(f)) == f.
std::string to_text(const Factorization& what);
/// Does the text begin with the name of a factorization?
bool names_factorization(std::string_view text);
/// Throws Error(bad_argument) naming the word that it does not understand. `size=N` sets m and n.
Factorization parse_factorization(std::string_view text);

}  // namespace fleet

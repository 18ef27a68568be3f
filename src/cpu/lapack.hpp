// SPDX-License-Identifier: BSD-3-Clause
// lapack.hpp: factorizations, and what is done with them, of matrices in host memory: by the LAPACK
// in the CPU's library, by loops where it has none. It must not know plans or devices.
#pragma once
#include <cstdint>

#include "cpu/blas.hpp"

namespace fleet::lapack {

// All are of s, d, c and z elements and mean what LAPACK's routines of the same name mean: a view's
// fill is their uplo, pivots are 1-based, a result is their info. They use the threads of the
// caller's Lease. Long ones are cut into pieces, since a fork waits for each call of the library.

/// a = L*L^H or U^H*U, in the triangle that `a.fill` names.
std::int64_t potrf(CpuBlas& blas, Storage storage, const View& a);

/// a = P*L*U; min(rows, cols) pivots.
std::int64_t getrf(CpuBlas& blas, Storage storage, const View& a, std::int64_t* pivots);

/// a = Q*R, Q as min(rows, cols) reflectors below the diagonal and their factors `tau`.
void geqrf(CpuBlas& blas, Storage storage, const View& a, void* tau);

/// The upper triangle t with H(0)*H(1)*... = 1 - v*t*v^H. The reflectors are the columns of v,
/// below a diagonal of ones that is not read. What is below t's diagonal is left alone.
void larft(CpuBlas& blas, Storage storage, const View& v, const void* tau, const View& t);

/// The inverse of a triangle in its place; nothing is changed where the diagonal has a zero.
std::int64_t trtri(CpuBlas& blas, Storage storage, const View& a, Diag diag);

/// U*U^H or L^H*L in the place of the triangle.
void lauum(CpuBlas& blas, Storage storage, const View& a);

/// c = op(Q)*c or c*op(Q), with Q the product of all reflectors in the columns of v.
void ormqr(CpuBlas& blas, Storage storage, Side side, Op op, const View& v, const void* tau,
           const View& c);

enum class Order { forward, backward };

/// Exchanges row i of `a` with row pivots[i] - 1, for each of `count` pivots, in this order. One
/// thread.
void laswp(Storage storage, const View& a, const std::int64_t* pivots, std::int64_t count,
           Order order);

}  // namespace fleet::lapack

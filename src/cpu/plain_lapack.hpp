// SPDX-License-Identifier: BSD-3-Clause
// plain_lapack.hpp: factorizations and inverses by plain loops, for CPU libraries without LAPACK.
// Slow, but right, and without memory of their own. It must not know libraries or threads.
#pragma once
#include <cstdint>

#include "run/launch.hpp"

namespace fleet::plain_lapack {

/// As in cpu/lapack.hpp.
std::int64_t potrf(Storage storage, const View& a);
std::int64_t getrf(Storage storage, const View& a, std::int64_t* pivots);
void geqrf(Storage storage, const View& a, void* tau);
void larft(Storage storage, const View& v, const void* tau, const View& t);
std::int64_t trtri(Storage storage, const View& a, Diag diag);
void lauum(Storage storage, const View& a);
void ormqr(Storage storage, Side side, Op op, const View& v, const void* tau, const View& c);

}  // namespace fleet::plain_lapack

// SPDX-License-Identifier: BSD-3-Clause
// lapack_calls.hpp: single calls of the LAPACK in a CPU library. It must not know what they are
// pieces of.
#pragma once
#include <cstdint>

#include "cpu/blas.hpp"
#include "cpu/lapack_library.hpp"

namespace fleet::lapack {

bool has(CpuBlas& blas, LapackRoutine routine, Storage storage);

// Each returns false, with nothing changed, where the library lacks the routine, its integers are
// too narrow, or there is no memory for its workspace.

bool call_potrf(CpuBlas& blas, Storage storage, const View& a, std::int64_t& info);
bool call_getrf(CpuBlas& blas, Storage storage, const View& a, std::int64_t* pivots,
                std::int64_t& info);
bool call_geqrf(CpuBlas& blas, Storage storage, const View& a, void* tau);
bool call_larft(CpuBlas& blas, Storage storage, const View& v, const void* tau, const View& t);
bool call_trtri(CpuBlas& blas, Storage storage, const View& a, Diag diag, std::int64_t& info);
bool call_lauum(CpuBlas& blas, Storage storage, const View& a);
bool call_ormqr(CpuBlas& blas, Storage storage, Side side, Op op, const View& v, const void* tau,
                const View& c);

}  // namespace fleet::lapack

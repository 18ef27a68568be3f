// SPDX-License-Identifier: BSD-3-Clause
// fake_kernels.cpp: the kernels that plans of products need, on the CPU, for fake_runtime.cpp. The
// others say that they are missing.
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/factoring_kernels.hpp"
#include "backend/cuda/panel_kernels.hpp"
#include "base/error.hpp"
#include "cpu/blas.hpp"
#include "cpu/copies.hpp"

namespace fleet::cuda {
namespace {

/// Takes its turn in the stream.
void turn(cudaStream_t stream) { cudaMemsetAsync(nullptr, 0, 0, stream); }

[[noreturn]] void missing() { throw Error(Status::unsupported, "the fake CUDA lacks this kernel"); }

}  // namespace

void add_scaled(const Launch& launch, cudaStream_t stream) {
  turn(stream);
  fleet::add_scaled(launch);
}

void scale(const Launch& launch, cudaStream_t stream) {
  turn(stream);
  fleet::scale(launch);
}

void copy(const View& from, const View& to, Storage storage, cudaStream_t stream) {
  turn(stream);
  copy_columns(from, to, bytes_of(storage), 0, from.cols);
}

bool can_invert_diagonal() { return false; }
BaseShape lu_shape(Storage, std::int64_t, int) { return {}; }
BaseShape qr_shape(Storage, std::int64_t, int) { return {}; }
std::size_t mail_bytes(Storage, BaseShape, std::int64_t) { return 0; }

void narrow(const Launch&, cudaStream_t) { missing(); }
void move_rows(const Launch&, cudaStream_t) { missing(); }
void merge(const Launch&, const View&, cudaStream_t) { missing(); }
void copy_squares(const DiagonalSquares&, cudaStream_t) { missing(); }
void invert_diagonal(const Launch&, void*, cudaStream_t) { missing(); }
void copy_filled(Storage, const View&, const View&, cudaStream_t) { missing(); }
void copy_below_diagonal(Storage, const View&, const View&, cudaStream_t) { missing(); }
void copy_diagonal(Storage, const View&, void*, cudaStream_t) { missing(); }
void make_unit_lower(Storage, const View&, cudaStream_t) { missing(); }
void make_identity(Storage, const View&, cudaStream_t) { missing(); }
void split_in_halves(const View&, float, const SplitPlaces&, cudaStream_t) { missing(); }
void make_small_factors(Storage, const View&, const void*, std::int64_t, const View&,
                        cudaStream_t) {
  missing();
}
void factor_lu_columns(Storage, BaseShape, const LuColumns&, cudaStream_t) { missing(); }
void exchange_few_rows(Storage, const View&, std::int64_t, std::int64_t, const std::int32_t*, int,
                       int, cudaStream_t) {
  missing();
}
void compose_exchanges(const std::int32_t*, std::int32_t, std::int64_t, bool, std::int32_t*,
                       cudaStream_t) {
  missing();
}
void exchange_composed(Storage, const View&, const std::int32_t*, std::int64_t, cudaStream_t) {
  missing();
}
void solve_triangle(Storage, const View&, Diag, const View&, cudaStream_t) { missing(); }
void factor_qr_columns(Storage, BaseShape, const QrColumns&, cudaStream_t) { missing(); }
void take(Storage, const View&, const View&, cudaStream_t) { missing(); }
void put_upper(Storage, const View&, const View&, cudaStream_t) { missing(); }
void factor_block(Storage, const View&, std::int32_t, std::int32_t*, cudaStream_t) { missing(); }
void find_failed_root(Storage, const View&, std::int32_t*, cudaStream_t) { missing(); }

}  // namespace fleet::cuda

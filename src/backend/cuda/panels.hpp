// SPDX-License-Identifier: BSD-3-Clause
// panels.hpp: the factorizations of panels on one GPU, which are what of LAPACK's are not products.
// It knows no plan.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/blas.hpp"
#include "backend/cuda/panel_kernels.hpp"
#include "backend/cuda/solver.hpp"
#include "run/launch.hpp"

namespace fleet::cuda {

enum class ExchangeOrder { forward, backward };

/// What a stream has to factor panels with; all of it outlives them.
struct Handles {
  CublasHandle& blas;  ///< bound to the stream
  cudaStream_t stream = nullptr;
  const CusolverHandle* solver = nullptr;  ///< bound to it too; none: kernels of ours
};

/// Panels of the four types of BLAS in the memory of the current device, factored as LAPACK does.
/// All is enqueued: nothing is allocated, nothing waits for the device, and all but what cuSOLVER
/// does can be captured into a graph. Workspaces are aligned to 256 bytes, hold anything before,
/// and are free for others in the order of the stream. Indices and pivots are 0-based and relative
/// to the panel, with 32 bits; info is 1-based, and 0 if all went well.
class Panels {
 public:
  /// `widest`: no columns are factored at a time by one grid that are more than these; 0: as many
  /// as the type allows.
  explicit Panels(const Handles& handles, int widest = 0)
      : blas_(handles.blas), stream_(handles.stream), solver_(handles.solver), widest_(widest) {}

  /// Rows that getrf and geqrf can take on the current device. Throws Error(device_failed).
  static std::int64_t most_rows(Storage storage);

  std::size_t getrf_bytes(Storage storage, std::int64_t rows, std::int64_t cols) const;
  /// a := l and u of a row-exchanged a; min(rows, cols) pivots, of the largest |re| + |im|, and the
  /// first of them. Goes on after a pivot of zero. Throws Error(unsupported) if there are more rows
  /// than most_rows(), and Error(device_failed).
  void getrf(Storage storage, const View& a, std::int32_t* pivots, std::int32_t* info,
             void* workspace) const;

  static std::size_t exchange_bytes(std::int64_t count);
  /// Exchanges rows i and pivots[i] of all columns of a, for each i < count in this order or the
  /// other one. Every row moves once for up to 1024 exchanges. Throws Error(device_failed).
  void exchange_rows(Storage storage, const View& a, const std::int32_t* pivots, std::int64_t count,
                     ExchangeOrder order, void* workspace) const;

  /// By the order, fill and leading dimension of a. Throws Error(device_failed).
  std::size_t potrf_bytes(Storage storage, const View& a) const;
  /// The triangle of `a` that its fill names becomes its factor; info is the order of the first
  /// minor that is not positive definite, whose column and those after it hold anything then.
  /// Throws Error(device_failed).
  void potrf(Storage storage, const View& a, std::int32_t* info, void* workspace) const;

  std::size_t geqrf_bytes(Storage storage, std::int64_t rows, std::int64_t cols) const;
  /// a := r and, below it, v; min(rows, cols) factors tau; t, a square of this order, becomes the
  /// factor of the block reflector as larft makes it, and zero below its diagonal. Throws
  /// Error(unsupported) if there are more rows than most_rows(), and Error(device_failed).
  void geqrf(Storage storage, const View& a, void* tau, const View& t, void* workspace) const;

  /// b := the x of l*x = b, where l is a unit lower triangle. Throws Error(device_failed).
  void solve_lower(Storage storage, const View& l, const View& b) const;

  static std::size_t larft_bytes(Storage storage, std::int64_t order);
  /// t := the factor of the block reflector of v, whose ones and zeros are explicit, with tau; zero
  /// below its diagonal. Throws Error(device_failed).
  void larft(Storage storage, const View& v, const void* tau, const View& t, void* workspace) const;

 private:
  struct LuPanel;
  struct QrPanel;

  void factor_lu(const LuPanel& panel, std::int64_t first, std::int64_t width) const;
  void factor_lu_narrow(const LuPanel& panel, std::int64_t first, std::int64_t width) const;
  void solve(Storage storage, const View& triangle, Diag diag, const View& b) const;
  void factor_qr(const QrPanel& panel, std::int64_t first, std::int64_t width) const;
  void reflect(const QrPanel& panel, std::int64_t first, std::int64_t width,
               std::int64_t others) const;
  void join_all(const QrPanel& panel, std::int64_t first, std::int64_t width) const;
  void join_factors(const QrPanel& panel, std::int64_t first, std::int64_t half,
                    std::int64_t width) const;
  bool asks_solver(const View& a) const;
  void factor_triangle(Storage storage, const View& a, std::int64_t first,
                       std::int32_t* info) const;
  void multiply(Storage storage, const View& a, Op op_a, const View& b, Op op_b, const View& c,
                double alpha, double beta) const;

  CublasHandle& blas_;
  cudaStream_t stream_;
  const CusolverHandle* solver_;
  int widest_;
};

}  // namespace fleet::cuda

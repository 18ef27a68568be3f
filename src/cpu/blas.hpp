// SPDX-License-Identifier: BSD-3-Clause
// blas.hpp: the CPU BLAS that does the kernels of virtual devices and the calls that are not
// worth offloading. Found at run time by dlopen; knows nothing of plans.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "run/launch.hpp"

namespace fleet {

struct LapackLibrary;

/// A loaded CPU BLAS. Thread-safe, and usable in a forked child. Once the process exits, only the
/// exiting thread still gets products; others are held until the end (exit_guard.hpp). When no
/// library is found it falls back to a plain own loop, so that a product can always be computed
/// (slowly).
class CpuBlas {
 public:
  /// `file`: a library to use (Options::cpu_blas), or empty to search as blas_candidates() says.
  /// Our copy's names are private (RTLD_LOCAL). Where the program uses the same file, it finds the
  /// number of threads that it had set again whenever no lease is out. Throws Error(bad_option) if
  /// a named file cannot be used.
  static std::shared_ptr<CpuBlas> load(const std::string& file);

  virtual ~CpuBlas() = default;
  static constexpr const char* kBuiltIn = "built-in loop";  ///< name() where there is no library
  virtual std::string name() const = 0;  ///< file and version, for configuration and cache keys

  /// C = alpha*op(A)*op(B) + beta*C. 64-bit sizes are split for a 32-bit library. beta == 0 never
  /// reads C; alpha == 0 or k == 0 never read A or B and never reach the library. f16 and bf16 are
  /// multiplied as f32 and rounded once; tf32 is f32 here.
  virtual void gemm(const Launch& launch) = 0;

  /// Multiplies by gemv, axpy or dot (Launch::kernel), likewise. beta == 0 never reads c.
  virtual void multiply_vectors(const Launch& launch);

  /// c = x, with op(a)*x = beta*c or, with a on the right, x*op(a) = beta*c: a triangle (its fill
  /// says which), by trsm. False, with nothing done, where the library has none for the type and
  /// sizes.
  virtual bool solve(const Launch& launch);
  /// c = beta*op(a)*c or beta*c*op(a), likewise, by trmm.
  virtual bool multiply_in_place(const Launch& launch);

  /// The LAPACK that the library has; null where it has none. See cpu/lapack.hpp.
  virtual const LapackLibrary* lapack() const { return nullptr; }
  /// Runs `work`, one call of that LAPACK, as products run: within the limits of the library, and
  /// with the threads of the lease. False, with nothing done, where it cannot be called now.
  virtual bool inside(const std::function<void()>& work);

  /// While it lives, every gemm of this library uses `threads` threads; waits, in the order of
  /// coming, until no Lease with another number lives. A thread that holds one already joins that
  /// one, whatever its number.
  class Lease {
   public:
    Lease(CpuBlas& blas, int threads);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    CpuBlas& blas_;
  };

 protected:
  virtual void begin_lease(int threads) = 0;
  virtual void end_lease() = 0;
};

/// Plain loops, without any library, lease, or memory of its own.
class PlainBlas final : public CpuBlas {
 public:
  std::string name() const override { return kBuiltIn; }
  void gemm(const Launch& launch) override;

 protected:
  void begin_lease(int) override {}
  void end_lease() override {}
};

/// Cores this process may use (its affinity mask).
int core_count();
/// Of so many cores those that a CPU BLAS may have beside `busy` other threads. Of many cores a
/// quarter stays free: its threads wait for each other, so all of them for one that has no core
/// (8192 x 256 x 256 on 64 cores takes 2.2 and 7.5 ms with 60 threads, 1.25 with 48;
/// docs/performance/lessons.md).
int cores_beside(int cores, int busy);

/// C += beta * A, and C = beta * C, elementwise with leading dimensions, half types computed in
/// f32; beta == 0 in scale never reads C.
void add_scaled(const Launch& launch);
void scale(const Launch& launch);

}  // namespace fleet

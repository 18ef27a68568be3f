// SPDX-License-Identifier: BSD-3-Clause
// blas.cpp: products by a library found at run time, within its limits. It must not know plans.
#include "cpu/blas.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/exit_guard.hpp"
#include "base/gate.hpp"
#include "cpu/element.hpp"
#include "cpu/gemm_pieces.hpp"
#include "cpu/half_gemm.hpp"
#include "cpu/lapack_library.hpp"
#include "cpu/library.hpp"
#include "cpu/library_search.hpp"
#include "cpu/plain_gemm.hpp"
#include "cpu/thread_gate.hpp"
#include "cpu/vectors.hpp"

namespace fleet {
namespace {

// OpenBLAS's workspace per thread, and a margin for everything else.
constexpr std::size_t kWorkspaceBytes = std::size_t{128} << 20;
constexpr std::size_t kMarginBytes = std::size_t{64} << 20;

/// OpenBLAS tries again for ever when it cannot map its workspace, so where the address space has
/// a limit, ask before going in.
bool address_space_is_short(int threads) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
  const std::size_t bytes = static_cast<std::size_t>(threads) * kWorkspaceBytes + kMarginBytes;
  void* trial = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (trial == MAP_FAILED) return true;
  munmap(trial, bytes);
  return false;
}

// Splitting well below 2^31 keeps m*n of a piece within 64 bits, whatever the library adds to it.
constexpr std::int64_t kNarrowPiece = std::int64_t{1} << 30;
constexpr std::int64_t kNarrowLimit = std::numeric_limits<std::int32_t>::max();

char flag_of(Op op, Storage storage) {
  if (op == Op::none) return 'N';
  return op == Op::conjugate && is_complex(storage) ? 'C' : 'T';
}

/// A leading dimension that is never stepped over need not fit.
std::int64_t effective_ld(const View& view) {
  const std::int64_t least = std::max<std::int64_t>(1, view.rows);
  return view.cols <= 1 ? least : std::max(least, view.ld);
}

template <typename T>
void call_library(const BlasLibrary& library, const Launch& launch, std::complex<double> beta) {
  const T alpha_value = scalar<T>(launch.alpha);
  const T beta_value = scalar<T>(beta);
  library.call(launch.type.storage, {.trans_a = flag_of(launch.op_a, launch.type.storage),
                                     .trans_b = flag_of(launch.op_b, launch.type.storage),
                                     .m = launch.c.rows,
                                     .n = launch.c.cols,
                                     .k = depth_of(launch),
                                     .alpha = &alpha_value,
                                     .a = launch.a.data,
                                     .lda = effective_ld(launch.a),
                                     .b = launch.b.data,
                                     .ldb = effective_ld(launch.b),
                                     .beta = &beta_value,
                                     .c = launch.c.data,
                                     .ldc = effective_ld(launch.c)});
}

void call_library(const BlasLibrary& library, const Launch& launch) {
  with_wide_element(launch.type.storage,
                    [&](auto zero) { call_library<decltype(zero)>(library, launch, launch.beta); });
}

void call_triangular(const BlasLibrary& library, const Launch& launch, bool solves) {
  with_wide_element(launch.type.storage, [&](auto zero) {
    const auto alpha = scalar<decltype(zero)>(launch.beta);
    library.call(launch.type.storage,
                 TriangularCall{.solves = solves,
                                .side = launch.side == Side::left ? 'L' : 'R',
                                .uplo = launch.a.fill == Fill::lower ? 'L' : 'U',
                                .trans = flag_of(launch.op_a, launch.type.storage),
                                .diag = launch.diag == Diag::unit ? 'U' : 'N',
                                .m = launch.c.rows,
                                .n = launch.c.cols,
                                .alpha = &alpha,
                                .a = launch.a.data,
                                .lda = effective_ld(launch.a),
                                .b = launch.c.data,
                                .ldb = effective_ld(launch.c)});
  });
}

/// Small float products of two transposed matrices by OpenBLAS (up to 0.3.34 at least) on CPUs with
/// AVX-512 keep the strides of C in a static variable, so that threads with different strides store
/// into each other's places, outside of C too. It takes that kernel for m*n*k of up to 100^3.
bool is_unsafe_beside_others(const BlasLibrary& library, const Launch& launch) {
  constexpr double kLargest = 1e6;
  const auto size = [](std::int64_t elements) { return static_cast<double>(elements); };
  return launch.type.storage == Storage::f32 && launch.op_a != Op::none &&
         launch.op_b != Op::none &&
         size(launch.c.rows) * size(launch.c.cols) * size(depth_of(launch)) <= kLargest &&
         library.version.find("OpenBLAS") != std::string::npos;
}

/// The same with op(B) written out, which goes another way in the library. False, with nothing
/// done, where there is no memory for it.
bool call_with_plain_b(const BlasLibrary& library, Launch launch) {
  const std::int64_t k = depth_of(launch), n = launch.c.cols;
  std::vector<float> plain;
  try {
    plain.resize(static_cast<std::size_t>(k * n));
  } catch (const std::bad_alloc&) {
    return false;
  }
  const auto* stored = static_cast<const float*>(launch.b.data);
  for (std::int64_t col = 0; col < n; ++col)
    for (std::int64_t row = 0; row < k; ++row)
      plain[static_cast<std::size_t>(row + col * k)] = stored[col + row * launch.b.ld];
  launch.op_b = Op::none;
  launch.b = {plain.data(), k, n, k};
  call_library(library, launch);
  return true;
}

/// Then A and B are not read.
bool has_no_product(const Launch& launch) {
  return depth_of(launch) <= 0 || is_zero(launch.alpha, launch.type.storage);
}

class RunTimeBlas final : public CpuBlas {
 public:
  explicit RunTimeBlas(std::optional<BlasLibrary> library)
      : library_(std::move(library)),
        gate_([this](int threads) { set_threads(threads); }, [this] { restore_threads(); }) {}

  std::string name() const override {
    if (!library_) return kBuiltIn;
    return library_->version.empty() ? library_->file
                                     : library_->file + " (" + library_->version + ")";
  }

  void gemm(const Launch& launch) override {
    if (launch.c.rows <= 0 || launch.c.cols <= 0) return;
    if (has_no_product(launch)) return scale(launch);
    const bool done = is_half(launch.type.storage) &&
                      gemm_by_floats(launch, [this](const Launch& floats) { multiply(floats); });
    if (!done) multiply(launch);
  }

  void multiply_vectors(const Launch& launch) override {
    if (!library_ || address_space_is_short(threads_)) return plain_vectors(launch);
    const ExitGuard guard;
    if (!vectors_by_library(*library_, launch)) plain_vectors(launch);
  }

  bool solve(const Launch& launch) override { return triangular(launch, true); }
  bool multiply_in_place(const Launch& launch) override { return triangular(launch, false); }

  const LapackLibrary* lapack() const override { return library_ ? &library_->lapack : nullptr; }

  bool inside(const std::function<void()>& work) override {
    if (!library_ || address_space_is_short(threads_)) return false;
    const ExitGuard guard;
    const InsideLapack inside;
    work();
    return true;
  }

  /// Whether the library gives the products that its names promise: exact ones of small numbers. It
  /// is not asked for solutions, or products with triangles, that are not right.
  bool verified() {
    bool right = true;
    for (Storage storage : {Storage::f32, Storage::f64, Storage::c32, Storage::c64})
      if (library_->has(storage))
        with_wide_element(storage, [&](auto zero) {
          right = right && verify<decltype(zero)>(storage);
          // By columns: B and 2*B*op(A)^-1, B and 2*B*op(A).
          verify_triangular<decltype(zero)>(storage, true, {2, 4, 7, 8}, {2, 4, 2, 1});
          verify_triangular<decltype(zero)>(storage, false, {1, 3, 2, 4}, {4, 12, 22, 50});
        });
    return right;
  }

 protected:
  void begin_lease(int threads) override {
    // Other threads may never give back what they hold at exit.
    if (!ExitGuard::exiting()) gate_.enter(std::max(1, threads));
  }
  void end_lease() override {
    if (!ExitGuard::exiting()) gate_.leave();
  }

 private:
  bool triangular(const Launch& launch, bool solves) {
    const auto storage = static_cast<std::size_t>(launch.type.storage);
    if (!library_ || (solves ? library_->trsm : library_->trmm)[storage] == nullptr ||
        address_space_is_short(threads_))
      return false;
    const View &a = launch.a, &c = launch.c;
    if (!library_->wide_ints &&
        std::max({c.rows, c.cols, effective_ld(a), effective_ld(c)}) > kNarrowLimit)
      return false;
    const ExitGuard guard;
    call_triangular(*library_, launch, solves);
    return true;
  }

  /// By the library where it can, k > 0.
  void multiply(const Launch& launch) {
    if (!library_ || !library_->has(launch.type.storage) || address_space_is_short(threads_))
      return plain_gemm(launch);
    const ExitGuard guard;
    if (is_unsafe_beside_others(*library_, launch))
      return call_with_plain_b(*library_, launch) ? void() : plain_gemm(launch);
    if (library_->wide_ints) return call_library(*library_, launch);
    for_each_piece(launch, kNarrowPiece, kNarrowPiece, [&](const Launch& piece) {
      const bool fits = std::max({effective_ld(piece.a), effective_ld(piece.b),
                                  effective_ld(piece.c)}) <= kNarrowLimit;
      fits ? call_library(*library_, piece) : plain_gemm(piece);
    });
  }

  void set_threads(int threads) {
    if (!library_ || library_->set_threads == nullptr) return;
    const int now = static_cast<int>(library_->get_threads());
    if (library_->in_use_before) threads_of_program_ = now;
    if (now != threads) change_threads(threads);
    threads_ = threads;
  }

  void restore_threads() {
    if (threads_of_program_ > 0 && threads_of_program_ != threads_)
      change_threads(threads_of_program_);
  }

  /// OpenBLAS may start threads here. A child forked between its own fork handler, which stops
  /// them, and the fork would believe that it has them, and wait for one in its next fork.
  void change_threads(int threads) {
    const gate::Pass pass;
    library_->set_threads(threads);
  }

  template <typename T>
  bool verify(Storage storage) {
    // op(A) 3 x 2, op(B) 2 x 2 from 2 x 3 and 2 x 2; ld = 3 and 2.
    std::array<T, 9> a{T(1), T(2), T(9), T(3), T(4), T(9), T(5), T(6), T(9)};
    std::array<T, 4> b{T(1), T(2), T(3), T(4)};
    std::array<T, 6> c;
    c.fill(T(1));
    call_library(*library_, {.kernel = Kernel::multiply,
                             .type = {.storage = storage},
                             .op_a = Op::transpose,
                             .op_b = Op::none,
                             .alpha = 2.0,
                             .beta = 3.0,
                             .a = {a.data(), 2, 3, 3},
                             .b = {b.data(), 2, 2, 2},
                             .c = {c.data(), 3, 2, 3}});
    return c == std::array<T, 6>{T(13), T(25), T(37), T(25), T(53), T(81)};
  }

  /// 2*B*op(A) or 2*B*op(A)^-1 with op(A) = (2 3; 0 4), B 2 x 2, ld = 3.
  template <typename T>
  void verify_triangular(Storage storage, bool solves, const std::array<float, 4>& from,
                         const std::array<float, 4>& to) {
    void*& symbol = (solves ? library_->trsm : library_->trmm)[static_cast<std::size_t>(storage)];
    if (symbol == nullptr) return;
    const auto columns = [](const std::array<float, 4>& of) {
      return std::array<T, 6>{T(of[0]), T(of[1]), T(9), T(of[2]), T(of[3]), T(9)};
    };
    std::array<T, 6> a{T(2), T(3), T(9), T(9), T(4), T(9)}, b = columns(from);
    call_triangular(*library_,
                    {.kernel = Kernel::multiply,
                     .type = {.storage = storage},
                     .op_a = Op::transpose,
                     .beta = 2.0,
                     .a = {a.data(), 2, 2, 3, Fill::lower},
                     .c = {b.data(), 2, 2, 3},
                     .diag = Diag::non_unit,
                     .side = Side::right},
                    solves);
    if (b != columns(to)) symbol = nullptr;
  }

  std::optional<BlasLibrary> library_;
  std::atomic<int> threads_{1};
  int threads_of_program_ = 0;  // guarded by the gate
  ThreadGate gate_;
};

std::shared_ptr<RunTimeBlas> open_verified(const std::string& file, std::string& why) {
  ExitGuard::install();
  const ExitGuard inside;  // an exit waits until the library is loaded and in no call
  std::optional<BlasLibrary> library = open_blas(file, why);
  if (!library) return nullptr;
  // Handlers that the library has installed run after ours.
  static const bool installed = (ExitGuard::install_again(), true);
  static_cast<void>(installed);
  auto blas = std::make_shared<RunTimeBlas>(std::move(library));
  if (blas->verified()) return blas;
  why = file + " computes wrong products";
  return nullptr;
}

}  // namespace

std::shared_ptr<CpuBlas> CpuBlas::load(const std::string& file) {
  const bool crowded = address_space_is_short(core_count() + 1);
  std::string why;
  if (!file.empty()) {
    if (crowded) why = "not enough address space for " + file;
    if (auto blas = crowded ? nullptr : open_verified(file, why)) return blas;
    throw Error(Status::bad_option, "cpu_blas: " + why);
  }
  if (!crowded)
    for (const std::string& name : blas_candidates(own_folder()))
      if (auto blas = open_verified(name, why)) return blas;
  return std::make_shared<RunTimeBlas>(std::nullopt);
}

bool CpuBlas::inside(const std::function<void()>& /*work*/) { return false; }

bool CpuBlas::solve(const Launch& /*launch*/) { return false; }
bool CpuBlas::multiply_in_place(const Launch& /*launch*/) { return false; }

void CpuBlas::multiply_vectors(const Launch& launch) { plain_vectors(launch); }

void PlainBlas::gemm(const Launch& launch) {
  if (launch.c.rows <= 0 || launch.c.cols <= 0) return;
  if (has_no_product(launch)) return scale(launch);
  plain_gemm(launch);
}

CpuBlas::Lease::Lease(CpuBlas& blas, int threads) : blas_(blas) { blas_.begin_lease(threads); }
CpuBlas::Lease::~Lease() { blas_.end_lease(); }

int core_count() {
  // The kernel refuses masks that are too small for the machine, so grow until one fits.
  for (int cpus = 1024; cpus <= 1024 * 1024; cpus *= 2) {
    std::vector<unsigned long> mask(static_cast<std::size_t>(cpus) / (8 * sizeof(unsigned long)));
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(0, bytes, set) == 0) return std::max(1, CPU_COUNT_S(bytes, set));
  }
  return 1;
}

int cores_beside(int cores, int busy) {
  constexpr int kMany = 32;  // a guess: on 16 cores all but one did well
  const int free = cores < kMany ? 0 : cores / 4;
  return std::max(1, cores - std::max(busy, free));
}

}  // namespace fleet

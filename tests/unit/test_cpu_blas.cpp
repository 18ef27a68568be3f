// SPDX-License-Identifier: BSD-3-Clause
// test_cpu_blas.cpp: products by the CPU BLAS of this machine (FLEETBLAS_CPU_BLAS may name one) and
// by the built-in loop, and the gate for their thread counts. It knows no plan.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/error.hpp"
#include "cpu/blas.hpp"
#include "cpu/gemm_pieces.hpp"
#include "cpu/plain_gemm.hpp"
#include "cpu/thread_gate.hpp"
#include "support/cpu_blas.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using namespace std::chrono_literals;
using test::configured_cpu_blas;
using test::Guarded;
using test::Random;
using test::shared_cpu_blas;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::c32,
                               DataType::c64, DataType::f16, DataType::bf16};

struct Shape {
  std::int64_t m, n, k;
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::int64_t slack = 0;  // extra rows of every leading dimension
};

/// A product with random operands, computed by `compute` and by the oracle.
template <typename T>
class Trial {
 public:
  Trial(const Shape& shape, T alpha, T beta, Random& random)
      : shape_(shape),
        alpha_(alpha),
        beta_(beta),
        a_(shape.op_a == Op::none ? shape.m : shape.k, shape.op_a == Op::none ? shape.k : shape.m,
           0),
        b_(shape.op_b == Op::none ? shape.k : shape.n, shape.op_b == Op::none ? shape.n : shape.k,
           0),
        c_(shape.m, shape.n, std::max<std::int64_t>(1, shape.m + shape.slack)) {
    a_ = Guarded<T>(a_.rows(), a_.cols(), a_.ld() + shape.slack);
    b_ = Guarded<T>(b_.rows(), b_.cols(), b_.ld() + shape.slack);
    a_.fill_random(random);
    b_.fill_random(random);
    if (beta != T(0)) c_.fill_random(random);  // else C stays NaN
  }

  Guarded<T>& a() { return a_; }

  template <typename Compute>
  std::string run(Compute&& compute) {
    const auto expected = test::expect_gemm<T>({.op_a = shape_.op_a,
                                                .op_b = shape_.op_b,
                                                .m = shape_.m,
                                                .n = shape_.n,
                                                .k = shape_.k,
                                                .alpha = alpha_,
                                                .a = a_.data(),
                                                .lda = a_.ld(),
                                                .b = b_.data(),
                                                .ldb = b_.ld(),
                                                .beta = beta_,
                                                .c = c_.data(),
                                                .ldc = c_.ld()});
    compute(Launch{.kernel = Kernel::multiply,
                   .type = test::kTypeOf<T>,
                   .op_a = shape_.op_a,
                   .op_b = shape_.op_b,
                   .alpha = std::complex<double>(alpha_),
                   .beta = std::complex<double>(beta_),
                   .a = {a_.data(), a_.rows(), a_.cols(), a_.ld()},
                   .b = {b_.data(), b_.rows(), b_.cols(), b_.ld()},
                   .c = {c_.data(), c_.rows(), c_.cols(), c_.ld()}});
    const std::string difference = test::first_difference(expected, c_.data(), c_.ld());
    return difference.empty() ? c_.broken_guard() : difference;
  }

 private:
  Shape shape_;
  T alpha_, beta_;
  Guarded<T> a_, b_, c_;
};

/// Tries every type and pair of flags with random shapes and scalars; returns the first error, or
/// "".
template <typename Compute>
std::string try_everything(std::uint64_t seed, std::int64_t rounds, Compute&& compute) {
  const std::vector<std::int64_t> sizes = {1, 2, 3, 7, 16, 31, 64, 65, 97, 130};
  Random random(seed);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (DataType type : kTypes)
      for (Op op_a : {Op::none, Op::transpose, Op::conjugate})
        for (Op op_b : {Op::none, Op::transpose, Op::conjugate}) {
          const Shape shape{random.pick(sizes),  random.pick(sizes), random.pick(sizes), op_a, op_b,
                            random.between(0, 5)};
          const std::string wrong = test::with_type(type, [&]<typename T>() {
            const T alpha = random.chance(0.3) ? T(1) : test::random_scalar<T>(random);
            const T beta = random.chance(0.3)   ? T(0)
                           : random.chance(0.3) ? T(1)
                                                : test::random_scalar<T>(random);
            return Trial<T>(shape, alpha, beta, random).run(compute);
          });
          if (!wrong.empty())
            return std::string(word_of(type)) + "gemm " + letter_of(op_a) + letter_of(op_b) +
                   " m=" + std::to_string(shape.m) + " n=" + std::to_string(shape.n) +
                   " k=" + std::to_string(shape.k) + ": " + wrong;
        }
  return "";
}

void by_plain_loop(const Launch& launch) { plain_gemm(launch); }

TEST(CpuBlas, MultipliesEveryTypeAndFlag) {
  CpuBlas::Lease lease(*shared_cpu_blas(), 1);

  EXPECT_EQ(try_everything(1, test::scaled(6), [](const Launch& l) { shared_cpu_blas()->gemm(l); }),
            "");
}

TEST(CpuBlas, MultipliesWithTwoThreadsToo) {
  CpuBlas::Lease lease(*shared_cpu_blas(), 2);

  EXPECT_EQ(try_everything(2, test::scaled(3), [](const Launch& l) { shared_cpu_blas()->gemm(l); }),
            "");
}

TEST(CpuBlas, ServesSeveralThreadsAtOnce) {
  CpuBlas::Lease lease(*shared_cpu_blas(), 1);
  std::array<std::string, 3> wrong;
  std::vector<std::thread> threads;

  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      wrong[t] =
          try_everything(t, test::scaled(3), [](const Launch& l) { shared_cpu_blas()->gemm(l); });
    });
  for (std::thread& thread : threads) thread.join();

  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

TEST(CpuBlas, ServesThreadsWhoseSmallProductsDifferInStride) {
  // Without a lease, OpenBLAS on a CPU with AVX-512 gets about one in 2000 of these wrong.
  CpuBlas::Lease lease(*shared_cpu_blas(), 1);
  std::array<std::string, 8> wrong;
  std::vector<std::thread> threads;

  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      Random random(t);
      const auto size = [&] { return static_cast<std::int64_t>(1 + random.next() % 10); };
      for (int call = 0; call < test::scaled(4000) && wrong[t].empty(); ++call) {
        const Shape shape{size(), size(), size(), Op::transpose, Op::transpose, size() % 4};
        Trial<float> trial(shape, 1.0f, 0.5f, random);
        wrong[t] = trial.run([](const Launch& l) { shared_cpu_blas()->gemm(l); });
      }
    });
  for (std::thread& thread : threads) thread.join();

  for (const std::string& text : wrong) EXPECT_EQ(text, "");
}

TEST(CpuBlas, NeverReadsAOrBWhenAlphaIsZero) {
  for (std::int64_t edge : {1, 4, 33, 200})
    for (DataType type : kTypes) {
      const std::string wrong = test::with_type(type, [&]<typename T>() {
        Random random(3);
        Trial<T> trial({edge, edge, edge}, T(0), T(0.5), random);
        trial.a().fill(T(static_cast<typename test::Scalar<T>::Real>(kNaN)));
        return trial.run([](const Launch& l) { shared_cpu_blas()->gemm(l); });
      });
      EXPECT_EQ(wrong, "") << word_of(type) << " " << edge;
    }
}

TEST(CpuBlas, OnlyScalesCWhenKIsZero) {
  Random random(4);

  EXPECT_EQ(Trial<double>({5, 4, 0}, 1.0, 0.0, random).run([](const Launch& l) {
    shared_cpu_blas()->gemm(l);
  }),
            "");
  EXPECT_EQ(Trial<double>({5, 4, 0}, 1.0, -2.0, random).run([](const Launch& l) {
    shared_cpu_blas()->gemm(l);
  }),
            "");
}

TEST(CpuBlas, PassesOnNaNOnlyToWhatDependsOnIt) {
  constexpr std::int64_t kEdge = 70;
  std::vector<double> a(kEdge * kEdge, 1.0), b(a), c(a);
  a[3] = kNaN;  // row 3, column 0

  shared_cpu_blas()->gemm({.alpha = 1.0,
                           .beta = 0.0,
                           .a = {a.data(), kEdge, kEdge, kEdge},
                           .b = {b.data(), kEdge, kEdge, kEdge},
                           .c = {c.data(), kEdge, kEdge, kEdge}});

  for (std::int64_t i = 0; i < kEdge * kEdge; ++i) {
    const double value = c[static_cast<std::size_t>(i)];
    EXPECT_EQ(std::isnan(value), i % kEdge == 3) << i;
    if (i % kEdge != 3) {
      EXPECT_EQ(value, kEdge);
    }
  }
}

TEST(CpuBlas, StepsOverLeadingDimensionsBeyondThirtyTwoBits) {
  constexpr std::int64_t kLd = (std::int64_t{1} << 31) + 8;
  constexpr std::size_t kBytes = static_cast<std::size_t>(kLd + 2) * sizeof(float);
  void* sparse = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (sparse == MAP_FAILED) GTEST_SKIP() << "no address space for a sparse matrix";
  auto* a = static_cast<float*>(sparse);
  a[0] = 1, a[1] = 2, a[kLd] = 3, a[kLd + 1] = 4;  // 2 x 2
  std::array<float, 4> b{5, 6, 7, 8};
  std::array<float, 4> c{};

  shared_cpu_blas()->gemm({.type = DataType::f32,
                           .alpha = 1.0,
                           .beta = 0.0,
                           .a = {a, 2, 2, kLd},
                           .b = {b.data(), 2, 2, 2},
                           .c = {c.data(), 2, 2, 2}});

  EXPECT_EQ(c, (std::array<float, 4>{5 + 18, 10 + 24, 7 + 24, 14 + 32}));
  munmap(sparse, kBytes);
}

TEST(CpuBlas, RefusesAFileThatIsNoBlas) {
  EXPECT_THROW(CpuBlas::load("/nonexistent/libblas.so"), Error);
  EXPECT_THROW(CpuBlas::load("libm.so.6"), Error);
  try {
    CpuBlas::load("libm.so.6");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_option);
    EXPECT_EQ(std::string(error.what()), "cpu_blas: libm.so.6 has no gemm under a known name");
  }
}

TEST(CpuBlas, LeavesSignalMaskAndRoundingModeAlone) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::fesetround(FE_UPWARD);

  CpuBlas::load(configured_cpu_blas());

  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int s = 1; s < SIGRTMAX; ++s)
    EXPECT_EQ(sigismember(&before, s), sigismember(&after, s)) << "signal " << s;
}

// Runs `body` in a child that cannot outlive its test; 0 if it returned true.
template <typename Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(CpuBlas, FallsBackToItsOwnLoopWhereAddressSpaceIsShort) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve terabytes of address space";
#endif
  const auto blas = shared_cpu_blas();
  const auto multiply_under_a_limit = [&] {
    rlimit limit{.rlim_cur = std::size_t{64} << 20, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    Random random(5);
    return Trial<double>({40, 30, 20}, 2.0, 0.5, random)
               .run([&](const Launch& l) { blas->gemm(l); })
               .empty() &&
           CpuBlas::load("")->name() == "built-in loop";
  };

  EXPECT_EQ(in_child(multiply_under_a_limit), 0);
}

TEST(CpuBlas, WorksInAForkedChildWhateverTheParentHeld) {
  const auto blas = shared_cpu_blas();
  CpuBlas::Lease lease(*blas, 1);

  const int status = in_child([&] {
    CpuBlas::Lease other(*blas, 2);
    return try_everything(6, 1, [&](const Launch& l) { blas->gemm(l); }).empty();
  });

  EXPECT_EQ(status, 0);
}

// Exits the process while its threads multiply in endless loops.
void exit_while_multiplying() {
  constexpr std::int64_t kEdge = 700;  // long enough to be interrupted by the exit
  alarm(20);
  const auto blas = shared_cpu_blas();
  std::atomic<int> started{0};
  for (int t = 0; t < 3; ++t)
    std::thread([&] {
      std::vector<double> a(kEdge * kEdge, 1.0), c(a);
      for (;;) {
        const CpuBlas::Lease lease(*blas, 2);
        ++started;
        blas->gemm({.alpha = 1.0,
                    .beta = 0.0,
                    .a = {a.data(), kEdge, kEdge, kEdge},
                    .b = {a.data(), kEdge, kEdge, kEdge},
                    .c = {c.data(), kEdge, kEdge, kEdge}});
      }
    }).detach();
  while (started < 6) std::this_thread::yield();
  std::exit(7);
}

TEST(CpuBlas, LetsTheProcessExitWhileAThreadMultiplies) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the test leaves a thread detached on purpose";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int round = 0; round < 4; ++round)
    EXPECT_EXIT(exit_while_multiplying(), testing::ExitedWithCode(7), "");
}

TEST(PlainProduct, MultipliesEveryTypeAndFlag) {
  EXPECT_EQ(try_everything(7, test::scaled(4), by_plain_loop), "");
}

TEST(GemmPieces, AddUpToTheWholeProduct) {
  const auto in_pieces = [](const Launch& launch) { for_each_piece(launch, 13, 9, by_plain_loop); };

  EXPECT_EQ(try_everything(8, test::scaled(3), in_pieces), "");
}

TEST(Elementwise, ScaleByZeroForgetsWhateverWasThere) {
  Guarded<double> c(3, 2, 5);

  scale({.beta = 0.0, .c = {c.data(), 3, 2, 5}});

  for (std::int64_t col = 0; col < 2; ++col)
    for (std::int64_t row = 0; row < 3; ++row) EXPECT_EQ(c.at(row, col), 0.0);
  EXPECT_EQ(c.broken_guard(), "");
}

TEST(Elementwise, AddsAScaledMatrix) {
  Guarded<std::complex<float>> from(2, 2, 3), to(2, 2, 4);
  from.fill({1, 2});
  to.fill({10, 20});

  add_scaled({.type = DataType::c32,
              .beta = {0, 1},
              .a = {from.data(), 2, 2, 3},
              .c = {to.data(), 2, 2, 4}});

  EXPECT_EQ(to.at(1, 1), std::complex<float>(8, 21));  // 10 + 20i + i(1 + 2i)
  EXPECT_EQ(to.broken_guard(), "");
}

TEST(ThreadGate, LetsEqualNumbersInTogether) {
  int changes = 0;
  ThreadGate gate([&](int) { ++changes; }, {});
  gate.enter(1);
  std::thread other([&] { gate.enter(1), gate.leave(); });

  other.join();  // returns although this thread still holds the gate
  gate.leave();

  EXPECT_EQ(changes, 1);
}

TEST(ThreadGate, KeepsAnotherNumberOutUntilAllHaveLeft) {
  std::atomic<int> threads{0};
  ThreadGate gate([&](int number) { threads = number; }, {});
  gate.enter(1);
  std::thread other([&] { gate.enter(2), gate.leave(); });

  std::this_thread::sleep_for(20ms);
  const int while_inside = threads;
  gate.leave();
  other.join();

  EXPECT_EQ(while_inside, 1);
  EXPECT_EQ(threads, 2);
}

TEST(ThreadGate, DoesNotLetLatecomersStarveAnotherNumber) {
  ThreadGate gate({}, {});
  std::atomic<bool> stop{false};
  std::vector<std::thread> stream;
  for (int t = 0; t < 3; ++t)
    stream.emplace_back([&] {
      while (!stop) {
        gate.enter(1);
        std::this_thread::sleep_for(1ms);
        gate.leave();
      }
    });
  std::this_thread::sleep_for(5ms);

  gate.enter(2);  // hangs if the stream may overtake this thread
  gate.leave();

  stop = true;
  for (std::thread& thread : stream) thread.join();
}

TEST(ThreadGate, LetsAThreadInAgainWhileOthersWait) {
  ThreadGate gate({}, {});
  gate.enter(1);
  std::thread other([&] { gate.enter(2), gate.leave(); });
  std::this_thread::sleep_for(20ms);

  gate.enter(2);  // hangs if it queues behind the thread that waits for this one
  gate.leave();
  gate.leave();

  other.join();
}

TEST(CoreCount, IsTheAffinityMask) {
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  const int all = core_count();
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one), cpu = CPU_SETSIZE;

  sched_setaffinity(0, sizeof one, &one);
  const int restricted = core_count();
  sched_setaffinity(0, sizeof before, &before);

  EXPECT_EQ(all, CPU_COUNT(&before));
  EXPECT_EQ(restricted, 1);
}

TEST(CoresBeside, LeavesSomeOfManyFree) {
  EXPECT_EQ(cores_beside(16, 1), 15);
  EXPECT_EQ(cores_beside(31, 4), 27);
  EXPECT_EQ(cores_beside(32, 1), 24);
  EXPECT_EQ(cores_beside(64, 4), 48);
  EXPECT_EQ(cores_beside(64, 35), 29);
  EXPECT_EQ(cores_beside(2, 4), 1);
}

}  // namespace
}  // namespace fleet

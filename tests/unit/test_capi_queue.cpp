// SPDX-License-Identifier: BSD-3-Clause
// test_capi_queue.cpp: queued calls on matrices through the public header, on virtual devices with
// poisoned memory, beside the same calls one by one on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/host_context.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"
#include "support/tracked.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using test::between;
using test::chance;
using test::Generator;

constexpr std::int64_t kTile = 16;

std::string on_devices(int devices, const std::string& more = "") {
  return test::host_options(devices) + ";inject=poison;tile=" + std::to_string(kTile) + more;
}

std::string on_the_cpu() { return "backend=host;offload=never"; }

using Matrix = test::MatrixHandle;
using Event = test::EventHandle;

Matrix wrap(const Context& context, double* data, std::int64_t rows, std::int64_t cols,
            std::int64_t ld) {
  fleet_matrix* matrix = nullptr;
  EXPECT_EQ(fleet_matrix_wrap(context.handle(), FLEET_F64, rows, cols, data, ld, &matrix), FLEET_OK)
      << fleet_message();
  return Matrix(matrix);
}

/// Numbers of which no product of many grows much, and triangles of which can be solved with.
std::vector<double> numbers(Generator& random, std::int64_t rows, std::int64_t cols,
                            std::int64_t ld) {
  std::vector<double> data(static_cast<std::size_t>(ld * cols));
  for (std::int64_t col = 0; col < cols; ++col)
    for (std::int64_t row = 0; row < ld; ++row) {
      double& x = data[static_cast<std::size_t>(row + col * ld)];
      x = static_cast<double>(between(random, -999, 999)) / 1000 / static_cast<double>(rows);
      if (row == col) x = x < 0 ? x - 1 : x + 1;
    }
  return data;
}

/// Random calls, each of which can be done on any memory: queued on one context, at once on
/// another.
class Programs {
 public:
  static constexpr std::int64_t kEdge = 40, kLd = 43;
  static constexpr int kMatrices = 5;

  Programs(std::uint64_t seed, const std::string& options)
      : random_(seed), queued_(options), direct_(on_the_cpu()) {
    for (int m = 0; m < kMatrices; ++m) data_.push_back(numbers(random_, kEdge, kEdge, kLd));
    expected_ = data_;
    for (std::vector<double>& data : data_)
      matrices_.push_back(wrap(queued_, data.data(), kEdge, kEdge, kLd));
  }

  /// "" if all matrices are what they should be.
  std::string run(int calls) {
    for (int c = 0; c < calls; ++c) {
      step();
      if (chance(random_, 15)) touch();
      if (!failed_.empty()) return failed_;
    }
    for (std::size_t m = 0; m < data_.size(); ++m)
      if (fleet_matrix_read(matrices_[m].get(), 0, 0, kEdge, kEdge) != FLEET_OK)
        return fleet_message();
    for (std::size_t m = 0; m < data_.size(); ++m)
      for (std::size_t i = 0; i < data_[m].size(); ++i)
        if (!(std::abs(data_[m][i] - expected_[m][i]) <=
              1e-9 * std::max(1.0, std::abs(expected_[m][i]))))
          return "element " + std::to_string(i) + " of matrix " + std::to_string(m) + " is " +
                 std::to_string(data_[m][i]) + ", not " + std::to_string(expected_[m][i]) +
                 " after " + said_;
    return "";
  }

 private:
  struct Part {
    std::size_t matrix = 0;
    std::int64_t row = 0, col = 0, rows = 0, cols = 0;
    bool meets(const Part& other) const {
      return matrix == other.matrix && row < other.row + other.rows && other.row < row + rows &&
             col < other.col + other.cols && other.col < col + cols;
    }
  };

  /// A part of a matrix that does not meet `others`.
  Part part(std::int64_t rows, std::int64_t cols, const std::vector<Part>& others) {
    for (;;) {
      const Part found{.matrix = static_cast<std::size_t>(between(random_, 0, kMatrices - 1)),
                       .row = between(random_, 0, 1) * between(random_, 0, kEdge - rows),
                       .col = between(random_, 0, 1) * between(random_, 0, kEdge - cols),
                       .rows = rows,
                       .cols = cols};
      if (std::ranges::none_of(others, [&](const Part& p) { return p.meets(found); })) return found;
    }
  }

  Matrix view(const Part& p) {
    fleet_matrix* matrix = nullptr;
    EXPECT_EQ(fleet_matrix_view(matrices_[p.matrix].get(), p.row, p.col, p.rows, p.cols, &matrix),
              FLEET_OK);
    return Matrix(matrix);
  }
  double* at(const Part& p) { return expected_[p.matrix].data() + p.row + p.col * kLd; }

  void step() {
    const std::int64_t sizes[] = {kEdge, kEdge, 16, 24, 7};
    const auto size = [&] { return sizes[between(random_, 0, 4)]; };
    const std::int64_t m = size(), n = size(), k = size();
    const double beta = chance(random_, 30) ? 0 : 0.5, alpha = 0.75;
    const auto op = [&] { return chance(random_, 50) ? FLEET_NO_TRANS : FLEET_TRANS; };
    const fleet_op ta = op(), tb = op();
    const fleet_uplo uplo = chance(random_, 50) ? FLEET_LOWER : FLEET_UPPER;
    const fleet_side side = chance(random_, 50) ? FLEET_LEFT : FLEET_RIGHT;
    const bool turned = ta == FLEET_TRANS;
    fleet_event* event = nullptr;
    fleet_status status = FLEET_INTERNAL, direct = FLEET_INTERNAL;
    const auto on = direct_.handle();
    const int kind = static_cast<int>(between(random_, 0, 5));
    if (kind <= 1) {
      const Part c = part(m, n, {});
      const Part a = turned ? part(k, m, {c}) : part(m, k, {c});
      const Part b = tb == FLEET_TRANS ? part(n, k, {c}) : part(k, n, {c});
      said_ += "gemm ";
      status = fleet_dgemm_async(queued_.handle(), ta, tb, alpha, view(a).get(), view(b).get(),
                                 beta, view(c).get(), &event);
      direct = fleet_dgemm(on, ta, tb, m, n, k, alpha, at(a), kLd, at(b), kLd, beta, at(c), kLd);
    } else if (kind == 2) {
      const Part c = part(n, n, {});
      const Part a = turned ? part(k, n, {c}) : part(n, k, {c});
      said_ += "syrk ";
      status = fleet_dsyrk_async(queued_.handle(), uplo, ta, alpha, view(a).get(), beta,
                                 view(c).get(), &event);
      direct = fleet_dsyrk(on, uplo, ta, n, k, alpha, at(a), kLd, beta, at(c), kLd);
    } else if (kind == 3) {
      const Part c = part(m, n, {});
      const std::int64_t order = side == FLEET_LEFT ? m : n;
      const Part a = part(order, order, {c}), b = part(m, n, {c});
      said_ += "symm ";
      status = fleet_dsymm_async(queued_.handle(), side, uplo, alpha, view(a).get(), view(b).get(),
                                 beta, view(c).get(), &event);
      direct = fleet_dsymm(on, side, uplo, m, n, alpha, at(a), kLd, at(b), kLd, beta, at(c), kLd);
    } else if (kind == 4) {
      const Part c = part(m, n, {});
      const std::int64_t order = side == FLEET_LEFT ? m : n;
      const Part a = part(order, order, {c});
      said_ += "trmm ";
      status = fleet_dtrmm_async(queued_.handle(), side, uplo, ta, FLEET_UNIT, alpha, view(a).get(),
                                 view(c).get(), &event);
      direct = fleet_dtrmm(on, side, uplo, ta, FLEET_UNIT, m, n, alpha, at(a), kLd, at(c), kLd);
    } else {
      const Part y = part(m, 1, {});
      const Part a = turned ? part(k, m, {y}) : part(m, k, {y}), x = part(1, k, {y});
      said_ += "gemv ";
      status = fleet_dgemv_async(queued_.handle(), ta, alpha, view(a).get(), view(x).get(), beta,
                                 view(y).get(), &event);
      direct = fleet_dgemv(on, ta, a.rows, a.cols, alpha, at(a), kLd, at(x), kLd, beta, at(y), 1);
    }
    ASSERT_EQ(status, FLEET_OK) << fleet_message();
    ASSERT_EQ(direct, FLEET_OK) << fleet_message();
    const Event kept(event);
    if (chance(random_, 10) && fleet_event_wait(event) != FLEET_OK) failed_ = fleet_message();
  }

  /// The program reads a part, or writes it.
  void touch() {
    const Part p = part(between(random_, 1, 9), between(random_, 1, 9), {});
    if (fleet_matrix_read(matrices_[p.matrix].get(), p.row, p.col, p.rows, p.cols) != FLEET_OK) {
      failed_ = fleet_message();
      return;
    }
    if (chance(random_, 50)) return;
    said_ += "(written) ";
    for (std::int64_t col = p.col; col < p.col + p.cols; ++col)
      for (std::int64_t row = p.row; row < p.row + p.rows; ++row) {
        const auto i = static_cast<std::size_t>(row + col * kLd);
        data_[p.matrix][i] = expected_[p.matrix][i] = 0.25;
      }
    ASSERT_EQ(fleet_matrix_wrote(matrices_[p.matrix].get(), p.row, p.col, p.rows, p.cols),
              FLEET_OK);
  }

  Generator random_;
  std::vector<std::vector<double>> data_, expected_;
  Context queued_, direct_;
  std::vector<Matrix> matrices_;
  std::string said_, failed_;
};

TEST(QueuedCalls, GiveTheResultsOfCallsOneByOne) {
  Generator random(81);
  for (std::int64_t trial = 0; trial < test::scaled(120); ++trial) {
    std::string more =
        chance(random, 50) ? ";inject=poison,order:" + std::to_string(trial + 1) : "";
    if (chance(random, 30))
      more += ";device_memory=" + std::to_string(between(random, 20, 200) << 10);
    Programs programs(random(), on_devices(static_cast<int>(between(random, 1, 3)), more));
    ASSERT_EQ(programs.run(static_cast<int>(between(random, 1, 40))), "") << trial;
  }
}

TEST(QueuedCalls, GiveThemAfterFaultsToo) {
  Generator random(82);
  const char* const kFaults[] = {"copy", "launch", "alloc"};
  int right = 0;
  for (std::int64_t trial = 0; trial < test::scaled(60); ++trial) {
    const std::string fault =
        std::string(kFaults[between(random, 0, 2)]) + ":" + std::to_string(between(random, 1, 200));
    const std::string lost = "lost:1@" + std::to_string(between(random, 0, 100));
    const bool is_lost = chance(random, 50);
    Programs programs(random(), on_devices(3, ";inject=poison," + (is_lost ? lost : fault)));
    const std::string said = programs.run(25);
    // What was on a lost device alone is undefined, and reading it says so.
    if (is_lost && said.find("undefined") != std::string::npos) continue;
    ASSERT_EQ(said, "") << trial << fault;
    ++right;
  }
  EXPECT_GT(right, test::scaled(60) / 2);
}

/// A matrix of doubles with what it holds.
struct Square {
  Square(const Context& context, std::int64_t n, Generator& random)
      : edge(n), data(numbers(random, n, n, n)), matrix(wrap(context, data.data(), n, n, n)) {}
  const double* read() const {
    EXPECT_EQ(fleet_matrix_read(matrix.get(), 0, 0, edge, edge), FLEET_OK) << fleet_message();
    return data.data();
  }
  std::int64_t edge;
  std::vector<double> data;
  Matrix matrix;
};

fleet_status multiply(const Context& context, const Square& a, const Square& b, double beta,
                      const Square& c, fleet_event** event = nullptr) {
  return fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, a.matrix.get(),
                           b.matrix.get(), beta, c.matrix.get(), event);
}

TEST(QueuedCalls, ThatFollowEachOtherAreOnePlan) {
  Generator random(83);
  const Context context(on_devices(4));
  const Square t(context, 96, random), d(context, 96, random), x(context, 96, random),
      c(context, 96, random);
  // The first waits until the second is queued, however long that takes.
  fleet_event* event = nullptr;
  ASSERT_EQ(fleet_event_create(&event), FLEET_OK);
  const Event both_queued(event);
  ASSERT_EQ(fleet_matrix_after(t.matrix.get(), event), FLEET_OK);
  ASSERT_EQ(fleet_dtrsm_async(context.handle(), FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS,
                              FLEET_NON_UNIT, 1.0, t.matrix.get(), x.matrix.get(), nullptr),
            FLEET_OK);
  ASSERT_EQ(multiply(context, d, x, 1.0, c), FLEET_OK);
  ASSERT_EQ(fleet_event_set(event, FLEET_OK), FLEET_OK);
  c.read();
  const auto page = nlohmann::json::parse(context.trace_json())["fleetblas"];
  EXPECT_EQ(page["flops"], 3.0 * 96 * 96 * 96);
  const auto stats = nlohmann::json::parse(context.stats_json());
  EXPECT_EQ(stats["calls"], 2);
  EXPECT_EQ(stats["last"]["where"], "devices");
}

TEST(QueuedCalls, HaveTheSameBitsWhateverIsQueuedWithThem) {
  std::vector<std::vector<double>> results;
  for (const bool waits : {false, true}) {
    Generator random(84);
    const Context context(on_devices(2));
    const Square a(context, 80, random), b(context, 80, random), c(context, 80, random);
    for (int i = 0; i < 6; ++i) {
      ASSERT_EQ(multiply(context, i % 2 ? a : c, b, 0.5, i % 2 ? c : a), FLEET_OK);
      if (waits) c.read(), a.read();
    }
    results.emplace_back(c.read(), c.read() + 80 * 80);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(QueuedCalls, ReturnAtOnce) {
  Generator random(85);
  const Context context(on_devices(2, ";inject=poison,delay:host->0+0.02"));
  const Square a(context, 64, random), b(context, 64, random), c(context, 64, random);
  const auto start = std::chrono::steady_clock::now();
  const auto since = [&] { return std::chrono::steady_clock::now() - start; };
  fleet_event* event = nullptr;
  ASSERT_EQ(multiply(context, a, b, 1.0, c, &event), FLEET_OK);
  const Event kept(event);
  int done = -1;
  EXPECT_EQ(fleet_event_query(event, &done), FLEET_OK);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(fleet_event_wait(event), FLEET_OK);
  EXPECT_GT(since(), std::chrono::milliseconds(20));
  EXPECT_EQ(fleet_event_query(event, &done), FLEET_OK);
  EXPECT_EQ(done, 1);
}

TEST(QueuedCalls, AreWaitedForByWhatUsesTheirMemory) {
  Generator random(86);
  const Context context(on_devices(2));
  const Square a(context, 64, random), b(context, 64, random);
  Square c(context, 64, random);
  std::vector<double> by_call(64 * 64), by_copy(64 * 64), expected = c.data;
  const Context direct(on_the_cpu());
  fleetblas::gemm(direct, FLEET_NO_TRANS, FLEET_NO_TRANS, 64, 64, 64, 1.0, a.data.data(), 64,
                  b.data.data(), 64, 1.0, expected.data(), 64);
  ASSERT_EQ(multiply(context, a, b, 1.0, c), FLEET_OK);
  fleetblas::gemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 64, 64, 64, 0.0, a.data.data(), 64,
                  b.data.data(), 64, 1.0, c.data.data(), 64);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(c.data[i], expected[i], 1e-12);
  ASSERT_EQ(multiply(context, a, b, 0.0, c), FLEET_OK);
  context.copy(by_copy.data(), c.data.data(), 64 * 64 * sizeof(double));
  c.read();
  EXPECT_EQ(by_copy, c.data);
}

TEST(QueuedCalls, OfWrongShapesAreRefusedAtOnce) {
  Generator random(87);
  const Context context(on_devices(1));
  const Square a(context, 8, random), b(context, 9, random), c(context, 8, random);
  fleet_event* event = reinterpret_cast<fleet_event*>(&random);
  EXPECT_EQ(multiply(context, a, b, 1.0, c, &event), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(event, nullptr);
  EXPECT_STREQ(fleet_message(), "fleet_dgemm_async: argument 6 (b) is 9 x 9, expected 8 x 8");
  EXPECT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, nullptr,
                              b.matrix.get(), 1.0, c.matrix.get(), nullptr),
            FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(), "fleet_dgemm_async: argument 5 (a) is NULL");
  EXPECT_EQ(fleet_sgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0f,
                              a.matrix.get(), a.matrix.get(), 1.0f, c.matrix.get(), nullptr),
            FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(),
               "fleet_sgemm_async: argument 5 (a) is a matrix of type d, expected s");
  EXPECT_EQ(fleet_dgemv_async(context.handle(), FLEET_NO_TRANS, 1.0, a.matrix.get(), b.matrix.get(),
                              1.0, c.matrix.get(), nullptr),
            FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(),
               "fleet_dgemv_async: argument 5 (x) is 9 x 9, expected 8 in one row or column");
  EXPECT_EQ(
      fleet_dtrsm_async(context.handle(), static_cast<fleet_side>('x'), FLEET_LOWER, FLEET_NO_TRANS,
                        FLEET_UNIT, 1.0, a.matrix.get(), c.matrix.get(), nullptr),
      FLEET_BAD_ARGUMENT);
  fleet_matrix* matrix = nullptr;
  EXPECT_EQ(fleet_matrix_view(a.matrix.get(), 1, 0, 8, 8, &matrix), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_wrap(context.handle(), FLEET_F64, 8, 8, nullptr, 8, &matrix),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_wrap(context.handle(), FLEET_F64, 8, 8, &random, 7, &matrix),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_wrap(context.handle(), FLEET_TF32, 8, 8, &random, 8, &matrix),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, 8, 8, "c2x2:", &matrix),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, 8, 8, "x", &matrix),
            FLEET_BAD_ARGUMENT);
  EXPECT_EQ(matrix, nullptr);
  EXPECT_EQ(fleet_event_wait(nullptr), FLEET_BAD_ARGUMENT);
  EXPECT_EQ(fleet_matrix_destroy(nullptr), FLEET_OK);
  EXPECT_EQ(fleet_event_destroy(nullptr), FLEET_OK);
}

TEST(QueuedCalls, MayHaveMatricesOnDevices) {
  const Context context(on_devices(2));
  fleet_matrix *a = nullptr, *c = nullptr;
  ASSERT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, 40, 40, "1", &a), FLEET_OK);
  ASSERT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, 40, 40, "h", &c), FLEET_OK);
  const Matrix keeps_a(a), keeps_c(c);
  void *on_device = nullptr, *on_host = nullptr;
  std::int64_t ld = 0;
  ASSERT_EQ(fleet_matrix_data(a, &on_device, &ld), FLEET_OK);
  EXPECT_EQ(ld, 40);
  ASSERT_EQ(fleet_matrix_data(c, &on_host, nullptr), FLEET_OK);
  const std::vector<double> ones(40 * 40, 1.0);
  context.copy(on_device, ones.data(), ones.size() * sizeof(double));
  ASSERT_EQ(
      fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_TRANS, 1.0, a, a, 0.0, c, nullptr),
      FLEET_OK);
  ASSERT_EQ(fleet_matrix_read(c, 0, 0, 40, 40), FLEET_OK) << fleet_message();
  const auto* result = static_cast<const double*>(on_host);
  EXPECT_EQ(std::count(result, result + 1600, 40.0), 1600);
}

TEST(QueuedCalls, HaveOwnersInCpp) {
  const Context context(on_devices(2));
  std::vector<double> ones(30 * 30, 1.0);
  fleetblas::Matrix<double> a(context, 30, 30, ones.data(), 30), c(context, 30, 30, "h");
  fleetblas::Event event;
  fleetblas::check(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0,
                                     a.handle(), a.handle(), 0.0, c.handle(), event.receive()));
  event.wait();
  EXPECT_TRUE(event.done());
  fleetblas::Matrix<double> part = c.view(2, 3, 4, 5);
  part = std::move(part);
  fleetblas::check(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0,
                                     a.view(0, 0, 4, 30).handle(), a.view(0, 0, 30, 5).handle(),
                                     1.0, part.handle(), event.receive()));
  c.read();
  EXPECT_EQ(c.data()[0], 30);
  EXPECT_EQ(c.data()[2 + 3 * 30], 60);
  EXPECT_EQ(part.rows() * part.cols(), 20);
  EXPECT_THROW(static_cast<void>(c.view(0, 0, 31, 1)), fleetblas::Error);
}

TEST(QueuedCalls, OfAFailedCallTheNextOnesSaySo) {
  const Context context(on_devices(2, ";inject=poison,lost:1@2"));
  fleet_matrix *a = nullptr, *c = nullptr;
  ASSERT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, 64, 64, "h", &a), FLEET_OK);
  ASSERT_EQ(fleet_matrix_create(context.handle(), FLEET_F64, 64, 64, "1", &c), FLEET_OK);
  const Matrix keeps_a(a), keeps_c(c);
  void* data = nullptr;
  ASSERT_EQ(fleet_matrix_data(a, &data, nullptr), FLEET_OK);
  std::fill_n(static_cast<double*>(data), 64 * 64, 1.0);
  fleet_event *first = nullptr, *second = nullptr;
  ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, a, a, 0.0, c,
                              &first),
            FLEET_OK);
  const Event keeps_first(first);
  EXPECT_EQ(fleet_event_wait(first), FLEET_DEVICE_FAILED);
  EXPECT_EQ(std::string(fleet_message()).find("fleet_dgemm_async: "), 0u) << fleet_message();
  EXPECT_EQ(fleet_matrix_read(c, 3, 3, 1, 1), FLEET_DEVICE_FAILED);
  ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, c, a, 1.0, a,
                              &second),
            FLEET_OK);
  const Event keeps_second(second);
  EXPECT_EQ(fleet_event_wait(second), FLEET_DEVICE_FAILED);
  EXPECT_EQ(std::count(static_cast<double*>(data), static_cast<double*>(data) + 4096, 1.0), 4096);
  EXPECT_EQ(fleet_matrix_wrote(c, 0, 0, 64, 64), FLEET_OK);
  EXPECT_EQ(fleet_matrix_read(c, 3, 3, 1, 1), FLEET_OK);
}

TEST(QueuedCalls, OfManyThreadsAreAllDone) {
  constexpr int kThreads = 4, kCalls = 12;
  const Context context(on_devices(2));
  std::vector<std::thread> threads;
  std::vector<char> right(kThreads, 0);
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Generator random(90);
      const Square a(context, 33, random), b(context, 33, random), c(context, 33, random);
      std::vector<double> first;
      bool same = true;
      for (int i = 0; i < kCalls; ++i) {
        same &= multiply(context, a, b, 0.0, c) == FLEET_OK;
        if (i % 3 != 2) continue;
        c.read();
        if (first.empty()) first = c.data;
        same &= first == c.data;
      }
      right[static_cast<std::size_t>(t)] = same;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(right, 1), kThreads);
}

TEST(QueuedCalls, AreDoneBeforeTheirContextEnds) {
  Generator random(91);
  std::vector<double> a = numbers(random, 50, 50, 50), c(2500, 7.0), expected(2500, 0.0);
  {
    const Context context(on_devices(2));
    const Matrix of_a = wrap(context, a.data(), 50, 50, 50);
    fleet_matrix* of_c = wrap(context, c.data(), 50, 50, 50).release();
    ASSERT_EQ(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, of_a.get(),
                                of_a.get(), 0.0, of_c, nullptr),
              FLEET_OK);
    fleet_matrix_destroy(of_c);
  }
  const Context direct(on_the_cpu());
  fleetblas::gemm(direct, FLEET_NO_TRANS, FLEET_NO_TRANS, 50, 50, 50, 1.0, a.data(), 50, a.data(),
                  50, 0.0, expected.data(), 50);
  for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], expected[i], 1e-12);
}

}  // namespace
}  // namespace fleet

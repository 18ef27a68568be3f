// SPDX-License-Identifier: BSD-3-Clause
// test_capi.cpp: products through the public header, against the reference. It knows nothing below
// the C API.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::Guarded;
using test::host_options;
using test::HostContext;
using test::Random;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

fleet_op flag(Op op) { return static_cast<fleet_op>(letter_of(op)); }

template <typename T>
struct Call {
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::int64_t m = 0, n = 0, k = 0;
  T alpha{1};
  const T* a = nullptr;
  std::int64_t lda = 1, stride_a = 0;
  const T* b = nullptr;
  std::int64_t ldb = 1, stride_b = 0;
  T beta{0};
  T* c = nullptr;
  std::int64_t ldc = 1, stride_c = 0;
  std::int64_t batch = 1;
};

/// Calls for the half types, whose scalars are floats.
template <typename T>
constexpr fleet_type kHalfType = std::is_same_v<T, test::F16> ? FLEET_F16 : FLEET_BF16;

template <typename T>
fleet_status gemm(fleet_context* context, const Call<T>& x) {
  const fleet_op ta = flag(x.op_a), tb = flag(x.op_b);
  if constexpr (test::kSmall<T>) {
    constexpr fleet_type kType = kHalfType<T>;
    const float alpha = x.alpha, beta = x.beta;
    return fleet_gemm_ex(context, ta, tb, x.m, x.n, x.k, &alpha, x.a, kType, x.lda, x.b, kType,
                         x.ldb, &beta, x.c, kType, x.ldc, FLEET_F32);
  } else if constexpr (std::is_same_v<T, float>)
    return fleet_sgemm(context, ta, tb, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c,
                       x.ldc);
  else if constexpr (std::is_same_v<T, double>)
    return fleet_dgemm(context, ta, tb, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c,
                       x.ldc);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return fleet_cgemm(context, ta, tb, x.m, x.n, x.k, &x.alpha, x.a, x.lda, x.b, x.ldb, &x.beta,
                       x.c, x.ldc);
  else
    return fleet_zgemm(context, ta, tb, x.m, x.n, x.k, &x.alpha, x.a, x.lda, x.b, x.ldb, &x.beta,
                       x.c, x.ldc);
}

template <typename T>
fleet_status gemm_batched(fleet_context* context, const Call<T>& x) {
  const fleet_op ta = flag(x.op_a), tb = flag(x.op_b);
  if constexpr (test::kSmall<T>) {
    constexpr fleet_type kType = kHalfType<T>;
    const float alpha = x.alpha, beta = x.beta;
    return fleet_gemm_strided_batched_ex(context, ta, tb, x.m, x.n, x.k, &alpha, x.a, kType, x.lda,
                                         x.stride_a, x.b, kType, x.ldb, x.stride_b, &beta, x.c,
                                         kType, x.ldc, x.stride_c, x.batch, FLEET_F32);
  } else if constexpr (std::is_same_v<T, float>)
    return fleet_sgemm_strided_batched(context, ta, tb, x.m, x.n, x.k, x.alpha, x.a, x.lda,
                                       x.stride_a, x.b, x.ldb, x.stride_b, x.beta, x.c, x.ldc,
                                       x.stride_c, x.batch);
  else if constexpr (std::is_same_v<T, double>)
    return fleet_dgemm_strided_batched(context, ta, tb, x.m, x.n, x.k, x.alpha, x.a, x.lda,
                                       x.stride_a, x.b, x.ldb, x.stride_b, x.beta, x.c, x.ldc,
                                       x.stride_c, x.batch);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return fleet_cgemm_strided_batched(context, ta, tb, x.m, x.n, x.k, &x.alpha, x.a, x.lda,
                                       x.stride_a, x.b, x.ldb, x.stride_b, &x.beta, x.c, x.ldc,
                                       x.stride_c, x.batch);
  else
    return fleet_zgemm_strided_batched(context, ta, tb, x.m, x.n, x.k, &x.alpha, x.a, x.lda,
                                       x.stride_a, x.b, x.ldb, x.stride_b, &x.beta, x.c, x.ldc,
                                       x.stride_c, x.batch);
}

/// A matrix of `items` items at a location of the C API: its contents on the host, and memory at
/// the location if that is not the host.
template <typename T>
class Located {
 public:
  Located(fleet_context* context, Random& random, std::int64_t rows, std::int64_t cols,
          int location, std::int64_t items = 1)
      : context_(context),
        location_(location),
        bytes_(0),
        host_(rows, cols, std::max<std::int64_t>(1, rows) + random.between(0, 5), items,
              (std::max<std::int64_t>(1, rows) + 6) * cols + random.between(0, 9)) {
    host_.fill_random(random);
    if (location == FLEET_HOST_PAGEABLE) return;
    bytes_ = static_cast<std::size_t>((items - 1) * host_.stride() + host_.ld() * cols) * sizeof(T);
    EXPECT_EQ(fleet_alloc(context, location, bytes_, &memory_), FLEET_OK) << fleet_message();
    send();
  }
  ~Located() { EXPECT_EQ(fleet_free(context_, memory_), FLEET_OK) << fleet_message(); }
  Located(const Located&) = delete;
  Located& operator=(const Located&) = delete;

  T* data() { return memory_ != nullptr ? static_cast<T*>(memory_) : host_.data(); }
  Guarded<T>& host() { return host_; }
  void send() {
    if (memory_ == nullptr) return;
    EXPECT_EQ(fleet_copy(context_, memory_, host_.data(), bytes_), FLEET_OK) << fleet_message();
  }
  void receive() {
    if (memory_ == nullptr) return;
    EXPECT_EQ(fleet_copy(context_, host_.data(), memory_, bytes_), FLEET_OK) << fleet_message();
  }

 private:
  fleet_context* context_;
  int location_;
  std::size_t bytes_;
  Guarded<T> host_;
  void* memory_ = nullptr;
};

struct Sizes {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool shared_a = false;
};

/// Roundings of C with tiles of 24: one per step of four tiles along k, and one for adding C.
constexpr std::int64_t kLongestK = 97, kMostRoundings = (kLongestK + 95) / 96 + 1;

Sizes random_sizes(Random& random) {
  const std::vector<std::int64_t> edges = {0, 1, 2, 7, 13, 31, 64, kLongestK};
  return {.m = random.pick(edges), .n = random.pick(edges), .k = random.pick(edges)};
}

int random_location(Random& random, int devices) {
  return static_cast<int>(random.between(FLEET_HOST_PAGEABLE, devices - 1));
}

/// Computes one random product of type T on `context`; "" if it is right.
template <typename T>
std::string try_one(fleet_context* context, Random& random, int devices, const Sizes& s) {
  const std::vector<Op> ops = {Op::none, Op::transpose, Op::conjugate};
  const Op op_a = random.pick(ops), op_b = random.pick(ops);
  const auto make = [&](Op op, std::int64_t rows, std::int64_t cols, std::int64_t items) {
    return std::make_unique<Located<T>>(context, random, op == Op::none ? rows : cols,
                                        op == Op::none ? cols : rows,
                                        random_location(random, devices), items);
  };
  auto a = make(op_a, s.m, s.k, s.shared_a ? 1 : s.batch);
  auto b = make(op_b, s.k, s.n, s.batch);
  auto c = make(Op::none, s.m, s.n, s.batch);
  const T beta = random.chance(0.3) ? T(0) : random.chance(0.3) ? T(1) : random_scalar<T>(random);
  const T alpha = random.chance(0.1) ? T(0) : random_scalar<T>(random);
  if (beta == T(0)) c->host().fill(T(static_cast<float>(kNan)));
  if (alpha == T(0)) a->host().fill(T(static_cast<float>(kNan)));
  a->send();
  c->send();
  Guarded<T> old = c->host();

  const Call<T> call{.op_a = op_a,
                     .op_b = op_b,
                     .m = s.m,
                     .n = s.n,
                     .k = s.k,
                     .alpha = alpha,
                     .a = a->data(),
                     .lda = a->host().ld(),
                     .stride_a = s.shared_a ? 0 : a->host().stride(),
                     .b = b->data(),
                     .ldb = b->host().ld(),
                     .stride_b = b->host().stride(),
                     .beta = beta,
                     .c = c->data(),
                     .ldc = c->host().ld(),
                     .stride_c = c->host().stride(),
                     .batch = s.batch};
  const fleet_status status = s.batch == 1 ? gemm(context, call) : gemm_batched(context, call);
  if (status != FLEET_OK) return fleet_message();
  c->receive();

  for (std::int64_t item = 0; item < s.batch; ++item) {
    const auto expected = test::expect_gemm<T>({.op_a = op_a,
                                                .op_b = op_b,
                                                .m = s.m,
                                                .n = s.n,
                                                .k = s.k,
                                                .alpha = alpha,
                                                .a = a->host().item(s.shared_a ? 0 : item),
                                                .lda = a->host().ld(),
                                                .b = b->host().item(item),
                                                .ldb = b->host().ld(),
                                                .beta = beta,
                                                .c = old.item(item),
                                                .ldc = old.ld(),
                                                .roundings = kMostRoundings});
    const std::string wrong =
        test::first_difference(expected, c->host().item(item), c->host().ld());
    if (!wrong.empty()) return "item " + std::to_string(item) + ": " + wrong;
  }
  return c->host().broken_guard();
}

std::string try_any_type(fleet_context* context, Random& random, int devices, const Sizes& sizes) {
  const std::vector<DataType> types = {DataType::f32, DataType::f64, DataType::c32,
                                       DataType::c64, DataType::f16, DataType::bf16};
  return test::with_type(random.pick(types),
                         [&]<typename T>() { return try_one<T>(context, random, devices, sizes); });
}

class Products : public ::testing::TestWithParam<int> {};

TEST_P(Products, OfAnyTypeShapeAndPlaceAgreeWithTheReference) {
  const int devices = GetParam();
  const HostContext context(host_options(devices) + ";tile=24;inject=poison");
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test::scaled(300)); ++seed) {
    Random random(seed * 31 + static_cast<std::uint64_t>(devices));
    const Sizes sizes = random_sizes(random);
    ASSERT_EQ(try_any_type(context, random, devices, sizes), "")
        << "seed " << seed << ": " << sizes.m << " x " << sizes.n << " x " << sizes.k;
  }
}

TEST_P(Products, InBatchesAgreeWithTheReference) {
  const int devices = GetParam();
  const HostContext context(host_options(devices) + ";tile=24");
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test::scaled(60)); ++seed) {
    Random random(seed * 37 + static_cast<std::uint64_t>(devices));
    Sizes sizes = random_sizes(random);
    sizes.batch = random.between(2, 9);
    sizes.shared_a = random.chance(0.4);
    ASSERT_EQ(try_any_type(context, random, devices, sizes), "")
        << "seed " << seed << ": " << sizes.batch << " of " << sizes.m << " x " << sizes.n << " x "
        << sizes.k;
  }
}

TEST_P(Products, OnTheCpuAgreeWithTheReferenceWhereverTheOperandsAre) {
  const int devices = GetParam();
  const HostContext context(host_options(devices) + ";offload=never");
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test::scaled(100)); ++seed) {
    Random random(seed * 41 + static_cast<std::uint64_t>(devices));
    Sizes sizes = random_sizes(random);
    sizes.batch = random.between(1, 3);
    ASSERT_EQ(try_any_type(context, random, devices, sizes), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Products, ::testing::Values(1, 2, 3, 4));

TEST(DefaultContext, ComputesOnTheCpuWithoutAnySetting) {
  Random random(5);
  for (int i = 0; i < 20; ++i) {
    Sizes sizes = random_sizes(random);
    ASSERT_EQ(try_any_type(nullptr, random, 0, sizes), "");
  }
}

TEST(Batches, OfThousandsAreSplitIntoPlans) {
  const HostContext context(host_options(2));
  Random random(3);
  const Sizes sizes{.m = 3, .n = 2, .k = 4, .batch = test::scaled(30000)};

  EXPECT_EQ(try_one<float>(context, random, 2, sizes), "");
}

TEST(Batches, MayLieBesideEachOtherInTheSameRows) {
  const HostContext context(host_options(2));
  constexpr std::int64_t kItems = 5, kEdge = 4, kLd = kItems * kEdge;
  std::vector<double> a(kEdge * kEdge, 1.0), c(kLd * kEdge, -1.0);

  const fleet_status status = fleet_dgemm_strided_batched(
      context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0, a.data(), kEdge, 0,
      a.data(), kEdge, 0, 0.0, c.data(), kLd, kEdge, kItems);

  EXPECT_EQ(status, FLEET_OK) << fleet_message();
  EXPECT_EQ(c, std::vector<double>(kLd * kEdge, 4.0));
}

TEST(Aliases, AAndBMayBeTheSameMatrix) {
  const HostContext context(host_options(2) + ";tile=16");
  Random random(11);
  Guarded<double> a(50, 50), c(50, 50);
  a.fill_random(random);

  ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_TRANS, 50, 50, 50, 1.0, a.data(), a.ld(),
                        a.data(), a.ld(), 0.0, c.data(), c.ld()),
            FLEET_OK);

  const auto expected = test::expect_gemm<double>({.op_b = Op::transpose,
                                                   .m = 50,
                                                   .n = 50,
                                                   .k = 50,
                                                   .a = a.data(),
                                                   .lda = a.ld(),
                                                   .b = a.data(),
                                                   .ldb = a.ld(),
                                                   .beta = 0});
  EXPECT_EQ(test::first_difference(expected, c.data(), c.ld()), "");
}

TEST(Aliases, BlocksOfOneMatrixGoToTheDevicesAndOverlapsToTheCpu) {
  const HostContext context(host_options(2) + ";tile=16");
  Random random(12);
  // C, A and B are blocks of one 90 x 90 matrix, as in an LU factorization.
  Guarded<double> whole(90, 90);
  whole.fill_random(random);
  Guarded<double> old = whole;
  const double *a = &whole.at(30, 0), *b = &whole.at(0, 30);
  double* c = &whole.at(30, 30);

  ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 60, 60, 30, -1.0, a, 90, b, 90,
                        1.0, c, 90),
            FLEET_OK);

  const auto expected = test::expect_gemm<double>({.m = 60,
                                                   .n = 60,
                                                   .k = 30,
                                                   .alpha = -1,
                                                   .a = &old.at(30, 0),
                                                   .lda = 90,
                                                   .b = &old.at(0, 30),
                                                   .ldb = 90,
                                                   .beta = 1,
                                                   .c = &old.at(30, 30),
                                                   .ldc = 90});
  EXPECT_EQ(test::first_difference(expected, c, 90), "");
  EXPECT_NE(context.text(fleet_stats_json).find(R"("where":"devices","reason":"offload=always")"),
            std::string::npos);
  // One column to the left, C would share elements with A.
  EXPECT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 60, 60, 30, -1.0, a, 90, b, 90,
                        1.0, &whole.at(30, 29), 90),
            FLEET_OK);
  EXPECT_NE(context.text(fleet_stats_json).find("C overlaps A or B"), std::string::npos);
}

/// A 1 x 1 product of these types: C = alpha*a*b + beta*c.
fleet_status one_by_one(fleet_context* context, fleet_type types, fleet_type compute, const void* a,
                        const void* b, void* c) {
  const float alpha = 2, beta = 0.5;
  return fleet_gemm_ex(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 1, 1, 1, &alpha, a, types, 1, b,
                       types, 1, &beta, c, types, 1, compute);
}

TEST(GemmEx, ComputesHalfTypesInFloats) {
  const HostContext context(host_options(1));
  const test::F16 a(300), b(200);
  test::F16 c(10);
  const test::BF16 a2(300), b2(200);
  test::BF16 c2(10);

  EXPECT_EQ(one_by_one(context, FLEET_F16, FLEET_F32, &a, &b, &c), FLEET_OK) << fleet_message();
  EXPECT_EQ(one_by_one(context, FLEET_BF16, FLEET_F32, &a2, &b2, &c2), FLEET_OK);

  EXPECT_EQ(c, std::numeric_limits<float>::infinity());  // 120005 is beyond 65504
  EXPECT_EQ(c2, 119808.0F);                              // 120005 in steps of 512
  EXPECT_NE(context.text(fleet_stats_json).find(R"("type":"bf16")"), std::string::npos);
}

TEST(GemmEx, DoesFloatsAsTf32WhichTheCpuDoesNotRound) {
  const HostContext context(host_options(2) + ";tile=24");
  Random random(31);
  Guarded<float> a(70, 90), b(90, 50), c(70, 50), c2(70, 50);
  a.fill_random(random);
  b.fill_random(random);
  const float alpha = 1, beta = 0;

  ASSERT_EQ(fleet_gemm_ex(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 70, 50, 90, &alpha, a.data(),
                          FLEET_F32, 70, b.data(), FLEET_F32, 90, &beta, c.data(), FLEET_F32, 70,
                          FLEET_TF32),
            FLEET_OK)
      << fleet_message();
  EXPECT_NE(context.text(fleet_stats_json).find(R"("type":"tf32")"), std::string::npos);
  ASSERT_EQ(fleet_sgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 70, 50, 90, alpha, a.data(), 70,
                        b.data(), 90, beta, c2.data(), 70),
            FLEET_OK);

  // The same rates give the same plan, and so the same bits.
  EXPECT_EQ(std::memcmp(c.data(), c2.data(), 70 * 50 * sizeof(float)), 0);
}

TEST(GemmEx, RefusesTypesThatDoNotGoTogether) {
  const HostContext context(host_options(1));
  const float a = 3, b = 4;
  float c = 10;

  for (const fleet_type types : {FLEET_F16, FLEET_BF16, FLEET_TF32})
    for (const fleet_type compute : {FLEET_F16, FLEET_BF16, FLEET_TF32, FLEET_F64})
      EXPECT_EQ(one_by_one(context, types, compute, &a, &b, &c), FLEET_UNSUPPORTED);
  EXPECT_EQ(one_by_one(context, FLEET_F32, FLEET_F16, &a, &b, &c), FLEET_UNSUPPORTED);
  EXPECT_STREQ(fleet_message(),
               "fleet_gemm_ex: this version does not multiply s by s into s computed as h");
  EXPECT_EQ(c, 10);
}

TEST(GemmEx, DoesEqualTypesAndRefusesOthers) {
  const HostContext context(host_options(1));
  const float a = 3, b = 4, alpha = 2, beta = 0.5;
  float c = 10;

  EXPECT_EQ(fleet_gemm_ex(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 1, 1, 1, &alpha, &a, FLEET_F32,
                          1, &b, FLEET_F32, 1, &beta, &c, FLEET_F32, 1, FLEET_F32),
            FLEET_OK);
  EXPECT_EQ(c, 29);  // 2*3*4 + 0.5*10
  EXPECT_EQ(fleet_gemm_ex(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 1, 1, 1, &alpha, &a, FLEET_F32,
                          1, &b, FLEET_F32, 1, &beta, &c, FLEET_F32, 1, FLEET_F64),
            FLEET_UNSUPPORTED);
  EXPECT_EQ(fleet_gemm_ex(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 1, 1, 1, &alpha, &a,
                          static_cast<fleet_type>('q'), 1, &b, FLEET_F32, 1, &beta, &c, FLEET_F32,
                          1, FLEET_F32),
            FLEET_BAD_ARGUMENT);
  EXPECT_STREQ(fleet_message(),
               "fleet_gemm_ex: argument 9 (atype) is 113, expected 's', 'd', 'c', 'z', 'h', 'b' or "
               "'t'");
  EXPECT_EQ(c, 29);
}

}  // namespace
}  // namespace fleet

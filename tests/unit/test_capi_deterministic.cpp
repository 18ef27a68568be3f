// SPDX-License-Identifier: BSD-3-Clause
// test_capi_deterministic.cpp: with `deterministic` set, the bits of C do not depend on the
// addresses or leading dimensions of operands on devices. It knows nothing below the C API.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/reference.hpp"

namespace fleet {
namespace {

using Json = nlohmann::json;
using test::host_options;
using test::HostContext;
using test::Random;

constexpr std::int64_t kEdge = 61;

/// A square matrix on device 0, `offset` elements after an aligned address, with `slack` extra
/// rows.
class Placed {
 public:
  Placed(const HostContext& context, const std::vector<double>& values, std::int64_t offset,
         std::int64_t slack)
      : context_(context), offset_(offset), ld_(kEdge + slack), staged_(elements()) {
    for (std::int64_t col = 0; col < kEdge; ++col)
      for (std::int64_t row = 0; row < kEdge; ++row)
        staged_[static_cast<std::size_t>(offset_ + row + col * ld_)] =
            values[static_cast<std::size_t>(row + col * kEdge)];
    EXPECT_EQ(fleet_alloc(context_, 0, bytes(), &memory_), FLEET_OK) << fleet_message();
    EXPECT_EQ(fleet_copy(context_, memory_, staged_.data(), bytes()), FLEET_OK);
  }
  ~Placed() { EXPECT_EQ(fleet_free(context_, memory_), FLEET_OK); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  double* data() const { return static_cast<double*>(memory_) + offset_; }
  std::int64_t ld() const { return ld_; }

  std::vector<double> values() {
    EXPECT_EQ(fleet_copy(context_, staged_.data(), memory_, bytes()), FLEET_OK);
    std::vector<double> values;
    for (std::int64_t col = 0; col < kEdge; ++col)
      for (std::int64_t row = 0; row < kEdge; ++row)
        values.push_back(staged_[static_cast<std::size_t>(offset_ + row + col * ld_)]);
    return values;
  }

 private:
  std::size_t elements() const { return static_cast<std::size_t>(offset_ + ld_ * kEdge); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(elements() * sizeof(double)); }

  const HostContext& context_;
  const std::int64_t offset_, ld_;
  std::vector<double> staged_;
  void* memory_ = nullptr;
};

TEST(Deterministic, GivesTheSameBitsWhateverTheAddressesAndLeadingDimensions) {
  const HostContext context(host_options(2) + ";tile=24;deterministic=1");
  Random random(5);
  std::vector<double> a(kEdge * kEdge), b(a), c(a);
  for (std::vector<double>* values : {&a, &b, &c})
    for (double& value : *values) value = test::random_scalar<double>(random);
  const auto expected = test::expect_gemm<double>({.m = kEdge,
                                                   .n = kEdge,
                                                   .k = kEdge,
                                                   .alpha = 1.5,
                                                   .a = a.data(),
                                                   .lda = kEdge,
                                                   .b = b.data(),
                                                   .ldb = kEdge,
                                                   .beta = -0.5,
                                                   .c = c.data(),
                                                   .ldc = kEdge});
  std::vector<std::vector<double>> results;
  for (std::int64_t offset = 0; offset < 8; ++offset) {
    Placed on_a(context, a, offset, offset % 3);
    Placed on_b(context, b, 7 - offset, offset % 2);
    Placed on_c(context, c, offset % 5, offset % 4);

    ASSERT_EQ(
        fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.5, on_a.data(),
                    on_a.ld(), on_b.data(), on_b.ld(), -0.5, on_c.data(), on_c.ld()),
        FLEET_OK)
        << fleet_message();

    results.push_back(on_c.values());
    ASSERT_EQ(test::first_difference(expected, results.back().data(), kEdge), "");
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Deterministic, CopiesWhatTheDeviceHasAtHome) {
  for (const bool on : {false, true}) {
    const HostContext context(host_options(1) + ";deterministic=" + (on ? "1" : "0"));
    const std::vector<double> ones(kEdge * kEdge, 1.0);
    Placed a(context, ones, 0, 0), b(context, ones, 0, 0), c(context, ones, 0, 0);

    ASSERT_EQ(fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1, a.data(),
                          a.ld(), b.data(), b.ld(), 0, c.data(), c.ld()),
              FLEET_OK)
        << fleet_message();

    const Json last = Json::parse(context.text(fleet_stats_json))["last"];
    EXPECT_EQ(last["where"], "devices");
    EXPECT_EQ(last["bytes_by_link"].contains("0->host"), on) << last.dump();
    EXPECT_EQ(c.values(), std::vector<double>(kEdge * kEdge, static_cast<double>(kEdge)));
  }
}

}  // namespace
}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// test_factor_faults.cpp: factorizations through the C API while copies, kernels, allocations and
// devices fail, and where memory holds a part of the matrix only. It knows nothing below the C API
// but the LAPACK that it is compared with.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cpu/lapack.hpp"
#include "support/cpu_blas.hpp"
#include "support/host_context.hpp"
#include "support/lapack_api.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::host_options;
using test::HostContext;
using Real = test::Matrix<double>;

constexpr std::int64_t kOrder = 90;
constexpr double kClose = 1e-9;
const int kStep = static_cast<int>(test::scaled_step());

/// A matrix, and its factors by the CPU's LAPACK: what is below a diagonal of ones and what is on
/// and above it are unique, but for rounding.
class Factored {
 public:
  explicit Factored(Factoring routine) : routine_(routine) {
    std::mt19937 random(7);
    before_ = Real(kOrder, kOrder, random);
    if (routine == Factoring::potrf) before_.strengthen();
    expected_ = before_;
    pivots_.resize(kOrder);
    tau_.resize(kOrder);
    CpuBlas& blas = *test::shared_cpu_blas();
    View a = expected_.view();
    if (routine == Factoring::potrf) {
      a.fill = Fill::lower;
      EXPECT_EQ(lapack::potrf(blas, Storage::f64, a), 0);
    } else if (routine == Factoring::getrf) {
      EXPECT_EQ(lapack::getrf(blas, Storage::f64, a, pivots_.data()), 0);
    } else {
      lapack::geqrf(blas, Storage::f64, a, tau_.data());
    }
  }

  /// Factors it; "" if the factors are right, or it failed with a status that says so.
  std::string run(fleet_context* context, int& failures) const {
    Real a = before_;
    std::vector<std::int64_t> pivots(kOrder);
    std::vector<double> tau(kOrder);
    std::int64_t info = -1;
    fleet_status status = FLEET_OK;
    if (routine_ == Factoring::potrf)
      status = fleet_dpotrf(context, FLEET_LOWER, kOrder, a.data.data(), a.ld, &info);
    else if (routine_ == Factoring::getrf)
      status = fleet_dgetrf(context, kOrder, kOrder, a.data.data(), a.ld, pivots.data(), &info);
    else
      status = fleet_dgeqrf(context, kOrder, kOrder, a.data.data(), a.ld, tau.data());
    if (status == FLEET_DEVICE_FAILED) {
      ++failures;
      return {};
    }
    if (status != FLEET_OK)
      return a.data == before_.data ? fleet_message() : "a status that lies: A has changed";
    double most = 0;
    for (std::size_t i = 0; i < a.data.size(); ++i)
      most = std::max(most, std::abs(a.data[i] - expected_.data[i]));
    if (!(most < kClose)) return "factors are off by " + std::to_string(most);
    if (routine_ == Factoring::getrf && pivots != pivots_) return "other pivots";
    if (routine_ == Factoring::geqrf)
      for (std::size_t i = 0; i < tau.size(); ++i)
        if (!(std::abs(tau[i] - tau_[i]) < kClose)) return "another tau";
    return {};
  }

 private:
  Factoring routine_;
  Real before_{0, 0}, expected_{0, 0};
  std::vector<std::int64_t> pivots_;
  std::vector<double> tau_;
};

constexpr Factoring kAll[] = {Factoring::potrf, Factoring::getrf, Factoring::geqrf};

nlohmann::json last_call(const HostContext& context) {
  return nlohmann::json::parse(context.text(fleet_stats_json))["last"];
}

/// Each of the first faults of a kind; at a smaller scale every second, third, ... of them. Returns
/// how many calls said that they had failed.
int expect_right_with(const std::string& fault, int first, int last) {
  int failures = 0;
  for (const Factoring routine : kAll) {
    const Factored factored(routine);
    for (int n = first; n <= last; n += kStep) {
      const HostContext context(host_options(3) + ";tile=16;inject=" + fault + std::to_string(n));
      EXPECT_EQ(factored.run(context, failures), "") << word_of(routine) << ", " << fault << n;
    }
  }
  return failures;
}

TEST(FactorFaults, OfAnyCopyLeaveRightFactorsOrSaySo) {
  // Before anything has come home the CPU does the call.
  EXPECT_EQ(expect_right_with("copy:", 1, 6), 0);
  expect_right_with("copy:", 7, 40);
}

TEST(FactorFaults, OfAnyKernelLeaveRightFactorsOrSaySo) { expect_right_with("launch:", 1, 60); }

TEST(FactorFaults, OfAnyAllocationLeaveRightFactors) {
  EXPECT_EQ(expect_right_with("alloc:", 1, 8), 0);
}

TEST(FactorFaults, LostDevicesLeaveRightFactorsOrSaySo) {
  int failures = 0, calls = 0;
  for (const Factoring routine : kAll) {
    const Factored factored(routine);
    for (int tiles = 0; tiles < 14; tiles += std::min(kStep, 5), ++calls) {
      const HostContext context(host_options(3) + ";tile=16;inject=lost:1@" +
                                std::to_string(tiles));
      EXPECT_EQ(factored.run(context, failures), "") << word_of(routine) << ", " << tiles;
      EXPECT_EQ(factored.run(context, failures), "") << word_of(routine) << " after a loss";
    }
  }
  EXPECT_LT(failures, calls);
}

TEST(FactorFaults, MemoryForAPartOfTheMatrixTakesStages) {
  for (const Factoring routine : kAll) {
    const Factored factored(routine);
    int failures = 0;
    const HostContext context(host_options(2) + ";tile=8;memory_cap=50K");
    EXPECT_EQ(factored.run(context, failures), "") << word_of(routine);
    EXPECT_EQ(failures, 0);
    EXPECT_EQ(last_call(context)["where"], "devices") << context.text(fleet_stats_json);
    const std::string text = routine == Factoring::potrf
                                 ? "dpotrf n=90 a@p"
                                 : std::string("d") + word_of(routine) + " m=90 n=90 a@p";
    const auto plan = nlohmann::json::parse(context.text(fleet_plan_json, text.c_str()));
    EXPECT_GT(plan["stages"], 1) << word_of(routine);
  }
}

TEST(FactorFaults, MemoryForNoStripLeavesTheCpu) {
  const Factored factored(Factoring::getrf);
  int failures = 0;
  const HostContext context(host_options(2) + ";tile=8;memory_cap=4K");
  EXPECT_EQ(factored.run(context, failures), "");
  EXPECT_EQ(last_call(context)["where"], "cpu");
}

}  // namespace
}  // namespace fleet

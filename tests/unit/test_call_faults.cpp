// SPDX-License-Identifier: BSD-3-Clause
// test_call_faults.cpp: the seam between execution and recovery, through the C API: every kind of
// fault in random calls of all routines, while each host allocation fails in turn. C is right, or
// the status tells its state. It knows nothing below the C API but texts of problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "support/api_call.hpp"
#include "support/failing_new.hpp"
#include "support/host_context.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::ApiCall;
using test::between;
using test::chance;
using test::Generator;
using test::HostContext;

constexpr int kDevices = 3;
constexpr std::int64_t kLargestSize = 40;
/// The most allocations of one call with a cached plan, and of its recovery.
constexpr long kMostAllocations = 5000;
constexpr std::int64_t kFewest = 4;
constexpr double kCoarser = 0.5;

struct Ends {
  int right = 0;
  int undefined = 0;
  int untouched = 0;
  int recovered = 0;  ///< calls recovered without a failed allocation
};

enum class Fault { none, alloc, copy, launch, lost };

/// One fault of a kind, and the device that it removes.
struct Given {
  std::string words;
  DeviceId lost = -1;
};

Given random_fault(Fault fault, const ApiCall& call, Generator& random) {
  const std::string early = std::to_string(between(random, 1, 12));
  int device = static_cast<int>(between(random, 0, kDevices - 1));
  switch (fault) {
    case Fault::none:
      return {};
    case Fault::alloc:
      return {",alloc:" + std::to_string(call.allocations() + between(random, 1, 3))};
    case Fault::copy:
      return {",copy:" + early};
    case Fault::launch:
      return {",launch:" + early};
    case Fault::lost:
      break;
  }
  // Most lost devices hold no operands, so that the call can be recovered.
  for (int other = 0; other < kDevices; ++other)
    if (!call.uses(kFirstDevice + other) && chance(random, 70)) device = other;
  return {",lost:" + std::to_string(device) + "@" + early, kFirstDevice + device};
}

/// Checks that C is as the status says. `no_memory`: an injected allocation failed.
std::string verdict(const ApiCall& call, fleet_status status, bool no_memory, DeviceId lost,
                    Ends& ends) {
  if (status == FLEET_OK) {
    ++ends.right;
    return call.verdict();
  }
  if (status == FLEET_DEVICE_FAILED) {
    ++ends.undefined;
    if (!no_memory && !call.uses(lost)) return "C could have been completed";
    return call.broken_guard();
  }
  ++ends.untouched;
  if (status != FLEET_NO_MEMORY) return "another status";
  if (!no_memory) return "there was memory";
  if (call.is_on_host()) return "the CPU needs no memory for operands on the host";
  return call.is_untouched() ? "" : "C was touched";
}

struct Attempt {
  ApiCall& call;
  const std::string& options;
  const Given& fault;
  bool one;  ///< false: all later allocations fail too
};

/// Repeats the whole call in the surviving context. A device allocation may fail only now.
std::string verdict_of_next_call(ApiCall& call, fleet_context* context) {
  fleet_status status = call.place(context);
  const bool placed = status == FLEET_OK;
  if (placed) status = call.run();
  const std::string message = fleet_message();
  call.take_back();
  if (status == FLEET_OK) return call.verdict();
  return !placed && status == FLEET_NO_MEMORY ? "" : "the next call: " + message;
}

/// Makes one call with a cached plan in a new context while its n-th allocation fails. Returns the
/// fault, or ""; `failed` is set if there was such an allocation.
std::string try_at(const Attempt& attempt, long n, bool& failed, Ends& ends) {
  ApiCall& call = attempt.call;
  const HostContext context(attempt.options);
  if (call.place(context) != FLEET_OK) return fleet_message();
  context.text(fleet_plan_json, to_text(call.problem()).c_str());

  fleet_status status = FLEET_INTERNAL;
  failed = test::with_failure(n, attempt.one, [&] { status = call.run(); });

  const std::string message = fleet_message();
  call.take_back();
  const std::string wrong = verdict(call, status, failed, attempt.fault.lost, ends);
  if (!wrong.empty()) return wrong + " (" + fleet_status_string(status) + ": " + message + ")";
  if (!failed && context.text(fleet_stats_json).find("finished on the CPU") != std::string::npos)
    ++ends.recovered;
  return call.uses(attempt.fault.lost) ? "" : verdict_of_next_call(call, context);
}

/// Calls each routine in turn with one fault of this kind. A reduced scale takes fewer routines and
/// allocations.
Ends try_each_allocation(Fault kind) {
  const std::string devices = test::host_options(kDevices);
  Generator random(static_cast<std::uint64_t>(kind));
  Ends ends;
  const std::int64_t trials = std::max(kFewest, test::scaled(kRoutines));
  const auto step = static_cast<long>(std::max(1.0, kCoarser / test::test_scale()));
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const auto routine = static_cast<Routine>((trial + 3 * static_cast<int>(kind)) % kRoutines);
    const auto call = test::random_api_call(random, routine, kDevices, kLargestSize);
    const Given fault = random_fault(kind, *call, random);
    const std::string order = chance(random, 50) ? ",order:" + std::to_string(random() % 99) : "";
    const std::string options = devices + ";tile=" + std::to_string(between(random, 7, 20)) +
                                ";inject=poison" + order + fault.words;
    const Attempt attempt{*call, options, fault, chance(random, 50)};
    bool failed = true;
    for (long n = 1; failed && n < kMostAllocations; n += step) {
      const std::string wrong = try_at(attempt, n, failed, ends);
      if (wrong.empty()) continue;
      ADD_FAILURE() << to_text(call->problem()) << " " << options << " allocation " << n
                    << (attempt.one ? ": " : " and all after it: ") << wrong;
      return ends;
    }
    EXPECT_FALSE(failed) << "more than kMostAllocations allocations";
  }
  return ends;
}

TEST(EveryFailingAllocation, WithoutAFaultLeavesTheRightCOrAnUntouchedOne) {
  const Ends ends = try_each_allocation(Fault::none);

  EXPECT_GT(ends.right, 0);
  EXPECT_EQ(ends.undefined, 0) << "a run takes no memory once it has begun";
}

TEST(EveryFailingAllocation, BesideOneOfADeviceLeavesTheRightCOrAnUntouchedOne) {
  const Ends ends = try_each_allocation(Fault::alloc);

  EXPECT_GT(ends.right, 0);
  EXPECT_EQ(ends.undefined, 0) << "a run takes no memory once it has begun";
}

class EveryFailingAllocationBeside : public ::testing::TestWithParam<Fault> {};

TEST_P(EveryFailingAllocationBeside, AFaultLeavesTheRightCOrSaysThatItIsUndefined) {
  const Ends ends = try_each_allocation(GetParam());

  EXPECT_GT(ends.recovered, 0);
  EXPECT_GT(ends.undefined, 0) << "no allocation failed after the fault";
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryFailingAllocationBeside,
                         ::testing::Values(Fault::copy, Fault::launch, Fault::lost));

}  // namespace
}  // namespace fleet

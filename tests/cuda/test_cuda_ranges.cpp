// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_ranges.cpp: what a profiler is told, with a stand-in for one linked into this program,
// as NVTX allows. Needs the toolkit's headers, and no GPU.
#include <gtest/gtest.h>
#define NVTX_NO_IMPL  // this is a tool; the other file of this program is what it watches
#include <nvtx3/nvToolsExt.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/ranges.hpp"
#include "support/hand_plan.hpp"

namespace fleet::cuda {
namespace {

// NVTX calls plain functions. One thread only.
std::vector<std::string> told;
int ranges_open = 0;

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  told.push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&told);
}
nvtxRangeId_t NVTX_API start_range(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  told.push_back(std::string("start ") + event->message.ascii);
  return static_cast<nvtxRangeId_t>(++ranges_open);
}
void NVTX_API end_range(nvtxDomainHandle_t, nvtxRangeId_t id) {
  told.push_back("end " + std::to_string(id));
}
int NVTX_API push_range(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  told.push_back(std::string("push ") + event->message.ascii + " of " +
                 std::to_string(event->payload.llValue) + " bytes");
  return 0;
}
int NVTX_API pop_range(nvtxDomainHandle_t) {
  told.push_back("pop");
  return 0;
}

int NVTX_API be_the_tool(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  const auto take = [&](unsigned entry, auto function) {
    *table[entry] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  take(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  take(NVTX_CBID_CORE2_DomainRangeStartEx, start_range);
  take(NVTX_CBID_CORE2_DomainRangeEnd, end_range);
  take(NVTX_CBID_CORE2_DomainRangePushEx, push_range);
  take(NVTX_CBID_CORE2_DomainRangePop, pop_range);
  return 1;
}

}  // namespace
}  // namespace fleet::cuda

extern "C" NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = fleet::cuda::be_the_tool;

namespace fleet::cuda {
namespace {

using test::HandMachine;
using test::HandPlan;
using Told = std::vector<std::string>;

/// Host -> 0, and a product there; tiles of 8 doubles.
struct SmallPlan {
  SmallPlan() : in(machine.link(kHost, kFirstDevice, 2)), plan(machine.get(), {8}) {
    fetch = plan.copy({.link = in});
    product = plan.compute({.lane = 1, .after = {fetch}});
  }
  HandMachine machine{1};
  LinkId in;
  HandPlan plan;
  TaskId fetch, product;
};

TEST(Ranges, NameTheCallAndTheTasksInItAsTimelinesDo) {
  told.clear();
  ranges_open = 0;
  SmallPlan small;
  const Ranges ranges;

  {
    const Ranges::CallRange call(ranges, small.plan.get());
    { const Ranges::TaskRange range(ranges, small.plan.get(), small.machine.get(), small.fetch); }
    { const Ranges::TaskRange range(ranges, small.plan.get(), small.machine.get(), small.product); }
  }

  EXPECT_EQ(told, (Told{"domain fleetblas", "start dgemm m=8 n=1 k=1 a@h b@h c@h",
                        "push A(0,0) host->0 of 64 bytes", "pop",
                        "push C(0,0) k=0 0 lane 1 of 64 bytes", "pop", "end 1"}));
}

TEST(Ranges, CountOfATriangleWhatACopyOfItMoves) {
  SmallPlan small;
  Plan plan = small.plan.get();
  const Cuts whole = {0, 8};
  plan.program = std::make_shared<const TileProgram>(
      expand(make_problem({.routine = Routine::trmm, .m = 8, .n = 1}), {whole, {0, 1}, whole}));
  Ranges ranges;
  told.clear();

  { const Ranges::TaskRange range(ranges, plan, small.machine.get(), small.fetch); }

  // 8 * 9 / 2 doubles of a lower triangle.
  EXPECT_EQ(told, (Told{"push A(0,0) host->0 of 288 bytes", "pop"}));
}

TEST(Ranges, OfCallsAtTheSameTimeEndInAnyOrder) {
  SmallPlan small;
  const Ranges ranges;
  told.clear();
  ranges_open = 0;

  std::optional<Ranges::CallRange> first(std::in_place, ranges, small.plan.get());
  std::optional<Ranges::CallRange> second(std::in_place, ranges, small.plan.get());
  first.reset();
  second.reset();

  const std::string start = "start dgemm m=8 n=1 k=1 a@h b@h c@h";
  EXPECT_EQ(told, (Told{start, start, "end 1", "end 2"}));
}

}  // namespace
}  // namespace fleet::cuda

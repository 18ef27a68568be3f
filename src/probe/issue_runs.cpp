// SPDX-License-Identifier: BSD-3-Clause
// issue_runs.cpp: short runs, and longer ones where all tasks share the span of their run.
#include "probe/issue_runs.hpp"

#include <algorithm>

#include "probe/times.hpp"

namespace fleet {
namespace {

constexpr int kIssued = 64;
constexpr int kManyIssued = 512;
constexpr int kIssueRepeats = 5;

ProbePlan empty_kernels(const Machine& machine, const std::vector<DeviceId>& busy, DataType type,
                        int tasks) {
  ProbePlan plan(machine, type, 1);
  for (int task = 0; task < tasks; ++task) {
    const auto turn = static_cast<std::size_t>(task) % busy.size();
    plan.kernel(busy[turn], task % kIssued / static_cast<int>(busy.size()), Kernel::add, {});
  }
  return plan;
}

}  // namespace

IssueRuns::IssueRuns(const Machine& machine, const std::vector<DeviceId>& busy, DataType type)
    : few_(empty_kernels(machine, busy, type, kIssued)),
      many_(empty_kernels(machine, busy, type, kManyIssued)) {}

std::vector<double> IssueRuns::seconds(ProbeMemory& memory) const {
  std::vector<double> taken, whole_s, longer_s;
  for (int repeat = 0; repeat < kIssueRepeats; ++repeat)
    if (const auto trace = memory.run(few_)) {
      const auto [first, last] = std::ranges::minmax(trace->spans, {}, &Span::start_s);
      taken.push_back((last.start_s - first.start_s) / (kIssued - 1));
      whole_s.push_back(trace->seconds);
    }
  if (taken.empty()) return {};
  if (const double issue_s = usual(taken); issue_s > 0) return {issue_s};
  // All tasks share the span of their run, so the cost is what each further task adds to it.
  for (int repeat = 0; repeat < kIssueRepeats; ++repeat)
    if (const auto trace = memory.run(many_)) longer_s.push_back(trace->seconds);
  if (longer_s.empty()) return {0};
  return {std::max(0.0, usual(longer_s) - usual(whole_s)) / (kManyIssued - kIssued)};
}

}  // namespace fleet

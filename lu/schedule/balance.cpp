// SPDX-License-Identifier: BSD-3-Clause
// balance.cpp: the paper's formula, again and again with the rates of the last work.
#include "schedule/balance.hpp"

#include <algorithm>
#include <cmath>

namespace fleet::lu {
namespace {

/// Of columns whose kind is not known, the devices try so many.
constexpr double kTrial = 1.0 / 16;
/// The devices' columns are multiples of this, since their products are fastest then (paper 3,
/// section 3.3, has 64). A core tries so many: few, since devices may be a hundred times as fast.
constexpr std::int64_t kUnit = 32;
/// Below this the CPU is left out: its cores have messages and copies to look after, and slow the
/// devices down, whose operands go through the same memory. On two H100 with 32 cores a share of
/// 0.09, at which both ended together, took 18 % longer than none.
constexpr double kLeastShare = 0.1;
/// The devices always have a part, so that a rate that was measured too low once is measured again.
constexpr double kMostShare = 7.0 / 8;
/// Below this it may be the same, so both ways are measured, each again after so many times of the
/// other.
constexpr double kDoubtfulShare = 0.15;
constexpr int kTimesUntilOther = 32;
/// The last work counts so much beside all before it.
constexpr double kNewest = 0.3;

void mix(double& rate, double work, double seconds, double newest) {
  if (work <= 0 || seconds <= 0) return;
  const double now = work / seconds;
  rate = rate <= 0 ? now : (1 - newest) * rate + newest * now;
}

}  // namespace

const char* to_string(Work work) {
  switch (work) {
    case Work::solve:
      return "of dtrsm";
    case Work::ahead:
      return "of the next panel";
    case Work::alone:
      return "alone";
    case Work::overlapped:
      return "beside messages";
  }
  return "";
}

double Balance::share(const Rates& rates) const {
  if (given_) return *given_;
  const double balanced = rates.cpu / (rates.cpu + rates.devices);
  return balanced < kLeastShare ? 0 : std::min(balanced, kMostShare);
}

Split Balance::trial(std::int64_t columns) const {
  const std::int64_t on_cpu = columns < 2 ? columns : std::min(columns / 2, kUnit * cores_);
  const auto few = static_cast<std::int64_t>(kTrial * static_cast<double>(columns)) / kUnit * kUnit;
  return {on_cpu + std::min(columns - on_cpu, std::max(kUnit, few)), on_cpu};
}

bool Balance::has_cpu(const Rates& rates) const {
  const double balanced = share(rates);
  if (given_ || balanced == 0 || balanced >= kDoubtfulShare) return balanced > 0;
  if (rates.alone <= 0 || rates.together <= 0) return rates.alone > 0;
  return (rates.together >= rates.alone) == (rates.times_same < kTimesUntilOther);
}

bool Balance::is_known(Work work) const {
  const Rates& rates = rates_[static_cast<std::size_t>(work)];
  return given_ || (rates.cpu > 0 && rates.devices > 0);
}

Split Balance::split(Work work, std::int64_t columns) const {
  if (!is_known(work)) return trial(columns);
  const Rates& rates = rates_[static_cast<std::size_t>(work)];
  if (!has_cpu(rates)) return {columns, 0};
  const double on_cpu = share(rates);
  // To the nearest multiple, or all.
  const auto units = static_cast<std::int64_t>(
      std::llround(static_cast<double>(columns) * (1 - on_cpu) / static_cast<double>(kUnit)));
  return {columns, columns - std::min(columns, units * kUnit)};
}

void Balance::learn(Work work, const Taken& taken) {
  const auto at = static_cast<std::size_t>(work);
  // What a few columns told is forgotten once there is more.
  const double newest = rates_[at].are_tried ? 1 : kNewest;
  Rates& rates = rates_[at];
  rates.are_tried = !is_known(work);
  mix(rates.cpu, taken.cpu, taken.cpu_s, newest);
  mix(rates.devices, taken.devices, taken.devices_s, newest);
  if (!rates.are_tried && taken.devices > 0) {
    const bool are_together = taken.cpu > 0;
    mix(are_together ? rates.together : rates.alone, taken.cpu + taken.devices,
        std::max(taken.cpu_s, taken.devices_s), kNewest);
    rates.times_same = are_together == rates.were_together ? rates.times_same + 1 : 0;
    rates.were_together = are_together;
  }
  done_[at].cpu += taken.cpu;
  done_[at].all += taken.cpu + taken.devices;
}

}  // namespace fleet::lu

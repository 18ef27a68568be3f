// SPDX-License-Identifier: BSD-3-Clause
// balance.cpp: the paper's formula, again and again with the rates of the last work.
#include "schedule/balance.hpp"

#include <algorithm>
#include <cmath>

namespace fleet::lu {
namespace {

/// Of columns whose kind is not known: so many are tried first, with this share for the CPU. Small,
/// since devices may be a hundred times as fast.
constexpr double kTrial = 1.0 / 16, kTrialShare = 1.0 / 8;
/// The devices' columns are multiples of this: their products are fastest then (paper 3, section
/// 3.3, has 64).
constexpr std::int64_t kUnit = 32;
/// Below this the CPU is left out: its cores have messages and copies to look after.
constexpr double kLeastShare = 0.02;
/// The devices always have a part, so that a rate that was measured too low once is measured again.
constexpr double kMostShare = 7.0 / 8;
/// The last work counts so much beside all before it.
constexpr double kNewest = 0.5;

void mix(double& rate, double work, double seconds) {
  if (work <= 0 || seconds <= 0) return;
  const double now = work / seconds;
  rate = rate <= 0 ? now : (1 - kNewest) * rate + kNewest * now;
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

Split Balance::split(Work work, std::int64_t columns) const {
  const Rates& rates = rates_[static_cast<std::size_t>(work)];
  const bool is_trial = !given_ && (rates.cpu <= 0 || rates.devices <= 0);
  if (is_trial) {
    const auto few = static_cast<std::int64_t>(kTrial * static_cast<double>(columns));
    columns = std::min(columns, std::max(2 * kUnit, few / kUnit * kUnit));
  }
  const double on_devices =
      static_cast<double>(columns) * (1 - (is_trial ? kTrialShare : share(rates)));
  // To the nearest multiple, or all.
  const auto units =
      static_cast<std::int64_t>(std::llround(on_devices / static_cast<double>(kUnit)));
  std::int64_t wanted = std::min(columns, units * kUnit);
  // Both sides are needed to learn anything.
  if (is_trial && columns > kUnit) wanted = std::min(wanted, columns - kUnit);
  if (!is_trial && share(rates) == 0) wanted = columns;
  return {columns, columns - wanted};
}

void Balance::learn(Work work, const Taken& taken) {
  const auto at = static_cast<std::size_t>(work);
  mix(rates_[at].cpu, taken.cpu, taken.cpu_s);
  mix(rates_[at].devices, taken.devices, taken.devices_s);
  done_[at].cpu += taken.cpu;
  done_[at].all += taken.cpu + taken.devices;
}

}  // namespace fleet::lu

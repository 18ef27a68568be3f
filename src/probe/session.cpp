// SPDX-License-Identifier: BSD-3-Clause
// session.cpp: repeats a measurement until its mean is precise enough or its share of the time is
// spent. It must not know what is measured.
#include "probe/session.hpp"

#include <algorithm>
#include <utility>

#include "probe/times.hpp"

namespace fleet {
namespace {

/// The precision of the clocks: a time known to this is settled.
constexpr double kClockS = 1e-7;

bool settled(const Confidence& value, const char* unit, double precision) {
  if (value.count() < 2) return false;
  return value.share() <= precision || (std::string(unit) == "s" && value.half_width() <= kClockS);
}

}  // namespace

ProbeSession::ProbeSession(const ProbeRequest& request, std::function<double()> clock_s)
    : request_(request),
      clock_s_(std::move(clock_s)),
      start_s_(clock_s_()),
      budget_s_(request.budget_s) {
  report_.done = request.done;
}

double ProbeSession::left_s() const { return budget_s_ - (clock_s_() - start_s_); }

void ProbeSession::expect(const std::string& part, std::size_t values) {
  if (!is_done(part)) expected_.push_back({part, values});
}

std::size_t ProbeSession::expected() const {
  std::size_t values = 0;
  for (const Part& part : expected_) values += part.values;
  return values;
}

double ProbeSession::share_s() const {
  return left_s() / static_cast<double>(std::max(std::size_t{1}, expected()));
}

std::vector<double> ProbeSession::repeated(const std::string& name, const char* unit,
                                           const std::function<std::vector<double>()>& take,
                                           double most_s) {
  if (!careful()) return take();
  const double until_s = left_s() - std::max(share_s(), most_s);
  for (Part& part : expected_)
    if (part.name == part_ && part.values > 0) --part.values;
  std::vector<Confidence> values;
  std::vector<double> samples;  // of the first value
  const auto known = [&] {
    return values.front().count() >= request_.least_repeats &&
           std::ranges::all_of(values, [&](const Confidence& value) {
             return settled(value, unit, request_.precision);
           });
  };
  do {
    tell(name);
    const std::vector<double> taken = take();
    if (taken.empty()) return {};
    values.resize(taken.size());
    samples.push_back(taken.front());
    for (std::size_t i = 0; i < taken.size(); ++i) values[i].add(taken[i]);
  } while (!known() && left_s() > until_s);

  ++measured_;
  ProbeValue value{.name = name,
                   .unit = unit,
                   .mean = values.front().mean(),
                   .repeats = values.front().count(),
                   .settled = known(),
                   .spread = spread_of(samples)};
  std::vector<double> means;
  for (const Confidence& each : values) {
    means.push_back(each.mean());
    value.interval = std::max(value.interval, each.share());
  }
  last_interval_ = value.interval;
  note(std::move(value));
  return means;
}

void ProbeSession::note(const std::string& name, const char* unit, const Confidence& value) {
  note({.name = name,
        .unit = unit,
        .mean = value.mean(),
        .interval = value.share(),
        .repeats = value.count(),
        .settled = settled(value, unit, request_.precision)});
}

void ProbeSession::note_quick(const std::string& name, double seconds, int samples, double spread) {
  // What is shorter differs by what the clock and the scheduler do, other load or not.
  constexpr double kMeasurableS = 1e-4;
  note({.name = name,
        .unit = "s",
        .mean = seconds,
        .repeats = samples,
        .settled = spread <= kUnsteady || seconds < kMeasurableS,
        .spread = spread});
}

void ProbeSession::tell(const std::string& what) {
  if (!request_.progress) return;
  const auto done = static_cast<double>(measured_),
             all = done + 1 + static_cast<double>(expected());
  const ProbeProgress progress{.share = done / all,
                               .what = what,
                               .spent_s = budget_s_ - left_s(),
                               .budget_s = request_.budget_s};
  if (!request_.progress(progress)) throw Stopped();
}

std::string ProbeSession::left_out() const {
  std::string text;
  for (const std::string& line : report_.left_out) text += "; " + line;
  return text;
}

bool ProbeSession::is_done(const std::string& part) const {
  return std::ranges::find(report_.done, part) != report_.done.end();
}

void ProbeSession::part(const std::string& name, const Machine& machine,
                        const std::function<void()>& measure) {
  if (is_done(name)) return;
  part_ = name;
  measure();
  std::erase_if(expected_, [&](const Part& part) { return part.name == name; });
  report_.done.push_back(name);
  report_.spent_s = budget_s_ - left_s();
  if (request_.save) request_.save(machine, report_);
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// session.hpp: how carefully a probe measures: how often, for how long, who is told, what is
// kept on the way. It knows no backend and nothing of what is measured.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "probe/confidence.hpp"

namespace fleet {

/// One value of a careful probe: the mean of its repeats.
struct ProbeValue {
  std::string name;
  std::string unit;  ///< "s", "B/s"
  double mean = 0;
  double interval = 0;  ///< half of the 95 % confidence interval, as a share of the mean
  int repeats = 0;
  bool settled = false;  ///< else its share of the budget was spent before
};

/// What a careful probe has done so far.
struct ProbeReport {
  std::vector<std::string> done;  ///< parts
  std::vector<ProbeValue> values;
  std::vector<std::string> left_out;  ///< by a quick probe, a line each
  double spent_s = 0;
  bool complete = false;
};

struct ProbeProgress {
  double share = 0;  ///< of the values, done
  std::string what;  ///< is being measured now
  double spent_s = 0;
  double budget_s = 0;
};

/// Repeats of each value in a careful probe.
inline constexpr int kCarefulRepeats = 10;

struct ProbeRequest {
  double budget_s = 1.2;        ///< wall time in all
  int least_repeats = 1;        ///< of each value; 1: the quick probe, which repeats nothing
  double precision = 0.05;      ///< half of the 95 % confidence interval, as a share of the mean
  std::vector<DataType> types;  ///< kernels of these only; empty: all that there are
  /// The values to begin with, of a machine of the same shape, where parts are left out.
  const Machine* start = nullptr;
  std::vector<std::string> done;  ///< parts that `start` has measured already
  /// Called after each repeat. False: stop, with what is measured so far.
  std::function<bool(const ProbeProgress&)> progress;
  /// Called after each part with a machine that is whole.
  std::function<void(const Machine&, const ProbeReport&)> save;
};

class ProbeSession {
 public:
  /// Thrown by repeated() when the user wants no more.
  struct Stopped {};

  explicit ProbeSession(const ProbeRequest& request);

  bool careful() const { return request_.least_repeats > 1; }
  const ProbeRequest& request() const { return request_; }
  double left_s() const;
  /// More of a budget than was asked for, where what comes now must not be left out.
  void leave_at_least(double seconds) { budget_s_ += std::max(0.0, seconds - left_s()); }
  /// So many values of this part are still to come, at most. What is left of the budget is shared
  /// out evenly among those of all parts.
  void expect(const std::string& part, std::size_t values);
  double share_s() const;
  /// Of what a quick probe can do without: half of its time is for what it cannot.
  bool has_time_for_more() const { return left_s() > request_.budget_s / 2; }
  /// Reports once what has not been measured as well as it might be.
  void leave_out(const std::string& line) {
    auto& lines = report_.left_out;
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  }
  /// All such lines as one, each after "; ".
  std::string left_out() const;

  /// What `take` gives: once in a quick probe; else the mean of each of its values, repeated until
  /// all are known as well as requested, or for its share of the time (`most_s` where that is
  /// more). Empty when `take` gives nothing. `unit` is of the first value; the others are not
  /// reported.
  std::vector<double> repeated(const std::string& name, const char* unit,
                               const std::function<std::vector<double>()>& take, double most_s = 0);
  /// Reports a value that came out of another's repeats.
  void note(ProbeValue value) { report_.values.push_back(std::move(value)); }
  void note(const std::string& name, const char* unit, const Confidence& value);
  /// Confidence interval of the last repeated(), as a share.
  double last_interval() const { return last_interval_; }

  bool is_done(const std::string& part) const;
  /// Does a part unless it is done, and keeps the machine as it is then.
  void part(const std::string& name, const Machine& machine, const std::function<void()>& measure);
  ProbeReport& report() { return report_; }

 private:
  struct Part {
    std::string name;
    std::size_t values = 0;
  };
  void tell(const std::string& what);
  std::size_t expected() const;

  const ProbeRequest& request_;
  const double start_s_;
  double budget_s_;
  std::vector<Part> expected_;
  std::string part_;
  std::size_t measured_ = 0;
  double last_interval_ = 0;
  ProbeReport report_;
};

}  // namespace fleet

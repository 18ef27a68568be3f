// SPDX-License-Identifier: BSD-3-Clause
// session.hpp: controls the repeats, budget, progress reports and saved results of a probe. It
// knows no backend and nothing of what is measured.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "machine/machine.hpp"
#include "probe/confidence.hpp"

namespace fleet {

/// Half of the samples of a disturbed value took more than this above the least of them. A value
/// that repeats to a few per cent reaches it only beside other load.
inline constexpr double kUnsteady = 0.25;

/// One value of a probe: the mean of its repeats; in a quick probe, what its one run says.
struct ProbeValue {
  std::string name;
  std::string unit;  ///< "s", "B/s"
  double mean = 0;
  double interval = 0;  ///< half of the 95 % confidence interval, as a share of the mean
  int repeats = 0;
  /// Careful: as precise as was asked for; else its share of the budget was spent first. Quick: not
  /// unsteady, so far as its few samples say.
  bool settled = false;
  double spread = 0;  ///< of its samples: as spread_of() says
};

/// The results of a careful probe so far.
struct ProbeReport {
  std::vector<std::string> done;  ///< completed parts
  std::vector<ProbeValue> values;
  std::vector<std::string> left_out;  ///< omissions of a quick probe, one line each
  double spent_s = 0;
  bool complete = false;
};

struct ProbeProgress {
  double share = 0;  ///< of all values, measured so far
  std::string what;  ///< the value being measured
  double spent_s = 0;
  double budget_s = 0;
};

/// The most that a single value may take, in equal shares of the time left.
inline constexpr double kMostShares = 8;

/// Repeats of each value in a careful probe.
inline constexpr int kCarefulRepeats = 10;

struct ProbeRequest {
  double budget_s = 1.2;        ///< in all, by Backend::clock_s()
  int least_repeats = 1;        ///< per value; 1: the quick probe, which repeats nothing
  double precision = 0.05;      ///< half of the 95 % confidence interval, as a share of the mean
  std::vector<DataType> types;  ///< only kernels of these types; empty: all types
  /// The initial values of parts that are left out; a machine of the same shape.
  const Machine* start = nullptr;
  std::vector<std::string> done;  ///< parts already measured in `start`
  /// Called after each repeat. Returns false to stop with the results so far.
  std::function<bool(const ProbeProgress&)> progress;
  /// Called after each part with a complete machine.
  std::function<void(const Machine&, const ProbeReport&)> save;
};

class ProbeSession {
 public:
  /// Thrown by repeated() if `progress` returned false.
  struct Stopped {};

  /// `clock_s`: seconds from some start.
  explicit ProbeSession(const ProbeRequest& request, std::function<double()> clock_s = now_s);

  bool careful() const { return request_.least_repeats > 1; }
  const ProbeRequest& request() const { return request_; }
  double left_s() const;
  /// Extends the budget so that at least `seconds` are left for a part that must not be left out.
  void leave_at_least(double seconds) { budget_s_ += std::max(0.0, seconds - left_s()); }
  /// At most `values` values of this part are still to be measured. The rest of the budget is
  /// shared evenly among the values of all parts.
  void expect(const std::string& part, std::size_t values);
  double share_s() const;
  /// Whether there is time for optional values: half of a quick probe is for required ones.
  bool has_time_for_more() const { return left_s() > request_.budget_s / 2; }
  /// Adds a line on a reduced measurement to the report, once.
  void leave_out(const std::string& line) {
    auto& lines = report_.left_out;
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
  }
  /// All these lines as one text, each after "; ".
  std::string left_out() const;

  /// The values of `take`: of one call in a quick probe; else the means over repeated calls, until
  /// all have the requested precision or its share of the time (`most_s` if that is more) is spent.
  /// Empty if `take` returns nothing. `unit` is that of the first value; the others are not
  /// reported.
  std::vector<double> repeated(const std::string& name, const char* unit,
                               const std::function<std::vector<double>()>& take, double most_s = 0);
  /// Reports a value that was measured during the repeats of another.
  void note(ProbeValue value) { report_.values.push_back(std::move(value)); }
  void note(const std::string& name, const char* unit, const Confidence& value);
  /// Reports a value of a quick probe.
  void note_quick(const std::string& name, double seconds, int samples, double spread);
  /// Confidence interval of the last repeated(), as a share of its mean.
  double last_interval() const { return last_interval_; }

  bool is_done(const std::string& part) const;
  /// Measures a part unless it is done already, then saves the machine.
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
  const std::function<double()> clock_s_;
  const double start_s_;
  double budget_s_;
  std::vector<Part> expected_;
  std::string part_;
  std::size_t measured_ = 0;
  double last_interval_ = 0;
  ProbeReport report_;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// confidence.hpp: the mean of repeated measurements and its confidence interval. It knows no clock.
#pragma once
#include <cmath>
#include <limits>

namespace fleet {

/// Mean and 95 % confidence interval of the values so far, by Student's t and Welford's sums.
class Confidence {
 public:
  void add(double value) {
    ++count_;
    const double off = value - mean_;
    mean_ += off / count_;
    squares_ += off * (value - mean_);
  }
  int count() const { return count_; }
  double mean() const { return mean_; }
  /// Half the width of the interval; infinite with fewer than two values.
  double half_width() const {
    if (count_ < 2) return std::numeric_limits<double>::infinity();
    return quantile(count_ - 1) * std::sqrt(squares_ / (count_ - 1) / count_);
  }
  /// half_width() as a share of the mean.
  double share() const { return half_width() == 0 ? 0 : half_width() / std::abs(mean_); }

 private:
  /// The 97.5 % quantile of Student's t: a series in 1/freedom, accurate to 0.2 % from four degrees
  /// of freedom on; a table below four.
  static double quantile(int freedom) {
    constexpr double kFew[] = {12.706, 4.303, 3.182};
    if (freedom <= 3) return kFew[freedom - 1];
    const double f = 1.0 / freedom;
    return 1.95996 + f * (2.37227 + f * (2.82250 + f * (2.55585 + f * 1.58953)));
  }

  int count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

}  // namespace fleet

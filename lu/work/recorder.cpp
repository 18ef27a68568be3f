// SPDX-License-Identifier: BSD-3-Clause
// recorder.cpp: sums, and spans where they are kept.
#include "work/recorder.hpp"

namespace fleet::lu {

const char* to_string(What what) {
  switch (what) {
    case What::panel:
      return "panel";
    case What::pivots:
      return "pivots";
    case What::pack:
      return "rows";
    case What::product:
      return "product";
    case What::wait:
      return "wait";
    case What::panel_way:
      return "panel under way";
    case What::rows_way:
      return "rows under way";
    case What::devices:
      return "devices";
  }
  return "";
}

double Recorder::seconds(What what) const {
  const std::lock_guard lock(mutex_);
  return sums_[static_cast<std::size_t>(what)];
}

void Recorder::note(What what, std::int64_t step, Clock::time_point begin, Clock::time_point end) {
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const std::lock_guard lock(mutex_);
  sums_[static_cast<std::size_t>(what)] += seconds(end - begin);
  if (keeps_spans_) spans_.push_back({what, step, seconds(begin - zero_), seconds(end - zero_)});
}

}  // namespace fleet::lu

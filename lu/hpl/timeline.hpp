// SPDX-License-Identifier: BSD-3-Clause
// timeline.hpp: what all ranks did when, as Chrome trace JSON. It knows no matrices.
#pragma once
#include <string>
#include <vector>

#include "comm/comm.hpp"
#include "work/recorder.hpp"

namespace fleet::lu {

/// Trials one after another, each on all ranks.
class Timeline {
 public:
  /// Brings the spans of all ranks to rank 0. All ranks call it.
  void add(Comm& all, const std::vector<Span>& spans);
  /// Throws Failure.
  void write(const std::string& file) const;

 private:
  struct Event {
    int rank;
    Span span;
  };
  std::vector<Event> events_;
  double end_s_ = 0;  ///< of the trials so far
};

}  // namespace fleet::lu

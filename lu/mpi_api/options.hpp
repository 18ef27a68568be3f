// SPDX-License-Identifier: BSD-3-Clause
// options.hpp: the words that a grid is made with.
#pragma once
#include "on_device/own_device.hpp"
#include "schedule/tasks.hpp"

namespace fleet::lu {

struct GridOptions {
  int cores = 0;  ///< 0: this rank's share
  double patience_s = 600;
  Overlap overlap = Overlap::full;
  OwnDevice::Use devices = OwnDevice::Use::never;
};

/// Of the environment, then of `words`, which may be null. Throws Refusal.
GridOptions grid_options(const char* words);

}  // namespace fleet::lu

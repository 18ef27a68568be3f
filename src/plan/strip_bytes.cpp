// SPDX-License-Identifier: BSD-3-Clause
// strip_bytes.cpp: the largest strips and panels of a program.
#include "plan/strip_bytes.hpp"

#include <algorithm>

#include "base/sizes.hpp"

namespace fleet {

std::int64_t longest_panel(const TileProgram& program, const Strips& strips) {
  std::int64_t bytes = 0;
  for (int k = 0; k < strips.panels; ++k)
    bytes = std::max(bytes, program.bytes_of(strips.panel(k)));
  return bytes;
}

StripBytes strip_bytes(const TileProgram& program) {
  const Strips& strips = *program.strips;
  StripBytes bytes;
  for (int j = 0; j < strips.count(); ++j)
    bytes.strip =
        std::max(bytes.strip, round_up(program.bytes_of(strips.strip(j)), kAlignmentBytes));
  bytes.beside = std::min(kLeastPanels, strips.panels) *
                     round_up(longest_panel(program, strips), kAlignmentBytes) +
                 kStripsReloaded * bytes.strip;
  for (int k = 0; k < strips.panels; ++k)
    bytes.beside += round_up(program.bytes_of(strips.outcome(k)), kAlignmentBytes);
  return bytes;
}

}  // namespace fleet

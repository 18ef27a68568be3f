// SPDX-License-Identifier: BSD-3-Clause
// cap.hpp: how much memory the pool may have: the words of its setting, and the memory that the
// process may have at all. It knows no blocks.
#pragma once
#include <cstdint>

namespace fleet::pool {

inline constexpr double kUsualShare = 0.5;

/// The setting: a share of memory, or bytes where `share` is 0; nothing of either turns it off.
struct Cap {
  double share = kUsualShare;
  std::int64_t bytes = 0;
  friend bool operator==(const Cap&, const Cap&) = default;
};

/// nullptr, "", "1" and "on": the usual share; "0", "off", "false" and "no": no pool; "0.25": a
/// share below 1; "512M", "16G": bytes. False: it is none of these, and there is no pool.
bool parse_cap(const char* text, Cap& cap);

/// What the machine has, or the least that a control group of this process allows.
std::int64_t memory_bytes();

/// Bytes that the pool may have; 0: there is none.
inline std::int64_t bytes_of(const Cap& cap) {
  if (cap.share <= 0) return cap.bytes;
  return static_cast<std::int64_t>(cap.share * static_cast<double>(memory_bytes()));
}

}  // namespace fleet::pool

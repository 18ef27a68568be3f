// SPDX-License-Identifier: BSD-3-Clause
// inject.hpp: the faults that tests ask for, and their words. It commits none.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fleet {

/// Faults and disturbances that tests ask for (FLEETBLAS_INJECT); documented in
/// docs/reference/testing.md.
struct Inject {
  struct Lost {
    int device;
    std::int64_t tiles;
  };  ///< lost:DEV@TILES
  struct Slow {
    std::string link;
    double factor;
  };  ///< slow:LINK*FACTOR ("host->0")
  struct Delay {
    std::string link;
    double seconds;
  };  ///< delay:LINK+SECONDS
  struct NoPeer {
    int a = -1;
    int b = -1;
  };                        ///< nopeer[:i-j]; -1: all pairs
  std::int64_t alloc = 0;   ///< alloc:N, the N-th allocation fails; 0: none
  std::int64_t copy = 0;    ///< copy:N
  std::int64_t launch = 0;  ///< launch:N
  std::optional<Lost> lost;
  std::vector<Slow> slow;
  std::vector<Delay> delay;
  std::vector<NoPeer> nopeer;
  std::optional<std::uint64_t> order;  ///< order:SEED, random legal order
  bool poison = false;                 ///< NaN in fresh and freed memory
  bool issuers = false;                ///< a thread for each GPU hands its tasks over, even few
};

/// Reads a comma-joined list. Throws Error(bad_option) naming the word that it does not know.
Inject parse_inject(std::string_view text);

}  // namespace fleet

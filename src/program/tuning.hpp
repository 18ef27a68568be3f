// SPDX-License-Identifier: BSD-3-Clause
// tuning.hpp: everything the tuner decides, and nothing else does. A value; printable as JSON.
#pragma once
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "problem/problem.hpp"

namespace fleet {

/// The planner's rules, each a switch so that its worth can be measured alone. Each says what
/// "off" means. Users name a rule by its enumerator.
enum class Rule {
  caching,     ///< a tile fetched once stays for the call; off: a fetch per tile product
  overlap,     ///< queues per (source, target) pair and lanes; off: one queue per device
  bandwidth,   ///< fetch from the holder with the fastest link; off (and eta off): from home
  eta,         ///< fetch from the source with the earliest arrival, links and ports considered
  forwarding,  ///< a copy under way counts as a source (eta contains it)
  batching,    ///< one fetch for all users of a read-only tile, as a chunked chain
  lazy,        ///< C' = alpha*A*B first; C is fetched late, added and written back
  order,       ///< next the tile product whose inputs arrive first; off: row by row
  outofcore,   ///< a further level of decomposition when slots exceed the cap; off: an error
  grid,        ///< the grid by the shape of C; off: the fixed near-square one
  tile,        ///< the tile edge by model; off: 2048
};
inline constexpr int kRules = 11;

/// A set of rules.
class Rules {
 public:
  static Rules all() { return Rules((1u << kRules) - 1); }
  static Rules none() { return Rules(0); }
  bool has(Rule rule) const { return (bits_ >> static_cast<unsigned>(rule)) & 1u; }
  Rules with(Rule rule) const { return Rules(bits_ | (1u << static_cast<unsigned>(rule))); }
  Rules without(Rule rule) const { return Rules(bits_ & ~(1u << static_cast<unsigned>(rule))); }
  friend bool operator==(const Rules&, const Rules&) = default;

 private:
  explicit Rules(unsigned bits) : bits_(bits) {}
  unsigned bits_;
};

const char* to_string(Rule rule);
/// "all", "none", or a comma-joined list of rule names, each optionally with '-' before it to take
/// it away from "all" ("all,-lazy"). Throws Error(bad_option) naming the word it does not know.
Rules parse_rules(std::string_view text);
std::string to_string(Rules rules);  ///< "all", "none" or the list

/// Devices as a 2D grid over C, row-major. The CPU beside them has no place in it.
struct Grid {
  int rows = 1;
  int cols = 1;
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Which worker has which tile of C: a block of the grid, or one of the distributions of other
/// libraries (paper 2, 3.5), in which neighbouring tiles have different workers.
enum class Owners {
  blocks,       ///< each worker of the grid has one block of C
  sequential,   ///< tiles, row by row, in as many consecutive runs as there are workers
  round_robin,  ///< tiles, row by row, to the workers in turn
  cyclic_1d,    ///< columns of tiles to the workers in turn
  cyclic_2d,    ///< tile (i, j) to row i mod rows and column j mod cols of the grid
};

const char* to_string(Owners owners);

/// How copies find their source and their way.
enum class Routing {
  fleet,          ///< by the rules, with the load of links and ports
  pairs,          ///< paper 1, III-D and III-E: times per pair, no shared ports, all orders of a
                  ///< chain, always Tuning::chunks pieces
  devices_first,  ///< paper 5, III-C: a complete copy on a device, by rate; else (with the rule
                  ///< `forwarding`) one under way; else the host
  over_host,      ///< from home, between devices through host memory
};

/// How a plan deals with slots that do not fit the memory cap.
enum class OutOfCore {
  none,        ///< everything fits
  stationary,  ///< groups of C tiles stay while k streams by; inputs evicted by furthest next use
  cube,        ///< paper 1, III-C1: cubes of edge T_L one after another, C spilled between them
};
const char* to_string(OutOfCore mode);

struct Tuning {
  /// Devices that compute, one for each place of the grid; then kHost where the CPU computes a part
  /// in place beside them. {kHost}: the CPU does all of it.
  std::vector<DeviceId> workers;
  Grid grid;
  /// The part of the multiply-adds that the CPU beside the devices is to have (paper 3, section
  /// III: R): whole rows or columns at the end of C, see cpu_strip.
  double cpu_share = 0;
  /// Of the host's rates on all cores, what its kernels reach beside the devices, on those that
  /// copies leave; 0: the CPU may have no part.
  double cpu_part = 0;
  /// Relative shares of C's rows and columns for the rows and columns of the grid; empty: equal
  /// shares. Not for batches, triangles of C, nor along the side of a triangular A.
  std::vector<double> row_shares, col_shares;
  std::int64_t tile = 0;                ///< largest tile edge in elements, in each dimension,
  std::int64_t tile_m = 0, tile_k = 0;  ///< but along these where not 0: long columns travel fast
  /// The same of C's rows and columns for each row and column of the grid, where links differ in
  /// speed (paper 4: two tile sizes); empty: edge_m() and tile for all. For what shares are for.
  std::vector<std::int64_t> row_tiles, col_tiles;
  Owners owners = Owners::blocks;
  /// Relative numbers of tiles per worker where `owners` deals single tiles; empty: as dealt.
  std::vector<double> worker_shares;
  /// A worker that has begun all its tiles takes over one that the worker with most left has not
  /// begun (paper 5: work stealing). Not out of core, nor where tiles of C are inputs of others.
  bool steals = false;
  Routing routing = Routing::fleet;
  /// The rows of the grid are parts of k (their shares are row_shares) instead of rows of C: for
  /// products whose C is small beside k. The sums of the parts are added in the order of k, at the
  /// worker of the first. For products of whole matrices only, in core, and not for halves.
  bool split_k = false;
  /// How often the first step of k is halved (1/8, 1/8, 1/4, 1/2 of it with 3), so that products
  /// begin before all of it has come.
  int ramp = 0;
  int chunks = 8;  ///< pieces of a chained fetch (paper 1, III-E: p = 8)
  /// Most other workers on the way of a tile between two devices, where that is faster than their
  /// link (paper 2, 3.2: at most 2).
  int max_hops = 0;
  std::vector<std::int64_t> memory_cap;  ///< bytes for slots per device (index DeviceId)
  OutOfCore out_of_core = OutOfCore::none;
  std::int64_t group = 0;  ///< edge in elements of a group of C tiles that a worker finishes before
                           ///< the next; 0: all of its block
  std::int64_t group_m = 0;  ///< the same along m only, where not 0
  /// Where C is a triangle of a product of a matrix by itself (or of two, both ways): a tile goes
  /// to the users of its rows and of its columns at once, instead of to one after the other. Needs
  /// the rule `batching`.
  bool both_sides = false;
  /// Where A is triangular: results of a turn (Dealing::turn_of) go home after the copies of its
  /// inputs from the host, since both take the host's memory. Turns of trmm but the last are
  /// reversed then, so that they begin with what needs the fewest inputs, and the last of several
  /// is halved, so that less is left to go home at the end. For single calls in core with C in host
  /// memory, without the CPU; else it means nothing.
  bool inputs_first = false;
  bool own_copies = false;  ///< devices multiply in slots only, also what is at home on them, so
                            ///< that addresses and leading dimensions of operands change no bits
  /// Devices that use all operands in host memory in place, over their links (Device::shares_host).
  /// Not in calls with a triangular factor.
  std::vector<DeviceId> sharing;
  Rules rules = Rules::all();

  int places() const { return grid.rows * grid.cols; }
  /// Does the CPU compute a part beside the devices?
  bool has_cpu() const { return std::ssize(workers) > places(); }
  std::int64_t edge_m() const { return tile_m > 0 ? tile_m : tile; }
  std::int64_t group_rows() const { return group_m > 0 ? group_m : group; }
  std::int64_t edge_k() const { return tile_k > 0 ? tile_k : tile; }
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

}  // namespace fleet

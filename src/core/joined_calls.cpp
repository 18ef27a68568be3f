// SPDX-License-Identifier: BSD-3-Clause
// joined_calls.cpp: queued calls become a tile program, one after another.
#include "core/joined_calls.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "program/expand.hpp"

namespace fleet {
namespace {

// Planning takes about 1 us for each op and candidate.
constexpr std::size_t kMostCalls = 64;
constexpr std::size_t kMostOps = 100'000;

class Joiner {
 public:
  /// Appends the call. False, with nothing changed: it cannot be in this program.
  bool add(const Call& call, const std::array<DeviceId, 3>& homes, const RegularTiles& tiles) {
    const Problem problem = problem_of(call, homes, 1);
    const CallCuts cuts = regular_cuts(problem, tiles);
    const std::int64_t products =
        std::int64_t{tile_count(cuts.m)} * tile_count(cuts.n) * std::max(1, tile_count(cuts.k));
    if (program_.ops.size() + static_cast<std::size_t>(products) > kMostOps) return false;
    std::array<MatrixId, 3> ids{kNoMatrix, kNoMatrix, kNoMatrix};
    for (const int x : {kA, kB, kC}) {
      if (x != kC && (problem.k == 0 || (x == kB && !call.traits().has_b))) continue;
      const auto found = find(block_of(call, x), x == kC);
      if (!found) return false;
      ids[static_cast<std::size_t>(x)] = *found;
    }
    // Of a new matrix that is both factors: the id that A is going to have.
    const bool is_both = call.traits().has_b && ids[kA] == kNoMatrix && ids[kB] == kNoMatrix &&
                         block_of(call, kA) == block_of(call, kB);
    if (is_both) ids[kB] = static_cast<MatrixId>(program_.matrices.size());
    try {
      append(program_, problem, cuts, ids);
    } catch (const Error&) {
      return false;  // stored otherwise, or read and written
    }
    note(call);
    return true;
  }

  TileProgram take() { return std::move(program_); }
  /// Of each matrix. An operand that its call does not read has none.
  std::vector<Block> blocks() const {
    std::vector<Block> blocks(program_.matrices.size(), Block{.is_plain = false});
    for (const Known& known : known_) blocks[static_cast<std::size_t>(known.id)] = known.block;
    return blocks;
  }

 private:
  struct Known {
    Block block;
    MatrixId id;
    bool is_written;
  };

  /// The matrix in this block, kNoMatrix if it is new, or nothing: it meets another one.
  std::optional<MatrixId> find(const Block& block, bool is_written) const {
    MatrixId same = kNoMatrix;
    for (const Known& known : known_) {
      if (known.block == block)
        same = known.id;
      else if ((is_written || known.is_written) && overlap(known.block, block))
        return std::nullopt;
    }
    return same;
  }

  void note(const Call& call) {
    const ProgramCall& made = program_.calls.back();
    for (const int x : {kA, kB, kC}) {
      if (x != kC && (made.problem.k == 0 || (x == kB && !call.traits().has_b))) continue;
      const MatrixId id = made.matrices[static_cast<std::size_t>(x)];
      const auto known = std::ranges::find(known_, id, &Known::id);
      if (known == known_.end())
        known_.push_back({block_of(call, x), id, x == kC});
      else
        known->is_written |= x == kC;
    }
  }

  TileProgram program_;
  std::vector<Known> known_;
};

}  // namespace

JoinedCalls join(std::span<const QueuedCall> calls,
                 const std::function<std::array<DeviceId, 3>(const Call&)>& homes,
                 const std::function<RegularTiles(Storage)>& tiles) {
  JoinedCalls joined;
  Joiner joiner;
  for (const QueuedCall& queued : calls) {
    const Call& call = queued.call;
    if (joined.arguments.size() == kMostCalls) break;
    std::array<DeviceId, 3> where{kHost, kHost, kHost};
    if (!call.changes_nothing()) {
      if (call.repeats() || output_overlaps(call)) break;
      try {
        where = homes(call);
      } catch (const Error&) {
        if (joined.count > 0) break;
        throw;
      }
      if (!joiner.add(call, where, tiles(call.type.storage))) break;
      joined.arguments.push_back(call.arguments);
    }
    joined.homes.push_back(where);
    ++joined.count;
  }
  joined.blocks = joiner.blocks();
  joined.program = std::make_shared<const TileProgram>(joiner.take());
  return joined;
}

}  // namespace fleet

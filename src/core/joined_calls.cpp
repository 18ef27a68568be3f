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
  bool add(const Call& call, const std::array<DeviceId, 3>& homes,
           const std::function<CallCuts(const Call&, const Problem&)>& cuts_of) {
    const Problem problem = problem_of(call, homes, 1);
    const CallCuts cuts = cuts_of(call, problem);
    const std::int64_t products =
        std::int64_t{tile_count(cuts.m)} * tile_count(cuts.n) * std::max(1, tile_count(cuts.k));
    if (program_.ops.size() + static_cast<std::size_t>(products) > kMostOps) return false;
    std::array<std::vector<MatrixId>, 3> known{{{kNoMatrix}, {kNoMatrix}, {kNoMatrix}}};
    for (const int x : {kA, kB, kC}) {
      if (x != kC && (problem.k == 0 || (x == kB && !call.traits().has_b))) continue;
      auto found = find(block_of(call, x), x == kC);
      if (!found) return false;
      known[static_cast<std::size_t>(x)] = std::move(*found);
    }
    if (!append_one(problem, cuts, known, block_of(call, kA) == block_of(call, kB))) return false;
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
  /// Appends the call with the first matrices of `known` that are stored as it needs them. False,
  /// with nothing changed: it reads what it writes, or needs what the program writes stored in
  /// another way. `same`: its factors are one block.
  bool append_one(const Problem& problem, const CallCuts& cuts,
                  const std::array<std::vector<MatrixId>, 3>& known, bool same) {
    for (const MatrixId a : known[kA])
      for (const MatrixId b : known[kB]) {
        // Of a new matrix that is both factors: the id that A is going to have.
        const auto next = static_cast<MatrixId>(program_.matrices.size());
        const bool is_both = same && problem.traits().has_b && a == kNoMatrix && b == kNoMatrix;
        if (is_both && append_if_possible(problem, cuts, {a, next, known[kC].front()})) return true;
        if (append_if_possible(problem, cuts, {a, b, known[kC].front()})) return true;
      }
    return false;
  }

  bool append_if_possible(const Problem& problem, const CallCuts& cuts,
                          const std::array<MatrixId, 3>& ids) {
    try {
      append(program_, problem, cuts, ids);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  struct Known {
    Block block;
    MatrixId id;
    bool is_written;
  };

  /// The matrices in this block, and kNoMatrix where a new one may be in it: where it is none, or
  /// only read, in which case it may be several, each stored in its own way. Nothing: it meets
  /// another block.
  std::optional<std::vector<MatrixId>> find(const Block& block, bool is_written) const {
    std::vector<MatrixId> same;
    bool is_changed = is_written;
    for (const Known& known : known_) {
      if (known.block == block) {
        same.push_back(known.id);
        is_changed |= known.is_written;
      } else if ((is_written || known.is_written) && overlap(known.block, block)) {
        return std::nullopt;
      }
    }
    if (is_written && same.size() > 1) return std::nullopt;
    if (same.empty() || !is_changed) same.push_back(kNoMatrix);
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
                 const std::function<CallCuts(const Call&, const Problem&)>& cuts) {
  JoinedCalls joined;
  Joiner joiner;
  for (const QueuedCall& queued : calls) {
    const Call& call = queued.call;
    if (joined.arguments.size() == kMostCalls || queued.transfer != nullptr) break;
    std::array<DeviceId, 3> where{kHost, kHost, kHost};
    if (queued.only_reads) {
      joined.reads.push_back(block_of(call, kC));
    } else if (!call.changes_nothing()) {
      const Block written = block_of(call, kC);
      if (std::ranges::any_of(joined.reads, [&](const Block& b) { return overlap(b, written); }))
        break;
      if (call.repeats() || output_overlaps(call)) break;
      try {
        where = homes(call);
      } catch (const Error&) {
        if (joined.count > 0) break;
        throw;
      }
      if (!joiner.add(call, where, cuts)) break;
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

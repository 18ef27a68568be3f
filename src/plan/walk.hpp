// SPDX-License-Identifier: BSD-3-Clause
// walk.hpp: in which order a worker computes the ops of a call (paper 1, III-G). It chooses; it
// emits nothing but the fetches that a choice asks for.
#pragma once
#include <optional>
#include <vector>

#include "plan/mover.hpp"

namespace fleet {

/// The next op of a worker: the `at`-th of a chain.
struct Next {
  int chain = 0;
  int at = 0;
};

/// One worker's way through its chains: group by group, item by item. Each chain takes its ops in
/// their order, so sums are the same whatever the routes.
///
/// Rule `order` on: the chains of a group advance together, one op each, in the order in which
/// inputs arrive; new tiles are asked for only when nothing else is left. Off: chain by chain. Such
/// a step is assumed to multiply one tile for each row of targets by one for each column; where it
/// does not, the order is only less good.
class Walk {
 public:
  Walk(const CallLayout& layout, Mover& mover, bool by_arrival, int worker);

  /// The next op, or nothing when all are done.
  std::optional<Next> next();
  /// The position (Dealing) of the next op's group, or a number beyond all.
  int next_group();
  /// The group changed with the last next(), so the caches of a cube may be dropped.
  bool new_cube() const { return new_cube_ && emitted_ == 1; }

 private:
  struct Ready {
    double arrival_s;
    int row;  ///< indices into rows_ and cols_
    int col;
  };
  bool settle();
  bool enter_step();
  int chain_of(std::size_t r, std::size_t c) const {
    return layout_.chain_of(worker_, rows_[r], cols_[c]);
  }
  bool has(std::size_t r, std::size_t c) const { return chain_of(r, c) >= 0; }
  void find_keys();
  bool advance_step();
  void enter_group();
  void take_cube(int cube);
  Next next_by_arrival();
  Next next_by_chain();
  void next_pair();
  void absorb_held();
  void schedule_row(std::size_t r, double arrival_s);
  void schedule_col(std::size_t c, double arrival_s);
  void ask_for_one();
  void push(double arrival_s, std::size_t row, std::size_t col);

  const CallLayout& layout_;
  const Dealing& deal_;
  Mover& mover_;
  const int worker_;
  const bool by_arrival_;

  Step step_;
  int group_ = 0;  ///< position in the order of groups (and cubes)
  int groups_ = 0;
  int begin_ = 0, end_ = 0;  ///< of the current cube, in ops of a chain
  bool started_ = false;
  bool new_cube_ = false;

  std::vector<int> item_list_;  ///< items with rows here
  std::size_t item_at_ = 0;
  std::vector<int> rows_, cols_;
  std::vector<int> row_keys_, col_keys_;  ///< of the inputs of a step, or kNoKey
  std::vector<double> row_s_, col_s_;     ///< arrival, or negative while not asked for
  std::size_t rows_asked_ = 0, cols_asked_ = 0;
  std::size_t ops_ = 0;  ///< of a step
  std::size_t emitted_ = 0;
  std::vector<Ready> ready_;             ///< a heap: earliest arrival, then lowest indices, on top
  std::size_t row_at_ = 0, col_at_ = 0;  ///< chain by chain
  int at_ = 0;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// walk.hpp: in which order a worker computes its tile products (paper 1, III-G). It chooses; it
// emits nothing but the fetches that a choice asks for.
#pragma once
#include <optional>
#include <vector>

#include "plan/mover.hpp"

namespace fleet {

/// C(row, col) += A(row, k) * B(k, col), in tiles; row counts over all items of a batch.
struct Product {
  int row = 0;
  int col = 0;
  int k = 0;
};

/// One worker's way through its products: group by group, item by item. Each tile of C takes its k
/// steps in ascending order, so sums are the same whatever the routes.
///
/// Rule `order` on: within a group k by k, and within one k first the products whose inputs arrive
/// first; new tiles are asked for only when nothing else is left. Off: row by row, k innermost.
class Walk {
 public:
  Walk(const Plan& plan, const Decomposition& decomposition, Mover& mover, int worker);

  /// The next product, or nothing when all are done.
  std::optional<Product> next();
  /// The position (Decomposition) of the next product's group, or a number beyond all.
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
  bool has(std::size_t r, std::size_t c) const { return plan_.has_tile(rows_[r], cols_[c]); }
  bool advance_step();
  void enter_group();
  std::optional<Product> next_by_arrival();
  std::optional<Product> next_by_row();
  void next_pair();
  void absorb_held();
  void schedule_row(std::size_t r, double arrival_s);
  void schedule_col(std::size_t c, double arrival_s);
  void ask_for_one();
  void push(double arrival_s, std::size_t row, std::size_t col);

  const Plan& plan_;
  const Decomposition& cut_;
  Mover& mover_;
  const int worker_;
  const bool by_arrival_;
  const int grid_row_, grid_col_;
  const int rows_per_item_, steps_, items_;

  Step step_;
  int group_ = 0;  ///< position in the order of groups (and cubes)
  int groups_ = 0;
  int k_begin_ = 0, k_end_ = 0;  ///< of the current cube
  bool started_ = false;
  bool new_cube_ = false;

  std::vector<int> item_list_;  ///< items with rows here
  std::size_t item_at_ = 0;
  std::vector<int> rows_, cols_;
  std::vector<int> row_keys_, col_keys_;  ///< of the factors of a step
  std::vector<double> row_s_, col_s_;     ///< arrival, or negative while not asked for
  std::size_t rows_asked_ = 0, cols_asked_ = 0;
  std::size_t products_ = 0;  ///< of a step
  std::size_t emitted_ = 0;
  std::vector<Ready> ready_;             ///< a heap: earliest arrival, then lowest indices, on top
  std::size_t row_at_ = 0, col_at_ = 0;  ///< row by row
  int k_at_ = 0;
};

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// exchange.hpp: the messages of the rows that a panel's pivots move, of some columns of the matrix.
// It knows neither where the matrix is nor who packs its rows.
#pragma once
#include <memory>
#include <vector>

#include "factor/panel.hpp"
#include "factor/rows.hpp"

namespace fleet::lu {

/// The memory of messages: rows one after another.
struct ExchangeBuffers {
  Buffer leaving, arriving;
  /// For so many columns, and panels of that width: any rank may have all rows of a message.
  void touch(std::int64_t width, std::int64_t columns);
};

/// Of so many of this rank's columns in one step. One message has the rows that come into the
/// panel's square, for all ranks of the column of the grid, and one those that leave it.
class RowExchange {
 public:
  /// Finds which rows move. The panel must be known.
  RowExchange(const Grid& grid, const Rank& rank, const Panel& panel, const RowMoves& moves,
              std::int64_t columns, ExchangeBuffers& buffers);

  // This rank's rows that go into the square, and those of the square that leave it: local rows,
  // and their places in `leaving`, which whoever has the matrix fills.
  std::span<const RowPlace> into_square() const { return into_square_; }
  std::span<const RowPlace> out_of_square() const { return out_of_square_; }
  std::span<double> leaving() const { return leaving_; }
  /// Those have been packed.
  void send();

  /// Waits for the rows of others.
  void arrive();
  // Local rows that come from the square, and the rows of the square from 0 on: their places in
  // `arriving`.
  std::span<const RowPlace> below() const { return below_; }
  std::span<const RowPlace> square() const { return square_; }
  std::span<const double> arriving() const { return arriving_; }

 private:
  void find_places(const RowMoves& moves);

  const Grid& grid_;
  const Rank& rank_;
  const Panel& panel_;
  const std::int64_t columns_;
  std::vector<RowPlace> into_square_, out_of_square_, below_, square_;
  std::vector<std::int64_t> square_counts_, below_counts_;
  std::span<double> leaving_, arriving_;
  std::unique_ptr<Request> gathered_, scattered_;
};

}  // namespace fleet::lu

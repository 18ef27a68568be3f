// SPDX-License-Identifier: BSD-3-Clause
// section.cpp: rows packed by rank, one message for those that come into the square and one for
// those that leave it.
#include "factor/section.hpp"

#include <chrono>
#include <exception>
#include <numeric>

namespace fleet::lu {

void SectionBuffers::touch(int grid_rows, std::int64_t width, std::int64_t columns) {
  upper.touch(width * columns);
  if (grid_rows == 1) return;
  for (Buffer* buffer : {&to_square, &square_rows, &to_below, &below_rows})
    buffer->touch(width * columns);
}

Section::Section(const Grid& grid, System& system, const Rank& rank, const Panel& panel,
                 const RowMoves& moves, std::int64_t begin, std::int64_t end,
                 SectionBuffers& buffers)
    : grid_(grid),
      system_(system),
      rank_(rank),
      panel_(panel),
      moves_(moves),
      begin_(begin),
      end_(std::max(begin, end)),
      square_counts_(static_cast<std::size_t>(grid.rows), 0),
      below_counts_(static_cast<std::size_t>(grid.rows), 0) {
  if (columns() == 0) return;
  rank_.recorder.time(What::pack, panel.step, [&] {
    find_places();
    upper_ = buffers.upper.take(panel_.width * columns());
    if (grid.rows == 1) return exchange_here();
    to_square_ = buffers.to_square.take(std::ssize(into_square_) * columns());
    to_below_ = buffers.to_below.take(std::ssize(out_of_square_) * columns());
    below_rows_ = buffers.below_rows.take(std::ssize(below_) * columns());
    square_rows_ = buffers.square_rows.take(panel_.width * columns());
    pack();
  });
  if (grid.rows == 1) return;
  const Engine::Label label{What::rows_way, panel.step};
  scattered_ = rank_.engine.drive(
      grid.col_ranks->scatter(to_below_, below_counts_, below_rows_, panel.owner_row), label);
  gathered_ =
      rank_.engine.drive(grid.col_ranks->gather(to_square_, square_counts_, square_rows_), label);
}

void Section::find_places() {
  const Blocks& rows = system_.rows;
  for (const std::int64_t source : moves_.sources) {
    square_counts_[static_cast<std::size_t>(rows.owner(source))] += columns();
    if (rows.owner(source) == grid_.row)
      into_square_.push_back({rows.local(source), std::ssize(into_square_)});
  }
  for (const auto& [to, top] : moves_.displaced) {
    below_counts_[static_cast<std::size_t>(rows.owner(to))] += columns();
    if (rows.owner(to) == grid_.row) below_.push_back({rows.local(to), std::ssize(below_)});
  }
  if (grid_.row != panel_.owner_row) return;
  std::vector<std::int64_t> next(below_counts_.size(), 0);
  std::exclusive_scan(below_counts_.begin(), below_counts_.end(), next.begin(), std::int64_t{0});
  for (const auto& [to, top] : moves_.displaced) {
    std::int64_t& at = next[static_cast<std::size_t>(rows.owner(to))];
    out_of_square_.push_back({panel_.local_begin + top, at / columns()});
    at += columns();
  }
  for (std::int64_t c = 0; c < panel_.width; ++c) square_.push_back({panel_.local_begin + c, c});
}

void Section::exchange_here() {
  rank_.share(columns(), [this](std::int64_t begin, std::int64_t end) {
    for_columns(begin, end, [&](std::int64_t first, std::int64_t last) {
      pack_rows(into_square_, data(), system_.ld, upper_.data(), columns(), first, last);
      for (std::size_t i = 0; i < below_.size(); ++i)
        for (std::int64_t c = first; c < last; ++c)
          data()[below_[i].row + c * system_.ld] = data()[out_of_square_[i].row + c * system_.ld];
    });
  });
}

void Section::pack() {
  rank_.share(columns(), [this](std::int64_t begin, std::int64_t end) {
    pack_rows(into_square_, data(), system_.ld, to_square_.data(), columns(), begin, end);
    pack_rows(out_of_square_, data(), system_.ld, to_below_.data(), columns(), begin, end);
  });
}

void Section::order_square() {
  const Blocks& rows = system_.rows;
  std::vector<std::int64_t> next(square_counts_.size(), 0);
  std::exclusive_scan(square_counts_.begin(), square_counts_.end(), next.begin(), std::int64_t{0});
  for (std::int64_t c = 0; c < panel_.width; ++c) {
    std::int64_t& at =
        next[static_cast<std::size_t>(rows.owner(moves_.sources[static_cast<std::size_t>(c)]))];
    std::copy_n(square_rows_.begin() + at, columns(), upper_.begin() + c * columns());
    at += columns();
  }
}

void Section::unpack() {
  order_square();
  rank_.share(columns(), [this](std::int64_t begin, std::int64_t end) {
    unpack_rows(below_, data(), system_.ld, below_rows_.data(), columns(), begin, end);
  });
}

void Section::arrive() {
  if (gathered_ == nullptr) return;
  rank_.recorder.time(What::wait, panel_.step, [this] {
    scattered_->wait();
    gathered_->wait();
  });
}

void Section::update_columns(const Blas& blas, std::int64_t begin, std::int64_t end) {
  double* const upper = upper_.data() + begin;
  blas.solve({FLEET_RIGHT, FLEET_LOWER, FLEET_TRANS, FLEET_UNIT, panel_.square(), panel_.width},
             end - begin, panel_.width, upper, columns());
  blas.subtract_product(panel_.rows_below, end - begin, panel_.width, panel_.below(),
                        panel_.rows_below, FLEET_TRANS, upper, columns(),
                        system_.at(panel_.local_below, begin_ + begin), system_.ld);
}

void Section::place_upper(std::int64_t begin, std::int64_t end) {
  unpack_rows(square_, data(), system_.ld, upper_.data(), columns(), begin, end);
}

void Section::update_by_cores(std::int64_t first, std::int64_t count,
                              const std::function<void()>& between) {
  const auto part = [this, first](std::int64_t begin, std::int64_t end) {
    update_columns(rank_.one_core, first + begin, first + end);
    place_upper(first + begin, first + end);
  };
  rank_.share(count, part, between);
}

std::int64_t Section::update_by_all(Work kind, std::int64_t first,
                                    const std::function<void()>& between) {
  Balance& balance = rank_.devices->balance;
  const Split split = balance.split(kind, columns() - first);
  const std::int64_t on_devices = split.columns - split.on_cpu, border = first + on_devices;
  const auto begin = Recorder::Clock::now();
  if (on_devices > 0)
    rank_.devices->begin([&] {
      rank_.recorder.time(What::devices, panel_.step,
                          [&] { update_columns(rank_.devices->blas(), first, border); });
    });
  Balance::Taken taken;
  std::exception_ptr error;  // the devices still write to the matrix
  try {
    update_by_cores(border, split.on_cpu, between);
  } catch (...) {
    error = std::current_exception();
  }
  taken.cpu_s = std::chrono::duration<double>(Recorder::Clock::now() - begin).count();
  if (on_devices > 0)
    taken.devices_s = rank_.devices->finish(error ? nullptr : rank_.looking_after(between));
  if (error) std::rethrow_exception(error);
  rank_.share(on_devices,
              [&](std::int64_t from, std::int64_t to) { place_upper(first + from, first + to); });
  // By columns: what a column takes is the same on both sides.
  const auto rows = static_cast<double>(panel_.rows_below + panel_.width);
  taken.cpu = rows * static_cast<double>(split.on_cpu);
  taken.devices = rows * static_cast<double>(on_devices);
  balance.learn(kind, taken);
  return split.columns;
}

void Section::update(Work kind, const std::function<void()>& between) {
  if (columns() == 0) return;
  if (gathered_ != nullptr) rank_.recorder.time(What::pack, panel_.step, [this] { unpack(); });
  rank_.recorder.time(What::product, panel_.step, [&] {
    if (rank_.devices == nullptr) return update_by_cores(0, columns(), between);
    for (std::int64_t done = 0; done < columns();) done += update_by_all(kind, done, between);
  });
}

}  // namespace fleet::lu

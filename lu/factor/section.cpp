// SPDX-License-Identifier: BSD-3-Clause
// section.cpp: rows packed and unpacked by all cores; products by cores and devices.
#include "factor/section.hpp"

#include <chrono>
#include <exception>

namespace fleet::lu {

void SectionBuffers::touch(int grid_rows, std::int64_t width, std::int64_t columns) {
  upper.touch(width * columns);
  if (grid_rows > 1) rows.touch(width, columns);
}

Section::Section(const Grid& grid, System& system, const Rank& rank, const Panel& panel,
                 const RowMoves& moves, std::int64_t begin, std::int64_t end,
                 SectionBuffers& buffers)
    : grid_(grid),
      system_(system),
      rank_(rank),
      panel_(panel),
      begin_(begin),
      end_(std::max(begin, end)) {
  if (columns() == 0) return;
  rank_.recorder.time(What::pack, panel.step, [&] {
    exchange_.emplace(grid, rank, panel, moves, columns(), buffers.rows);
    upper_ = buffers.upper.take(panel_.width * columns());
    if (grid.row == panel.owner_row)
      for (std::int64_t c = 0; c < panel_.width; ++c)
        square_.push_back({panel_.local_begin + c, c});
    grid.rows == 1 ? exchange_here() : pack();
  });
  if (grid.rows > 1) exchange_->send();
}

void Section::exchange_here() {
  rank_.share(columns(), [this](std::int64_t begin, std::int64_t end) {
    const auto into = exchange_->into_square(), out = exchange_->out_of_square(),
               below = exchange_->below();
    for_columns(begin, end, [&](std::int64_t first, std::int64_t last) {
      pack_rows(into, data(), system_.ld, upper_.data(), columns(), first, last);
      for (std::size_t i = 0; i < below.size(); ++i)
        for (std::int64_t c = first; c < last; ++c)
          data()[below[i].row + c * system_.ld] = data()[out[i].row + c * system_.ld];
    });
  });
}

void Section::pack() {
  rank_.share(columns(), [this](std::int64_t begin, std::int64_t end) {
    for (const auto rows : {exchange_->into_square(), exchange_->out_of_square()})
      pack_rows(rows, data(), system_.ld, exchange_->leaving().data(), columns(), begin, end);
  });
}

void Section::unpack() {
  const double* const arrived = exchange_->arriving().data();
  for (const auto& [c, packed] : exchange_->square())
    std::copy_n(arrived + packed * columns(), columns(), upper_.begin() + c * columns());
  rank_.share(columns(), [&](std::int64_t begin, std::int64_t end) {
    unpack_rows(exchange_->below(), data(), system_.ld, arrived, columns(), begin, end);
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
  if (grid_.rows > 1) rank_.recorder.time(What::pack, panel_.step, [this] { unpack(); });
  rank_.recorder.time(What::product, panel_.step, [&] {
    if (rank_.devices == nullptr) return update_by_cores(0, columns(), between);
    for (std::int64_t done = 0; done < columns();) done += update_by_all(kind, done, between);
  });
}

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// device_product.cpp: two strips of each factor, so that one comes while the other is multiplied.
#include "routines/device_product.hpp"

#include <algorithm>
#include <chrono>

#include "on_device/beside.hpp"

namespace fleet::lu {
namespace {

/// Of a part of a triangle, which is one product: few enough that what it computes on the other
/// side of the diagonal is little. That never comes home.
constexpr std::int64_t kColumns = 1024;

}  // namespace

std::unique_ptr<DeviceProduct> DeviceProduct::make(OwnDevice& own, const Update& first,
                                                   const Depth& depth) {
  const auto rows = static_cast<double>(first.c.rows.local_size(first.row));
  const auto cols = static_cast<double>(first.c.cols.local_size(first.col));
  const auto sum = static_cast<double>(depth.all);
  const double elements = rows * cols * (first.which == Elements::all ? 1 : 0.5);
  if (elements == 0 ||
      !own.is_worth(elements * sum, (first.beta == 0 ? 1 : 2) * elements + (rows + cols) * sum))
    return nullptr;
  try {
    const Device* const device = own.start();
    if (device == nullptr) return nullptr;
    std::unique_ptr<DeviceProduct> made(new DeviceProduct(*device, first));
    if (!made->take_memory(depth.of_strip)) {
      own.say_why_not("the device has no room for the rank's part of C");
      return nullptr;
    }
    if (first.beta != 0)
      made->for_parts([&](Range of_rows, Range of_cols) {
        device->put_part(first.c.at(of_rows.begin, of_cols.begin), first.c.ld,
                         made->part(of_rows, of_cols));
      });
    return made;
  } catch (const Failure& failure) {
    own.say_why_not(failure.what());
    return nullptr;  // nothing has been done yet
  }
}

bool DeviceProduct::take_memory(std::int64_t strip) {
  const auto take = [&](Device::Memory& memory, std::int64_t rows, std::int64_t cols) {
    std::int64_t count = 0;
    if (__builtin_mul_overflow(Device::aligned(rows), cols, &count)) return false;
    auto taken = device_.take(count);
    if (taken) memory = std::move(*taken);
    return taken.has_value();
  };
  if (!take(elements_, rows_, cols_)) return false;
  for (Strips& strips : strips_)
    if (!take(strips.left, rows_, Device::aligned(strip)) ||
        !take(strips.right, cols_, Device::aligned(strip)))
      return false;
  if (first_.which == Elements::all) return true;
  auto way = device_.take_on_host(rows_ * std::min(cols_, kColumns));
  if (way) way_ = std::move(*way);
  return way.has_value();
}

template <typename Visit>
void DeviceProduct::for_parts(Visit&& visit) const {
  const std::int64_t width = first_.which == Elements::all ? cols_ : kColumns;
  for (std::int64_t begin = 0; begin < cols_; begin += width) {
    const Range cols{begin, std::min(cols_, begin + width)};
    const Range rows = rows_of(cols);
    if (!rows.is_empty()) visit(rows, cols);
  }
}

Range DeviceProduct::rows_of(Range cols) const {
  switch (first_.which) {
    case Elements::lower:
      return {first_.row_of(cols.begin), rows_};
    case Elements::upper:
      return {0, first_.row_of(cols.end - 1, 1)};
    case Elements::all:
      break;
  }
  return {0, rows_};
}

Device::Part DeviceProduct::part(Range rows, Range cols) const {
  const std::int64_t ld = Device::aligned(rows_);
  return {elements_.data() + rows.begin + cols.begin * ld, rows.size(), cols.size(), ld};
}

StripView DeviceProduct::put(const StripView& strip, std::int64_t count, std::int64_t depth,
                             double* to) const {
  const std::int64_t rows = strip.along ? count : depth, cols = strip.along ? depth : count;
  const std::int64_t ld = Device::aligned(rows);
  device_.put_part(strip.data, strip.ld, {to, rows, cols, ld});
  return {to, strip.first, ld, strip.along};
}

void DeviceProduct::update(const Update& with, const Rank& rank, std::int64_t step) {
  const Strips& strips = strips_[static_cast<std::size_t>(step % 2)];
  StripView left{}, right{};
  rank.recorder.time(What::pack, step, [&] {
    left = put(with.left, rows_, with.depth, strips.left.data());
    right = put(with.right, cols_, with.depth, strips.right.data());
  });
  wait(rank);
  const double alpha = with.alpha, beta = with.beta;
  product_ = beside_this_thread([=, this, depth = with.depth, &rank] {
    rank.recorder.time(What::devices, step, [&] {
      for_parts([&](Range rows, Range cols) {
        device_.multiply({.alpha = alpha,
                          .left = {left.as_left(), left.at(rows.begin), left.ld},
                          .right = {right.as_right(), right.at(cols.begin), right.ld},
                          .depth = depth,
                          .beta = beta},
                         part(rows, cols));
      });
    });
  });
}

void DeviceProduct::wait(const Rank& rank) {
  constexpr std::chrono::microseconds kBetween{100};
  if (!product_.valid()) return;
  while (rank.polls && product_.wait_for(kBetween) == std::future_status::timeout)
    rank.engine.poll();
  product_.get();
}

void DeviceProduct::finish(const Rank& rank) {
  wait(rank);
  for_parts([&](Range rows, Range cols) {
    if (first_.which == Elements::all)
      return device_.fetch_part(part(rows, cols), first_.c.at(rows.begin, cols.begin), first_.c.ld);
    device_.fetch_part(part(rows, cols), way_.data(), rows.size());
    for (std::int64_t col = cols.begin; col < cols.end; ++col) {
      const Range mine = rows_of({col, col + 1});
      std::copy_n(way_.data() + mine.begin - rows.begin + (col - cols.begin) * rows.size(),
                  mine.size(), first_.c.at(mine.begin, col));
    }
  });
}

}  // namespace fleet::lu

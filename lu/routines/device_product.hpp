// SPDX-License-Identifier: BSD-3-Clause
// device_product.hpp: what a rank has of C in the memory of its device, while strips come to it. It
// knows no messages.
#pragma once
#include <array>
#include <future>
#include <memory>

#include "on_device/own_device.hpp"
#include "routines/local.hpp"

namespace fleet::lu {

/// C := alpha*left*right + beta*C, summed up strip by strip.
class DeviceProduct {
 public:
  /// What is summed over: in all, and by one strip at most.
  struct Depth {
    std::int64_t all, of_strip;
  };
  /// C is there then, unless beta is 0. Nothing where it is not worth it, or the rank has no device
  /// that works and has room; what other ranks do does not matter. `first` is the first update,
  /// whose strips are not looked at. C and the device outlive it.
  static std::unique_ptr<DeviceProduct> make(OwnDevice& own, const Update& first,
                                             const Depth& depth);

  /// Its strips go to the device, and are no longer needed then; the product goes on beside. Throws
  /// Failure, as does finish().
  void update(const Update& with, const Rank& rank, std::int64_t step);
  /// C, complete, comes home.
  void finish(const Rank& rank);

 private:
  struct Strips {
    Device::Memory left, right;
  };

  DeviceProduct(const Device& device, const Update& first)
      : device_(device),
        first_(first),
        rows_(first.c.rows.local_size(first.row)),
        cols_(first.c.cols.local_size(first.col)) {}
  /// False where there is no room.
  bool take_memory(std::int64_t strip);
  /// Calls `visit(rows, cols)` for all of C, or a triangle in parts.
  template <typename Visit>
  void for_parts(Visit&& visit) const;
  /// The rows in which these columns have elements of C.
  Range rows_of(Range cols) const;
  Device::Part part(Range rows, Range cols) const;
  /// A strip with so many of C's rows or columns, on the device.
  StripView put(const StripView& strip, std::int64_t count, std::int64_t depth, double* to) const;
  void wait(const Rank& rank);

  const Device& device_;
  const Update first_;  ///< for C, and what of it there is
  const std::int64_t rows_, cols_;
  Device::Memory elements_, way_;
  std::array<Strips, 2> strips_;
  std::future<void> product_;  ///< under way; ends before the memory
};

}  // namespace fleet::lu

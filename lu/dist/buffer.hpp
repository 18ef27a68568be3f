// SPDX-License-Identifier: BSD-3-Clause
// buffer.hpp: numbers that nobody has set yet. It knows no matrices.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace fleet::lu {

/// Memory that is kept and grows, so that steps of a loop need not have it made, and cleared, for
/// each of them. On large pages where the system has them.
class Buffer {
 public:
  /// `count` numbers of any value. What was there is lost if it grows.
  std::span<double> take(std::int64_t count);
  /// The same, set to 0: the system gives a page when it is first written.
  void touch(std::int64_t count);
  double* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(double* data) const;
  };
  std::unique_ptr<double, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// host_matrix.hpp: matrices as the CPU can work on them, wherever they lie, and the threads that do
// it. It knows no algorithm.
#pragma once
#include <functional>
#include <memory>

#include "linalg/level3.hpp"

namespace fleet::linalg {

/// Elements in host memory that are not set. Throws Error(no_memory).
class Workspace {
 public:
  Workspace(Storage storage, std::int64_t rows, std::int64_t cols);
  View view(std::int64_t rows, std::int64_t cols, Fill fill = Fill::full) const {
    return {.data = data_.get(), .rows = rows, .cols = cols, .ld = rows, .fill = fill};
  }

 private:
  struct Free {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data_;
};

/// A matrix where it is, or, of one on a device, a copy on the host.
class HostMatrix {
 public:
  /// Access::write: what it held is not needed. Throws Error(no_memory, device_failed).
  HostMatrix(const Level3& on, const View& home, Access access);
  const View& view() const { return view_; }
  /// To be called when it was written.
  void write_back();

 private:
  const Level3& on_;
  View home_;
  View view_;
  std::unique_ptr<Workspace> copy_;
};

using PartOfWork = std::function<void(std::int64_t, std::int64_t)>;
void run_in_parallel(const Level3& on, std::int64_t items, std::int64_t bytes,
                     const PartOfWork& work);
/// Calls `work(first, end)` for parts of [0, items) that are together all of it, by several threads
/// where `bytes` are worth them. `work` throws nothing. No memory is needed.
template <typename Work>
void in_parallel(const Level3& on, std::int64_t items, std::int64_t bytes, Work&& work) {
  run_in_parallel(on, items, bytes, std::ref(work));
}

enum class Order { forward, backward };
/// Exchanges rows of b by pivots, which are 1-based, in this order.
void exchange_rows(const Level3& on, const View& b, const std::int64_t* pivots, std::int64_t count,
                   Order order);
/// The same of a view in host memory that no other call knows; no context is asked.
void exchange_rows_here(const Level3& on, const View& b, const std::int64_t* pivots,
                        std::int64_t count, Order order);

/// The place of the first zero on the diagonal, from 1 on; 0 where there is none.
std::int64_t first_zero(const Level3& on, const View& triangle);

}  // namespace fleet::linalg

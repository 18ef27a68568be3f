// SPDX-License-Identifier: BSD-3-Clause
// tracked_matrix.hpp: a block of memory that queued calls take as an operand. It knows no calls.
#pragma once
#include <memory>

#include "core/context.hpp"

namespace fleet {

/// A matrix, or a view of a part of one. Copies and views share its memory. With the last of them
/// it is given back if the context allocated it, else what lies on devices comes home. The context
/// must outlive them.
class TrackedMatrix {
 public:
  /// Memory of the caller. Throws Error(bad_argument).
  static TrackedMatrix wrap(Context& context, DataType type, std::int64_t rows, std::int64_t cols,
                            void* data, std::int64_t ld);
  /// New memory at a place: "h", "p", a device, or block-cyclic on devices ("c2x2:1024", see
  /// parse_cyclic). Its contents are undefined.
  static TrackedMatrix create(Context& context, DataType type, std::int64_t rows, std::int64_t cols,
                              std::string_view place);
  TrackedMatrix view(std::int64_t row, std::int64_t col, std::int64_t rows,
                     std::int64_t cols) const;

  Context& context() const { return *context_; }
  DataType type() const { return type_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t ld() const { return ld_; }
  void* data() const { return data_; }
  Block block() const;

  /// Waits for the queued calls that use it and brings it home, so that the caller may use it.
  /// Throws the status of a call that was to write it and failed, or of an event that it comes
  /// after; device_failed where a lost device alone had some of it.
  void read() const;
  /// The same in its turn among queued calls.
  std::shared_ptr<Event> queue_read() const;
  /// Queues that its tiles belong to the devices of a block-cyclic place from now on, and go there.
  std::shared_ptr<Event> distribute(std::string_view place) const;
  /// Queues a copy of as many elements into it, and out of it. The memory must live until it is
  /// done.
  std::shared_ptr<Event> scatter(const void* data, std::int64_t ld) const;
  std::shared_ptr<Event> gather(void* data, std::int64_t ld) const;
  /// Calls that are queued on it from now on start after the event.
  void after(const std::shared_ptr<Event>& event) const;
  /// The caller has written it.
  void wrote() const;

 private:
  class Memory;

  TrackedMatrix(Context& context, DataType type, std::int64_t rows, std::int64_t cols)
      : context_(&context), type_(type), rows_(rows), cols_(cols) {}
  /// The same number of elements elsewhere. Throws Error(bad_argument).
  Block as_large(const void* data, std::int64_t ld) const;

  Context* context_;
  DataType type_;
  std::int64_t rows_, cols_;
  std::int64_t ld_ = 1;
  void* data_ = nullptr;
  std::shared_ptr<const Memory> memory_;
};

}  // namespace fleet

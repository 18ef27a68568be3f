// SPDX-License-Identifier: BSD-3-Clause
// tracked_matrix.cpp: the memory of matrices, and waiting for it.
#include "core/tracked_matrix.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "program/distribution.hpp"

namespace fleet {
namespace {

void require(bool is_legal, const std::string& otherwise) {
  if (!is_legal) throw Error(Status::bad_argument, otherwise);
}

std::string shape(std::int64_t rows, std::int64_t cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

/// (cols - 1) * ld + rows elements. Throws Error(bad_argument) beyond any address space.
std::int64_t span_of(DataType type, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
  require(rows >= 0 && cols >= 0, "a matrix cannot be " + shape(rows, cols));
  if (rows == 0 || cols == 0) return 0;
  std::int64_t elements = 0, bytes = 0;
  require(!__builtin_mul_overflow(cols - 1, ld, &elements) &&
              !__builtin_add_overflow(elements, rows, &elements) &&
              !__builtin_mul_overflow(elements, bytes_of(type.storage), &bytes),
          "a matrix of " + shape(rows, cols) + " is beyond any address space");
  return bytes;
}

}  // namespace

/// Memory that is tracked as long as this lives.
class TrackedMatrix::Memory {
 public:
  /// The caller's.
  Memory(Context& context, const Block& block) : context_(context), block_(block) {
    context_.track(block_);
  }
  /// The context's.
  Memory(Context& context, Block block, int location,
         const std::optional<Distribution>& distribution)
      : context_(context), data_(context.allocate(location, block.bytes)), block_(block) {
    block_.begin = reinterpret_cast<std::uintptr_t>(data_);
    context_.track(block_, distribution);
  }
  ~Memory() {
    try {
      if (data_ != nullptr) context_.release(data_);
      context_.untrack(block_);
    } catch (const std::exception&) {
      // It is freed with the context.
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }
  const Block& block() const { return block_; }

 private:
  Context& context_;
  void* const data_ = nullptr;  ///< null: the caller has to free it
  Block block_;
};

TrackedMatrix TrackedMatrix::wrap(Context& context, DataType type, std::int64_t rows,
                                  std::int64_t cols, void* data, std::int64_t ld) {
  require(ld >= std::max<std::int64_t>(1, rows),
          "the leading dimension is " + std::to_string(ld) + ", expected at least " +
              std::to_string(std::max<std::int64_t>(1, rows)));
  const std::int64_t bytes = span_of(type, rows, cols, ld);
  require(data != nullptr || bytes == 0, "data is NULL");
  TrackedMatrix matrix(context, type, rows, cols);
  matrix.data_ = data;
  matrix.ld_ = ld;
  if (bytes > 0) matrix.memory_ = std::make_shared<const Memory>(context, matrix.block());
  return matrix;
}

TrackedMatrix TrackedMatrix::create(Context& context, DataType type, std::int64_t rows,
                                    std::int64_t cols, std::string_view place) {
  const std::int64_t ld = std::max<std::int64_t>(1, rows);
  const std::int64_t bytes = span_of(type, rows, cols, ld);
  TrackedMatrix matrix(context, type, rows, cols);
  matrix.ld_ = ld;
  // Of a block-cyclic matrix this is memory that the system gives when it is touched: at first
  // nothing is at home.
  const int location = is_cyclic(place) ? kPageable : parse_place(place);
  const auto distribution =
      is_cyclic(place) ? context.distribution(type.storage, rows, cols, place) : std::nullopt;
  if (bytes == 0) return matrix;
  matrix.memory_ = std::make_shared<const Memory>(context, matrix.block(), location, distribution);
  matrix.data_ = matrix.memory_->data();
  return matrix;
}

TrackedMatrix TrackedMatrix::view(std::int64_t row, std::int64_t col, std::int64_t rows,
                                  std::int64_t cols) const {
  const bool fits =
      row >= 0 && col >= 0 && rows >= 0 && cols >= 0 && row <= rows_ - rows && col <= cols_ - cols;
  require(fits, "a view of " + shape(rows, cols) + " from (" + std::to_string(row) + ", " +
                    std::to_string(col) + ") on reaches beyond a matrix of " + shape(rows_, cols_));
  TrackedMatrix part = *this;
  part.rows_ = rows;
  part.cols_ = cols;
  if (rows > 0 && cols > 0)
    part.data_ = static_cast<char*>(data_) + (row + col * ld_) * bytes_of(type_.storage);
  return part;
}

Block TrackedMatrix::block() const {
  return {.begin = reinterpret_cast<std::uintptr_t>(data_),
          .bytes = span_of(type_, rows_, cols_, ld_),
          .ld = ld_,
          .rows = rows_,
          .cols = cols_,
          .storage = type_.storage};
}

void TrackedMatrix::read() const { context_->read(block()); }

std::shared_ptr<Event> TrackedMatrix::queue_read() const { return context_->queue_read(block()); }

std::shared_ptr<Event> TrackedMatrix::distribute(std::string_view place) const {
  require(is_cyclic(place),
          "place '" + std::string(place) + "' is none of a grid of devices, like c2x2:1024");
  require(memory_ == nullptr || memory_->block() == block(),
          "a view of a part of a matrix cannot be distributed by itself");
  const auto wanted = context_->distribution(type_.storage, rows_, cols_, place);
  if (memory_ == nullptr || !wanted) {
    auto done = std::make_shared<Event>();
    done->finish(Status::ok, {});
    return done;
  }
  return context_->queued().push(
      "fleet_matrix_distribute",
      {.kind = Transfer::Kind::distribute, .to = block(), .distribution = wanted});
}

Block TrackedMatrix::as_large(const void* data, std::int64_t ld) const {
  require(ld >= std::max<std::int64_t>(1, rows_),
          "the leading dimension is " + std::to_string(ld) + ", expected at least " +
              std::to_string(std::max<std::int64_t>(1, rows_)));
  Block other = block();
  other.begin = reinterpret_cast<std::uintptr_t>(data);
  other.ld = ld;
  other.bytes = span_of(type_, rows_, cols_, ld);
  require(data != nullptr || other.bytes == 0, "data is NULL");
  require(other.bytes == 0 || !overlap(other, block()), "data is in the matrix itself");
  return other;
}

std::shared_ptr<Event> TrackedMatrix::scatter(const void* data, std::int64_t ld) const {
  return context_->queued().push("fleet_matrix_scatter",
                                 {.from = as_large(data, ld), .to = block()});
}

std::shared_ptr<Event> TrackedMatrix::gather(void* data, std::int64_t ld) const {
  return context_->queued().push("fleet_matrix_gather",
                                 {.from = block(), .to = as_large(data, ld)});
}

void TrackedMatrix::after(const std::shared_ptr<Event>& event) const {
  context_->queued().hold(block(), event);
}

void TrackedMatrix::wrote() const { context_->note_written(block()); }

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// message_memory.hpp: memory of messages that a failure may leave under way. It knows no messages.
#pragma once
#include <exception>
#include <memory>
#include <utility>

#include "comm/comm.hpp"
#include "dist/buffer.hpp"

namespace fleet::lu {

/// A buffer that stays where a failure leaves its message.
class MessageMemory {
 public:
  MessageMemory() = default;
  MessageMemory(MessageMemory&&) = default;
  ~MessageMemory() {
    if (std::uncaught_exceptions() > 0) keep_for_ever(std::make_shared<Buffer>(std::move(buffer_)));
  }

  std::span<double> take(std::int64_t count) { return buffer_.take(count); }
  double* data() const { return buffer_.data(); }

 private:
  Buffer buffer_;
};

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// mail.cuh: values that the thread blocks of one grid send each other through global memory. It
// knows no factorization.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/scalars.cuh"

namespace fleet::cuda {

/// 8 bytes of a message. Each half of it has its tag, since only aligned words of 8 bytes are sure
/// to arrive as a whole; whoever finds the tag that it waits for has the value with it, without a
/// fence and a second read. Tags must not repeat in a place while its memory is not cleared.
using MailLine = uint4;

template <typename T>
constexpr int kMailLines = (sizeof(T) + 7) / 8;

// GPUs before Volta know no scopes.
__device__ inline void send_words(MailLine* line, std::uint32_t tag, std::uint32_t first,
                                  std::uint32_t second) {
#if __CUDA_ARCH__ >= 700
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(line), "r"(first),
               "r"(tag), "r"(second), "r"(tag)
               : "memory");
#else
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(line), "r"(first),
               "r"(tag), "r"(second), "r"(tag)
               : "memory");
#endif
}

__device__ inline uint4 peek(const MailLine* line) {
  uint4 found;
#if __CUDA_ARCH__ >= 700
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(line)
               : "memory");
#else
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
               : "l"(line)
               : "memory");
#endif
  return found;
}

__device__ inline bool has_arrived(uint4 found, std::uint32_t tag) {
  return found.y == tag && found.w == tag;
}

template <typename T>
union MailValue {
  T value;
  std::uint32_t words[2 * kMailLines<T>];
  __device__ MailValue() : words{} {}
};

template <typename T>
__device__ T value_of(const MailLine (&found)[kMailLines<T>]) {
  MailValue<T> message;
#pragma unroll
  for (int line = 0; line < kMailLines<T>; ++line) {
    message.words[2 * line] = found[line].x;
    message.words[2 * line + 1] = found[line].z;
  }
  return message.value;
}

template <typename T>
__device__ void send(MailLine* lines, std::uint32_t tag, T value) {
  MailValue<T> message;
  message.value = value;
#pragma unroll
  for (int line = 0; line < kMailLines<T>; ++line)
    send_words(lines + line, tag, message.words[2 * line], message.words[2 * line + 1]);
}

/// Waits until the value is there.
template <typename T>
__device__ T receive(const MailLine* lines, std::uint32_t tag) {
  MailLine found[kMailLines<T>];
  bool arrived;
  do {
    arrived = true;
#pragma unroll
    for (int line = 0; line < kMailLines<T>; ++line) found[line] = peek(lines + line);
#pragma unroll
    for (int line = 0; line < kMailLines<T>; ++line) arrived &= has_arrived(found[line], tag);
  } while (!arrived);
  return value_of<T>(found);
}

}  // namespace fleet::cuda

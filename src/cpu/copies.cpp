// SPDX-License-Identifier: BSD-3-Clause
// copies.cpp: one copy where the columns follow each other, else one for each. It must not
// know whose memory it is.
#include "cpu/copies.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace fleet {
namespace {

#ifdef __SSE2__
constexpr std::size_t kLineBytes = 64;

/// Writes whole cache lines past the caches, and the ends before and after them as usual.
void stream(char* to, const char* from, std::size_t bytes) {
  const auto misaligned = reinterpret_cast<std::uintptr_t>(to) % kLineBytes;
  const std::size_t head = std::min(bytes, misaligned == 0 ? 0 : kLineBytes - misaligned);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + kLineBytes <= bytes; done += kLineBytes) {
    __m128i words[4];
    for (int i = 0; i < 4; ++i)
      words[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done) + i);
    for (int i = 0; i < 4; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + done) + i, words[i]);
  }
  std::memcpy(to + done, from + done, bytes - done);
}

/// Makes what was streamed visible to threads that are told about it after this.
void settle() { _mm_sfence(); }
#else
void stream(char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void settle() {}
#endif

void copy(char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

template <typename Copy>
void for_each_run(const View& from, const View& to, std::int64_t element_bytes, std::int64_t first,
                  std::int64_t last, Copy copy_run) {
  const auto address = [&](const View& view, std::int64_t col) {
    return static_cast<char*>(view.data) + col * view.ld * element_bytes;
  };
  const auto column_bytes = static_cast<std::size_t>(from.rows * element_bytes);
  if (column_bytes == 0 || first >= last) return;
  if (from.fill != Fill::full) {
    for (std::int64_t col = first; col < last; ++col) {
      const auto [begin, end] = rows_of(from, col);
      copy_run(address(to, col) + begin * element_bytes, address(from, col) + begin * element_bytes,
               static_cast<std::size_t>((end - begin) * element_bytes));
    }
    return;
  }
  if (from.ld == from.rows && to.ld == to.rows) {
    copy_run(address(to, first), address(from, first),
             column_bytes * static_cast<std::size_t>(last - first));
    return;
  }
  for (std::int64_t col = first; col < last; ++col)
    copy_run(address(to, col), address(from, col), column_bytes);
}

}  // namespace

void copy_columns(const View& from, const View& to, std::int64_t element_bytes, std::int64_t first,
                  std::int64_t last) {
  for_each_run(from, to, element_bytes, first, last, copy);
}

void copy_columns_past_caches(const View& from, const View& to, std::int64_t element_bytes,
                              std::int64_t first, std::int64_t last) {
  for_each_run(from, to, element_bytes, first, last, stream);
  settle();
}

}  // namespace fleet

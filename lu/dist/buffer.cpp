// SPDX-License-Identifier: BSD-3-Clause
// buffer.cpp: aligned to large pages where it has one.
#include "dist/buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "comm/comm.hpp"

namespace fleet::lu {
namespace {

constexpr std::size_t kLine = 64, kLargePage = 2 << 20;

}  // namespace

void Buffer::Free::operator()(double* data) const { std::free(data); }

std::span<double> Buffer::take(std::int64_t count) {
  const std::size_t wanted = static_cast<std::size_t>(count) * sizeof(double);
  if (wanted > bytes_) {
    const std::size_t unit = wanted >= kLargePage ? kLargePage : kLine;
    const std::size_t bytes = (wanted + unit - 1) / unit * unit;
    data_.reset();
    bytes_ = 0;
    data_.reset(static_cast<double*>(std::aligned_alloc(unit, bytes)));
    if (data_ == nullptr) throw Failure("the host has no " + std::to_string(bytes) + " bytes left");
    bytes_ = bytes;
    if (unit == kLargePage) madvise(data_.get(), bytes, MADV_HUGEPAGE);  // or small ones
  }
  return {data_.get(), static_cast<std::size_t>(count)};
}

void Buffer::touch(std::int64_t count) { std::ranges::fill(take(count), 0.0); }

}  // namespace fleet::lu

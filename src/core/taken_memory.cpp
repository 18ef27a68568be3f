// SPDX-License-Identifier: BSD-3-Clause
// taken_memory.cpp: takes pieces, if need be after what only earlier plans have use for was freed.
#include "core/taken_memory.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fleet {

TakenMemory::~TakenMemory() {
  for (const auto& [device, data] : taken_) memory_.give_back(device, data);
}

View TakenMemory::take(DeviceId device, Storage storage, std::int64_t rows, std::int64_t cols) {
  Backend& backend = *offloader_.engine().backend;
  const std::int64_t bytes = rows * cols * bytes_of(storage);
  taken_.reserve(taken_.size() + 1);
  void* data = nullptr;
  try {
    data = memory_.take(backend, device, bytes);
  } catch (const Error& error) {
    if (error.status() != Status::no_memory) throw;
    offloader_.trim();  // the arenas of earlier plans
    data = memory_.take(backend, device, bytes);
  }
  taken_.emplace_back(device, data);
  return {.data = data, .rows = rows, .cols = cols, .ld = std::max<std::int64_t>(1, rows)};
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// tile_memory.cpp: first fit in chunks.
#include "core/tile_memory.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/sizes.hpp"

namespace fleet {
namespace {

// A GPU takes up to a millisecond for an allocation of any size. Chunks are as large as all before
// together, within these bounds: programs with small matrices take little, others soon have few.
constexpr std::int64_t kLeastChunkBytes = std::int64_t{4} << 20;
constexpr std::int64_t kMostChunkBytes = std::int64_t{256} << 20;
// No more of a small device than this part of what is free.
constexpr std::int64_t kPartOfFree = 16;

}  // namespace

TileMemory::Store& TileMemory::store(DeviceId device) {
  if (static_cast<std::size_t>(device) >= stores_.size())
    stores_.resize(static_cast<std::size_t>(device) + 1);
  return stores_[static_cast<std::size_t>(device)];
}

void* TileMemory::cut(Store& store, std::int64_t bytes) {
  for (std::size_t c = 0; c < store.chunks.size(); ++c) {
    Chunk& chunk = store.chunks[c];
    const auto fits = [&](const auto& piece) { return piece.second >= bytes; };
    const auto piece = std::ranges::find_if(chunk.free, fits);
    if (piece == chunk.free.end()) continue;
    const auto [offset, size] = *piece;
    void* const address = chunk.data + offset;
    const auto taken = store.pieces.try_emplace(address).first;
    try {
      if (size > bytes) chunk.free.emplace(offset + bytes, size - bytes);
    } catch (const std::bad_alloc&) {
      store.pieces.erase(taken);
      throw;
    }
    taken->second = {c, bytes, chunk.free.extract(piece)};
    store.used += bytes;
    return address;
  }
  return nullptr;
}

void TileMemory::add_chunk(Store& store, Backend& backend, DeviceId device, std::int64_t bytes) {
  auto place = std::ranges::find(store.chunks, nullptr, &Chunk::data);
  if (place == store.chunks.end()) place = store.chunks.insert(place, Chunk{});
  std::map<std::int64_t, std::int64_t> free{{0, bytes}};
  place->data = static_cast<char*>(backend.allocate(device, bytes));
  place->bytes = bytes;
  place->free = std::move(free);
}

void* TileMemory::take(Backend& backend, DeviceId device, std::int64_t bytes) {
  Store& here = store(device);
  bytes = round_up(std::max<std::int64_t>(1, bytes), kAlignmentBytes);
  if (void* const address = cut(here, bytes)) return address;
  std::int64_t so_far = 0;
  for (const Chunk& chunk : here.chunks) so_far += chunk.bytes;
  const std::int64_t usual = std::min(std::clamp(so_far, kLeastChunkBytes, kMostChunkBytes),
                                      backend.available_bytes(device) / kPartOfFree);
  try {
    add_chunk(here, backend, device, std::max(bytes, usual));
  } catch (const Error& error) {
    if (error.status() != Status::no_memory) throw;
    trim(backend);
    add_chunk(here, backend, device, bytes);
  }
  return cut(here, bytes);
}

void TileMemory::give_back(DeviceId device, void* address) noexcept {
  Store& here = store(device);
  const auto piece = here.pieces.find(address);
  const std::int64_t bytes = piece->second.bytes;
  Chunk& chunk = here.chunks[piece->second.chunk];
  piece->second.node.key() = static_cast<char*>(address) - chunk.data;
  piece->second.node.mapped() = bytes;
  auto at = chunk.free.insert(std::move(piece->second.node)).position;
  here.pieces.erase(piece);
  here.used -= bytes;
  if (const auto next = std::next(at);
      next != chunk.free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    chunk.free.erase(next);
  }
  if (at == chunk.free.begin()) return;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    chunk.free.erase(at);
  }
}

std::int64_t TileMemory::used(DeviceId device) const {
  return static_cast<std::size_t>(device) < stores_.size()
             ? stores_[static_cast<std::size_t>(device)].used
             : 0;
}

void TileMemory::trim(Backend& backend) {
  for (std::size_t d = 0; d < stores_.size(); ++d)
    for (Chunk& chunk : stores_[d].chunks) {
      if (chunk.data == nullptr || chunk.free.empty() || chunk.free.begin()->second != chunk.bytes)
        continue;
      backend.release(static_cast<DeviceId>(d), chunk.data);
      chunk = {};
    }
}

}  // namespace fleet

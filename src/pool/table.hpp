// SPDX-License-Identifier: BSD-3-Clause
// table.hpp: blocks of static storage as the functions of struct Pool. It knows no device.
#pragma once
#include "pool/blocks.hpp"
#include "pool/pages.hpp"
#include "pool/pool.hpp"

namespace fleet::pool {

template <Blocks& blocks, std::atomic<const void*>& owner>
inline constexpr Pool kTable = {
    .version = Pool::kVersion,
    .owner = &owner,
    .state = [](const void* data, std::int64_t bytes) { return blocks.state(data, bytes); },
    .counters = [] { return blocks.counters(); },
    .take_plain = [](const void* data, std::int64_t bytes,
                     PoolPiece* piece) { return blocks.take_plain(data, bytes, *piece); },
    .touch = [](const PoolPiece* piece) { touch(static_cast<char*>(piece->data), piece->bytes); },
    .note = [](const PoolPiece* piece, PoolState now) { blocks.note(*piece, now); },
    .take_idle = [](std::int64_t age_ns, void** block) { return blocks.take_idle(age_ns, *block); },
    .take_any = [](void** block) { return blocks.take_any(*block); },
    .take_pinned = [](void* block, PoolPiece* piece) { return blocks.take_pinned(block, *piece); },
    .give_back = [](void* block) { blocks.give_back(block); },
    .has_pinned = [] { return blocks.has_pinned(); },
};

}  // namespace fleet::pool

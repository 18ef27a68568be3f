// SPDX-License-Identifier: BSD-3-Clause
// mover_vectors.cpp: what a Mover does for plans with vectors alone: tiles that stream through, and
// sums that meet.
#include "plan/mover.hpp"

namespace fleet {
namespace {

// Tiles of an operand on a worker at a time: one in use on each of two lanes, and those after them
// on their way.
constexpr std::int64_t kStreamed = 4;

}  // namespace

// With vectors no tile is used twice, or only small ones are: they stream through.
void Mover::limit_stream(std::int64_t input_bytes, std::int64_t output_bytes) {
  for (const DeviceId device : tuning_.workers) {
    store(device).limit(Pool::input, 2 * kStreamed, input_bytes);
    store(device).limit(Pool::output, kStreamed, output_bytes);
  }
}

double Mover::bring_sum(const TileId& tile, const Where& from, const Where& to, double ready_s) {
  const Holder holder{from.device, ready_s};
  Cargo cargo = plan_.cargo_of(tile);
  cargo.column_bytes = 0;
  const Chain& chain = router_.route({&holder, 1}, {&to.device, 1}, cargo);
  before_read(from, tile);
  emit_leg(TaskKind::fetch, tile, chain.legs[0], from, to, chain.chunks, kNoTask);
  router_.commit(chain.legs[0], cargo.bytes);
  return chain.legs[0].stop_s();
}

}  // namespace fleet

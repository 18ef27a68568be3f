// SPDX-License-Identifier: BSD-3-Clause
// slot_copies.hpp: dense copies of matrices in given memory of devices, made or brought home by one
// plan, so that all links are in use. It knows no tiles of calls.
#pragma once
#include <span>

#include "core/offloader.hpp"
#include "run/binding.hpp"

namespace fleet {

/// A matrix where it is at home, and the memory of another device that a dense copy of it has.
struct SlotCopy {
  DeviceId home = kHost;
  Block matrix;
  DeviceId device = kHost;
  void* slot = nullptr;
};

/// For the thread that has the turn. False: some were not made. Throws Error.
bool copy_into_slots(Offloader& offloader, std::span<const SlotCopy> copies, Journal& journal,
                     const Log& log);
/// The matrices get what their copies have. Likewise.
bool copy_from_slots(Offloader& offloader, std::span<const SlotCopy> copies, Journal& journal,
                     const Log& log);

}  // namespace fleet

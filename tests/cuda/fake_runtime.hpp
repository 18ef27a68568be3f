// SPDX-License-Identifier: BSD-3-Clause
// fake_runtime.hpp: what tests tell the fake CUDA about its devices' virtual memory and the
// program's streams, and ask of it.
#pragma once
#include <cstddef>
#include <vector>

namespace fleet::test {

struct FakeMemory {
  static constexpr int kDevices = 3;
  bool is_virtual = true;  ///< devices say that they have virtual memory
  bool has_peers = true;   ///< devices reach each other's memory
  /// Refused is the piece after so many more that are mapped, or shown to anyone; -1: none.
  int refused_map = -1, refused_access = -1;
  std::size_t used_bytes[kDevices] = {};  ///< by virtual memory: pieces created and not gone
  std::vector<std::size_t> pieces;        ///< bytes of those that were mapped, in their order
  std::vector<int> users;                 ///< who may reach the piece that was mapped last
};

FakeMemory& fake_memory();

/// What the program does with its streams.
struct FakeStreams {
  void* captured = nullptr;  ///< the default stream would wait for it; none: nullptr
  bool is_broken = false;    ///< the capture is
  bool wait = true;          ///< for numbers; else what is put into them goes on
};

FakeStreams& fake_streams();

}  // namespace fleet::test

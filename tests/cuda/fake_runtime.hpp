// SPDX-License-Identifier: BSD-3-Clause
// fake_runtime.hpp: what tests tell the fake CUDA about its devices' virtual memory, and ask of it.
#pragma once
#include <cstddef>
#include <vector>

namespace fleet::test {

struct FakeMemory {
  static constexpr int kDevices = 3;
  bool is_virtual = true;                 ///< devices say that they have virtual memory
  bool refuses_access = false;            ///< nobody may reach a piece
  bool has_peers = true;                  ///< devices reach each other's memory
  std::size_t used_bytes[kDevices] = {};  ///< by virtual memory
  std::vector<int> users;                 ///< who may reach the piece that was mapped last
};

FakeMemory& fake_memory();

}  // namespace fleet::test

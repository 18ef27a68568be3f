// SPDX-License-Identifier: BSD-3-Clause
// gpus.hpp: the GPUs of this machine, for tests below the C API.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/device_library.hpp"
#include "base/error.hpp"

namespace fleet::test {

inline std::vector<int> all_gpus() {
  std::string why;
  const int count = device_library({}).count(why);
  std::vector<int> ids;
  for (int id = 0; id < count; ++id) ids.push_back(id);
  return ids;
}

/// All of them. Throws Error(unsupported) where there is none.
inline std::unique_ptr<Backend> gpus(const Options& options = {}) {
  const std::vector<int> all = all_gpus();
  if (all.empty()) throw Error(Status::unsupported, "these tests need a GPU");
  return device_library({}).open(options, all);
}

}  // namespace fleet::test

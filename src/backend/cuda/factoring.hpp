// SPDX-License-Identifier: BSD-3-Clause
// factoring.hpp: the kernels of factorizations (program/panel.hpp) on one GPU. It knows launches,
// not plans.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "backend/cuda/panels.hpp"

namespace fleet::cuda {

/// Memory of the current device that kernels of one stream use one after another. It only grows.
class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  /// True if it has moved: graphs that were kept before have the old one. Throws Error(no_memory).
  bool grow(std::size_t bytes);
  char* data() const { return blocks_.empty() ? nullptr : blocks_.back(); }

 private:
  /// The last one is in use. Those before may be in kept graphs, and to free them would wait for
  /// the device; each is at most half of the next.
  std::vector<char*> blocks_;
  std::size_t bytes_ = 0;
};

/// What an update needs of a workspace, by its panel and the shape of c.
std::size_t update_bytes(const Launch& launch);
/// What a kernel from Kernel::update on needs of a workspace, by its panel and the shape of c.
std::size_t factoring_bytes(const Launch& launch, const Handles& handles);

/// Does it. Throws Error(device_failed), and Error(unsupported) where the panel has more rows than
/// the device can factor.
void run_factoring(const Launch& launch, const Handles& handles, char* workspace);

/// Is `launch` an update that gains by it?
bool can_update_in_two(const Launch& launch);
/// An update of getrf in two streams: the exchange of rows and those of U, which memory bounds, for
/// columns of which products come later, while the arithmetic units have those of columns before.
/// `rows` has the workspace, and goes on after what `products` has now; whoever waits for
/// `products` then has waited for both. Throws as run_factoring, and then waits for `rows`.
void run_update_in_two(const Launch& launch, const Handles& rows, char* workspace,
                       const Handles& products);

}  // namespace fleet::cuda

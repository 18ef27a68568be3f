// SPDX-License-Identifier: BSD-3-Clause
// context.hpp: contexts of the library, and what its functions return. It knows no matrices.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fleetblas/fleetblas.h"

namespace fleet::lu {

/// Throws Failure, with the library's reason, where the last call has failed.
void check(fleet_status status);

/// A leading dimension that its functions take, of a matrix that may have no rows.
inline std::int64_t legal(std::int64_t ld) { return std::max<std::int64_t>(1, ld); }

struct DestroyContext {
  void operator()(fleet_context* context) const { fleet_context_destroy(context); }
};
using Context = std::unique_ptr<fleet_context, DestroyContext>;
/// Throws Failure.
Context make_context(const std::string& options);

/// Memory of the program that devices reach without detours, until it is let go.
class Pinned {
 public:
  struct Memory {
    void* data;
    std::size_t bytes;
  };
  Pinned(fleet_context* context, const std::vector<Memory>& memory);
  Pinned(Pinned&& other) noexcept : context_(other.context_), memory_(std::move(other.memory_)) {
    other.memory_.clear();
  }
  Pinned& operator=(Pinned&&) = delete;
  ~Pinned();

 private:
  fleet_context* context_;
  std::vector<void*> memory_;
};

/// The value of a key of fleet_config_json that is a text or a list of numbers, without its quotes
/// or brackets; empty where there is none. nullptr: of the default context.
std::string config_value(fleet_context* context, const std::string& key);

/// An option as the context has it, whoever set it: the environment or a file, too.
struct Option {
  std::string value;
  bool is_set = false;  ///< by somebody; else it is the default
};
/// Empty where there is none of the name. nullptr: of the default context.
Option option(fleet_context* context, const std::string& name);

}  // namespace fleet::lu

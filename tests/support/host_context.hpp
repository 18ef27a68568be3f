// SPDX-License-Identifier: BSD-3-Clause
// host_context.hpp: contexts of virtual devices for tests of the C API, without probing. It knows
// the public header and machine files only.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "backend/host/machine.hpp"
#include "fleetblas/fleetblas.h"
#include "machine/machine.hpp"
#include "probe/probe.hpp"

namespace fleet::test {

/// A folder that is removed when the process that created it ends; forked children share their
/// parent's.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "fleet_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (getpid() == owner_) std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  pid_t owner_ = getpid();
};

/// A file name that no other process uses.
inline std::string temporary_file(const std::string& name) {
  static const TemporaryFolder folder;
  return folder.path() + "/" + std::to_string(getpid()) + "_" + name;
}

/// "machine=FILE" for this many virtual devices with placeholder rates; offload=always and
/// online=off, so that neither these rates nor the real ones matter.
inline std::string host_options(int devices, std::int64_t memory_bytes = std::int64_t{1} << 30) {
  const std::string file = temporary_file("machine" + std::to_string(devices) + ".json");
  std::ofstream(file) << to_json(host_machine(devices, 2, memory_bytes));
  return "backend=host;offload=always;online=off;devices=" + std::to_string(devices) +
         ";machine=" + file;
}

/// The same of devices that solve by inverses of the blocks of a triangle.
inline std::string with_inverses(int devices) {
  Machine machine = host_machine(devices, 2, std::int64_t{1} << 30);
  for (Device& device : machine.devices) device.inverse_order = 8;
  const std::string file = temporary_file("inverses.json");
  std::ofstream(file) << to_json(machine);
  return "backend=host;offload=always;online=off;devices=" + std::to_string(devices) +
         ";machine=" + file;
}

class HostContext {
 public:
  explicit HostContext(const std::string& options) {
    EXPECT_EQ(fleet_context_create(options.c_str(), &context_), FLEET_OK) << fleet_message();
  }
  ~HostContext() { EXPECT_EQ(fleet_context_destroy(context_), FLEET_OK); }
  HostContext(const HostContext&) = delete;
  HostContext& operator=(const HostContext&) = delete;

  operator fleet_context*() const { return context_; }

  /// The text that `give` writes; "" and a failed test if it fails.
  template <typename Give, typename... Words>
  std::string text(Give give, Words... words) const {
    char* text = nullptr;
    EXPECT_EQ(give(context_, words..., &text), FLEET_OK) << fleet_message();
    const std::string copy = text == nullptr ? "" : text;
    fleet_free_text(text);
    return copy;
  }

 private:
  fleet_context* context_ = nullptr;
};

}  // namespace fleet::test

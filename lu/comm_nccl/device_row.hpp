// SPDX-License-Identifier: BSD-3-Clause
// device_row.hpp: messages from device to device of different processes, by NCCL. It knows no
// matrices.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "comm/comm.hpp"

namespace fleet::lu {

/// The ranks of a group, each with a device of its own.
class DeviceRow {
 public:
  /// Memory of a rank's device, as large as its largest message.
  struct Place {
    int device;  ///< as CUDA numbers it; negative: this rank has none
    double* data;
    std::int64_t count;
  };
  /// All ranks, which outlive it, call it together. Messages are tried, in that memory: NCCL
  /// connects ranks when the first ones go. Nothing where that does not work on a rank, or where
  /// one finds no NCCL or has no device of its own, on all ranks alike, and `why`. Throws Failure
  /// where a rank does not answer.
  static std::unique_ptr<DeviceRow> make(Comm& ranks, const Place& place, double patience_s,
                                         std::string& why);
  virtual ~DeviceRow() = default;

  /// All ranks get what the root has, in memory of their devices; one after another, in the order
  /// of calls. NCCL reads and writes the memory until the request is done or this goes. Throws
  /// Failure.
  virtual std::unique_ptr<Request> broadcast(double* data, std::int64_t count, int root) = 0;
  /// "NCCL 2.27.3"
  virtual std::string name() const = 0;
};

}  // namespace fleet::lu

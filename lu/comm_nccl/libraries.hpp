// SPDX-License-Identifier: BSD-3-Clause
// libraries.hpp: the functions of NCCL and of CUDA's driver that ranks need, found at run time and
// declared here: neither is needed to build. It knows no ranks.
#pragma once
#include <array>
#include <cstddef>
#include <string>

namespace fleet::lu {

/// NCCL's ncclUniqueId, by which ranks find each other.
struct NcclId {
  std::array<char, 128> bytes;
};

/// NCCL's ncclConfig_t as its first version had it: later ones read no more of it.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

/// The driver's CUuuid.
struct DeviceName {
  std::array<char, 16> bytes;
};

/// What both call handles.
struct NcclComm;
struct CudaStream;
struct CudaEvent;
struct CudaContext;

/// Statuses: 0 is success, and others as their libraries number them.
struct Libraries {
  static constexpr int kNotReady = 600;  ///< CUDA_ERROR_NOT_READY
  static constexpr int kInProgress = 7;  ///< ncclInProgress
  static constexpr int kDouble = 8;      ///< ncclFloat64
  static constexpr unsigned kNoTiming = 2, kNonBlocking = 1;
  static constexpr int kDeviceOfMemory = 9;  ///< an attribute of pointers

  int (*version)(int*) = nullptr;
  const char* (*text)(int) = nullptr;
  int (*make_id)(NcclId*) = nullptr;
  int (*begin)(NcclComm**, int, NcclId, int, NcclConfig*) = nullptr;
  int (*device_of)(NcclComm*, int*) = nullptr;
  int (*finish)(NcclComm*) = nullptr;
  int (*end)(NcclComm*) = nullptr;
  int (*abort)(NcclComm*) = nullptr;
  int (*async_error)(NcclComm*, int*) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int, int, NcclComm*, CudaStream*) = nullptr;

  int (*start)(unsigned) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(DeviceName*, int) = nullptr;
  int (*context)(CudaContext**, int) = nullptr;
  int (*current)(CudaContext**) = nullptr;
  int (*use)(CudaContext*) = nullptr;
  int (*pointer)(void* value, int attribute, unsigned long long address) = nullptr;
  int (*priorities)(int* least, int* greatest) = nullptr;
  int (*make_stream)(CudaStream**, unsigned, int) = nullptr;
  int (*end_stream)(CudaStream*) = nullptr;
  int (*make_event)(CudaEvent**, unsigned) = nullptr;
  int (*record)(CudaEvent*, CudaStream*) = nullptr;
  int (*query)(CudaEvent*) = nullptr;
  int (*end_event)(CudaEvent*) = nullptr;

  /// "2.27.3"
  std::string version_text() const;
};

/// Those of this process; nullptr where there is no NCCL or no driver, and `why`. NCCL is the file
/// that FLEETBLAS_NCCL names, the loader's, or that of a Python environment that this program is
/// in. A stand-in for tests may have the driver's functions too.
const Libraries* libraries(std::string& why);

}  // namespace fleet::lu

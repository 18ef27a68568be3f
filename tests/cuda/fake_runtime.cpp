// SPDX-License-Identifier: BSD-3-Clause
// fake_runtime.cpp: a CUDA runtime without GPUs. Its streams do everything at once, in the thread
// that asks: what these threads leave unordered gives wrong results, or a race that a sanitizer
// sees. It has no graphs and no kernels.
#include "cuda/fake_runtime.hpp"

#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

namespace {

using fleet::test::fake_memory;
using fleet::test::fake_streams;

constexpr int kDevices = fleet::test::FakeMemory::kDevices;
constexpr std::size_t kMemoryBytes = std::size_t{1} << 32;

/// As with CUDA, threads begin without a context. Then CUDA would make one on device 0; here
/// nothing works: the library names the device that it means.
struct Primary {
  int device;
};
Primary primaries[kDevices] = {{0}, {1}, {2}};
thread_local CUcontext bound = nullptr;
thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/// -1: none.
int current() { return bound == nullptr ? -1 : reinterpret_cast<const Primary*>(bound)->device; }

CUresult get_context(CUcontext* context) { return *context = bound, CUDA_SUCCESS; }
CUresult set_context(CUcontext context) { return bound = context, CUDA_SUCCESS; }
CUresult device_of_number(CUdevice* device, int number) {
  return *device = number, number < kDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult retain(CUcontext* context, CUdevice device) {
  return *context = reinterpret_cast<CUcontext>(&primaries[device]), CUDA_SUCCESS;
}

CUresult give_back(CUdevice /*device*/) { return CUDA_SUCCESS; }
CUresult exchange(CUstreamCaptureMode* other) { return std::swap(*other, mode), CUDA_SUCCESS; }

/// An event or a stream. Its number orders memory between threads as CUDA orders work.
struct Ordered {
  int device = current();
  std::atomic<int> number{0};
};

bool is_default(const void* stream) { return stream == nullptr || stream == cudaStreamLegacy; }

/// The program's capture does not survive what waits for its stream, or goes into it.
bool breaks_capture(const void* stream) {
  fleet::test::FakeStreams& streams = fake_streams();
  if (streams.captured == nullptr || (!is_default(stream) && stream != streams.captured))
    return false;
  return streams.is_broken = true;
}

/// Work goes into a stream or an event of the current device, or not at all.
bool note(void* handle) {
  if (breaks_capture(handle)) return false;
  if (is_default(handle)) return current() >= 0;
  auto* const ordered = static_cast<Ordered*>(handle);
  ordered->number.fetch_add(1, std::memory_order_acq_rel);
  return ordered->device == current();
}

/// Shuffles what threads do.
void hesitate() {
  thread_local std::minstd_rand random(
      static_cast<unsigned>(std::hash<std::thread::id>{}(std::this_thread::get_id())));
  const auto chance = random() % 64;
  if (chance == 0) std::this_thread::sleep_for(std::chrono::microseconds(30));
  if (chance < 16) std::this_thread::yield();
}

template <typename Work>
cudaError_t in_stream(cudaStream_t stream, Work&& work) {
  hesitate();
  if (!note(stream)) return cudaErrorInvalidResourceHandle;
  work();
  return cudaSuccess;
}

/// Blocks by their addresses, with the device that has them; -1: pinned memory.
struct Block {
  std::size_t bytes;
  int device;
};
std::mutex blocks_mutex;
std::map<const char*, Block>& blocks() {
  static auto& all = *new std::map<const char*, Block>;
  return all;
}

void forget(const void* data) {
  const std::lock_guard lock(blocks_mutex);
  blocks().erase(static_cast<const char*>(data));
}

void remember(const void* data, std::size_t bytes, int device) {
  const std::lock_guard lock(blocks_mutex);
  blocks()[static_cast<const char*>(data)] = {bytes, device};
}

/// What CUDA forbids while a stream of the program captures, unless the thread says otherwise.
bool may_allocate() { return current() >= 0 && mode == CU_STREAM_CAPTURE_MODE_RELAXED; }

cudaError_t allocate(void** data, std::size_t bytes, int device) {
  if (!may_allocate()) return cudaErrorStreamCaptureUnsupported;
  constexpr std::size_t kPage = 4096;
  if (posix_memalign(data, kPage, bytes > 0 ? bytes : 1) != 0) return cudaErrorMemoryAllocation;
  remember(*data, bytes, device);
  return cudaSuccess;
}

std::uint32_t& number_at(unsigned long long address) {
  return *reinterpret_cast<std::uint32_t*>(address);
}

/// cuStreamWaitValue32, by the only condition that the backend asks for: at least so much.
int wait_for_value(void* stream, unsigned long long address, unsigned least, unsigned /*flags*/) {
  if (!note(stream)) return 1;
  const std::atomic_ref number(number_at(address));
  while (fake_streams().wait &&
         static_cast<int>(number.load(std::memory_order_acquire) - least) < 0)
    std::this_thread::yield();
  return 0;
}

int write_value(void* stream, unsigned long long address, unsigned value, unsigned /*flags*/) {
  if (!note(stream)) return 1;
  std::atomic_ref(number_at(address)).store(value, std::memory_order_release);
  return 0;
}

/// Virtual memory: addresses that may not be touched until a piece is mapped and its owner allowed.
/// As CUDA, it takes whole granules only, at addresses that are reserved and free.
constexpr std::size_t kGranule = std::size_t{2} << 20;
std::map<CUdeviceptr, std::size_t>& reservations() {
  static auto& all = *new std::map<CUdeviceptr, std::size_t>;
  return all;
}

struct Piece {
  std::size_t bytes;
  int device;
  bool is_mapped = false;
};
bool is_refused(int& after) { return after >= 0 && after-- == 0; }

CUresult attribute(int* value, CUdevice_attribute wanted, CUdevice /*device*/) {
  if (wanted != CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  return *value = fake_memory().is_virtual ? 1 : 0, CUDA_SUCCESS;
}
CUresult granularity(std::size_t* bytes, const CUmemAllocationProp* /*memory*/,
                     CUmemAllocationGranularity_flags /*which*/) {
  return *bytes = kGranule, CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* address, std::size_t bytes, std::size_t /*alignment*/,
                 CUdeviceptr /*wish*/, unsigned long long /*flags*/) {
  if (bytes == 0 || bytes % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const data =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(data);
  const std::lock_guard lock(blocks_mutex);
  reservations()[*address] = bytes;
  return CUDA_SUCCESS;
}
CUresult free_addresses(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(blocks_mutex);
  const auto found = reservations().find(address);
  const auto mapped = blocks().lower_bound(reinterpret_cast<const char*>(address));
  if (found == reservations().end() || found->second != bytes ||
      (mapped != blocks().end() && mapped->first < reinterpret_cast<const char*>(address) + bytes))
    return CUDA_ERROR_INVALID_VALUE;
  reservations().erase(found);
  return munmap(reinterpret_cast<void*>(address), bytes) == 0 ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
}
/// Are the addresses reserved, and none of them mapped?
bool may_map(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(blocks_mutex);
  const auto after = reservations().upper_bound(address);
  if (after == reservations().begin()) return false;
  const auto& [begin, reserved] = *std::prev(after);
  if ((address - begin) % kGranule != 0 || address + bytes > begin + reserved) return false;
  const auto* const first = reinterpret_cast<const char*>(address);
  const auto next = blocks().lower_bound(first);
  if (next != blocks().end() && next->first < first + bytes) return false;
  if (next == blocks().begin()) return true;
  const auto& [before, block] = *std::prev(next);
  return before + block.bytes <= first;
}
CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const CUmemAllocationProp* memory, unsigned long long /*flags*/) {
  if (bytes == 0 || bytes % kGranule != 0 || memory->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      memory->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(blocks_mutex);
  std::size_t& used = fake_memory().used_bytes[memory->location.id];
  if (used + bytes > kMemoryBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  used += bytes;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Piece{bytes, memory->location.id});
  return CUDA_SUCCESS;
}
/// What is mapped lasts.
CUresult release(CUmemGenericAllocationHandle handle) {
  const auto* const piece = reinterpret_cast<Piece*>(handle);
  const std::lock_guard lock(blocks_mutex);
  if (!piece->is_mapped) fake_memory().used_bytes[piece->device] -= piece->bytes;
  delete piece;
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long /*flags*/) {
  Piece& piece = *reinterpret_cast<Piece*>(handle);
  if (is_refused(fake_memory().refused_map)) return CUDA_ERROR_NOT_SUPPORTED;
  if (bytes != piece.bytes || offset != 0 || !may_map(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  remember(reinterpret_cast<void*>(address), bytes, piece.device);
  piece.is_mapped = true;
  fake_memory().pieces.push_back(bytes);
  return CUDA_SUCCESS;
}
CUresult allow(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
               std::size_t count) {
  const std::lock_guard lock(blocks_mutex);
  if (is_refused(fake_memory().refused_access)) return CUDA_ERROR_NOT_SUPPORTED;
  const auto piece = blocks().find(reinterpret_cast<const char*>(address));
  if (piece == blocks().end() || piece->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  fake_memory().users.clear();
  for (std::size_t i = 0; i < count; ++i)
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      fake_memory().users.push_back(access[i].location.id);
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
/// One piece, as it was mapped.
CUresult unmap(CUdeviceptr address, std::size_t bytes) {
  auto* const data = reinterpret_cast<char*>(address);
  {
    const std::lock_guard lock(blocks_mutex);
    const auto piece = blocks().find(data);
    if (piece == blocks().end() || piece->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    fake_memory().used_bytes[piece->second.device] -= bytes;
    blocks().erase(piece);
  }
  mprotect(data, bytes, PROT_NONE);
  madvise(data, bytes, MADV_DONTNEED);
  return CUDA_SUCCESS;
}

struct DriverFunction {
  std::string_view name;
  void* function;
};
const DriverFunction driver_functions[] = {
    {"cuCtxGetCurrent", reinterpret_cast<void*>(&get_context)},
    {"cuCtxSetCurrent", reinterpret_cast<void*>(&set_context)},
    {"cuDeviceGet", reinterpret_cast<void*>(&device_of_number)},
    {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&retain)},
    {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(&give_back)},
    {"cuThreadExchangeStreamCaptureMode", reinterpret_cast<void*>(&exchange)},
    {"cuStreamWaitValue32", reinterpret_cast<void*>(&wait_for_value)},
    {"cuStreamWriteValue32", reinterpret_cast<void*>(&write_value)},
    {"cuDeviceGetAttribute", reinterpret_cast<void*>(&attribute)},
    {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
    {"cuMemAddressReserve", reinterpret_cast<void*>(&reserve)},
    {"cuMemAddressFree", reinterpret_cast<void*>(&free_addresses)},
    {"cuMemCreate", reinterpret_cast<void*>(&create)},
    {"cuMemRelease", reinterpret_cast<void*>(&release)},
    {"cuMemMap", reinterpret_cast<void*>(&map)},
    {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
    {"cuMemSetAccess", reinterpret_cast<void*>(&allow)},
};

}  // namespace

namespace fleet::test {

FakeMemory& fake_memory() {
  static FakeMemory memory;
  return memory;
}

FakeStreams& fake_streams() {
  static FakeStreams streams;
  return streams;
}

}  // namespace fleet::test

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*code*/) { return "an error of the fake CUDA"; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) { return *count = kDevices, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  return *device = bound == nullptr ? 0 : current(), cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  return current() >= 0 ? cudaSuccess : cudaErrorDeviceUninitialized;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return *can = device != peer && fake_memory().has_peers ? 1 : 0, cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int /*peer*/, unsigned /*flags*/) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  return *value = 9, cudaSuccess;  // a Hopper, if that is asked
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* /*pool*/, int /*device*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t /*pool*/, const cudaMemAccessDesc* /*accesses*/,
                                 std::size_t /*count*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "fake GPU %d", device);
  properties->totalGlobalMem = kMemoryBytes;
  properties->major = 9;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(blocks_mutex);
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  *free = kMemoryBytes - fake_memory().used_bytes[current()];
  return *total = kMemoryBytes, cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) { return allocate(data, bytes, current()); }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  return allocate(data, bytes, -1);
}
cudaError_t cudaFree(void* data) {
  if (!may_allocate()) return cudaErrorStreamCaptureUnsupported;
  forget(data);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaHostRegister(void* data, std::size_t bytes, unsigned /*flags*/) {
  if (!may_allocate()) return cudaErrorStreamCaptureUnsupported;
  return remember(data, bytes, -1), cudaSuccess;
}
cudaError_t cudaHostUnregister(void* data) {
  if (!may_allocate()) return cudaErrorStreamCaptureUnsupported;
  return forget(data), cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  *attributes = {};
  const auto* const address = static_cast<const char*>(data);
  const std::lock_guard lock(blocks_mutex);
  const auto after = blocks().upper_bound(address);
  if (after == blocks().begin()) return cudaSuccess;
  const auto& [begin, block] = *std::prev(after);
  if (address >= begin + block.bytes) return cudaSuccess;
  attributes->type = block.device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = block.device < 0 ? 0 : block.device;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  return in_stream(stream, [&] { std::memcpy(to, from, bytes); });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int /*target*/, const void* from, int /*source*/,
                                std::size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t bytes, std::size_t cols,
                              cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  return in_stream(stream, [&] {
    for (std::size_t col = 0; col < cols; ++col)
      std::memcpy(static_cast<char*>(to) + col * to_pitch,
                  static_cast<const char*>(from) + col * from_pitch, bytes);
  });
}
cudaError_t cudaMemset2DAsync(void* data, std::size_t pitch, int value, std::size_t bytes,
                              std::size_t cols, cudaStream_t stream) {
  return in_stream(stream, [&] {
    for (std::size_t col = 0; col < cols; ++col)
      std::memset(static_cast<char*>(data) + col * pitch, value, bytes);
  });
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return cudaMemset2DAsync(data, bytes, value, bytes, 1, stream);
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  return cudaMemsetAsync(data, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/,
                                         int /*priority*/) {
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  return *stream = reinterpret_cast<cudaStream_t>(new Ordered), cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  delete reinterpret_cast<Ordered*>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  if (breaks_capture(stream)) return cudaErrorStreamCaptureUnsupported;
  if (!is_default(stream))
    reinterpret_cast<Ordered*>(stream)->number.load(std::memory_order_acquire);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  return in_stream(stream, [&] { cudaEventSynchronize(event); });
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned /*flags*/) {
  return in_stream(stream, [&] { callback(stream, cudaSuccess, data); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const void* const captured = fake_streams().captured;
  if (captured != nullptr && is_default(stream)) return cudaErrorStreamCaptureImplicit;
  const bool is_captured = captured != nullptr && stream == captured;
  *status = is_captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  return *event = reinterpret_cast<cudaEvent_t>(new Ordered), cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  delete reinterpret_cast<Ordered*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!note(event)) return cudaErrorInvalidResourceHandle;
  return in_stream(stream, [] {});
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (bound == nullptr) return cudaErrorDeviceUninitialized;
  reinterpret_cast<Ordered*>(event)->number.load(std::memory_order_acquire);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*start*/, cudaEvent_t /*stop*/) {
  return *milliseconds = 1e-3F, cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t /*stream*/, cudaStreamCaptureMode /*mode*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaStreamEndCapture(cudaStream_t /*stream*/, cudaGraph_t* /*graph*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* /*instance*/, cudaGraph_t /*graph*/,
                                 unsigned long long /*flags*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t /*instance*/, cudaStream_t /*stream*/) {
  return cudaErrorNotSupported;
}
cudaError_t cudaGraphDestroy(cudaGraph_t /*graph*/) { return cudaErrorNotSupported; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t /*instance*/) { return cudaErrorNotSupported; }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* found) {
  *function = nullptr;
  for (const DriverFunction& known : driver_functions)
    if (known.name == name) *function = known.function;
  *found = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // extern "C"

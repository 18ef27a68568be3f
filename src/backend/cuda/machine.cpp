// SPDX-License-Identifier: BSD-3-Clause
// machine.cpp: lists the GPUs, and verifies copies between peers by data. It must not know plans.
#include "backend/cuda/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device_scope.hpp"
#include "backend/cuda/elementwise.hpp"

namespace fleet::cuda {
namespace {

// Stand-ins until measured: rates of PCIe 4 and a middling GPU, so that plans are sensible.
constexpr double kHostBytesPerS = 25e9;
constexpr double kPeerBytesPerS = 200e9;
constexpr double kPortBytesPerS = 1e15;
constexpr double kStagingBytesPerS = 30e9;
constexpr double kLatencyS = 8e-6;
constexpr double kLaunchS = 4e-6;
constexpr double kIssueS = 4e-6;
constexpr double kFlopsPerS = 5e12;
constexpr double kMemoryBytesPerS = 1e12;
constexpr std::int64_t kAnyBytes = std::int64_t{1} << 50;
constexpr std::int64_t kEdges[] = {512, 1024, 2048, 4096, 8192};
constexpr int kLanes = 8;  // paper 1, III-B
// cuBLAS's trsm takes 0.3 to 0.5 us for each row of the triangle, however narrow C is (H200). Below
// this order that is less than the launches of products by inverses take.
constexpr std::int64_t kInverseOrder = 512;
// The costs of triangles on one H200 (22 Nov 2026, doubles, cubes of 1024 to 8192): the inverses of
// all blocks of a tile together 64 us, and products 0.62 (8192) to 0.73 (2048) of whole ones.
// Beyond these inverses and half a product solves take 0.143, 0.144, 0.160 and 0.194 us a row at
// 1024, 2048, 4096 and 8192: within 1.3 % of a solve what its rows and its elements of C take here.
constexpr double kSolveRowS = 0.135e-6;
constexpr double kSolveElementS = 6e-12;
/// The least of what cuBLAS's trsm takes for a row: 150 us for 512 rows and 256 columns of C.
constexpr double kPlainRowS = 0.29e-6;
/// Panels of potrf, getrf and geqrf of doubles on an H100, beside nothing
/// (bench/results/panels-h100.json).
constexpr std::array<PanelTimes, kFactorings> kPanels{{{.column_s = 0.75e-6},
                                                       {.column_s = 2.3e-6, .element_s = 3e-11},
                                                       {.column_s = 4.6e-6, .element_s = 4.5e-11}}};
/// The same of potrf by cuSOLVER: orders of 128 to 1024 take 55, 107, 219 and 429 us, 8192 and
/// 16384 7.49 and 36.5 ms (bench/results/factors-h100.json). 16384 took 35.9 ms in strips of 1024,
/// and 39.9 ms as one panel.
constexpr PanelTimes kCholeskyByCusolver{.column_s = 0.39e-6, .element_s = 1.8e-11, .widest = 8192};
constexpr double kPrepareS = 64e-6;
constexpr double kTriangleShare = 0.65;

constexpr std::size_t kPatternWords = std::size_t{1} << 16;

/// Device memory for the time of a test, and a stream of its own: to wait for another one, or for
/// the device, breaks a capture of the program.
class Scratch {
 public:
  explicit Scratch(int ordinal) : ordinal_(ordinal) {
    const DeviceScope device(ordinal);
    check(cudaMalloc(&data_, kPatternWords * sizeof(unsigned)), "cudaMalloc");
    const cudaError_t code = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    if (code != cudaSuccess) works(cudaFree(data_));
    check(code, "cudaStreamCreate");
  }
  ~Scratch() {
    DeviceScope device;
    if (!device.try_use(ordinal_)) return;
    works(cudaStreamDestroy(stream_));
    works(cudaFree(data_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  int ordinal() const { return ordinal_; }
  void* data() const { return data_; }

  /// By the stream, to its end.
  cudaError_t copy(void* to, const void* from, std::size_t bytes) const {
    const cudaError_t code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_);
    return code != cudaSuccess ? code : cudaStreamSynchronize(stream_);
  }
  void clear() const {
    check(cudaMemsetAsync(data_, 0, kPatternWords * sizeof(unsigned), stream_), "cudaMemset");
    check(cudaStreamSynchronize(stream_), "cudaMemset");
  }

 private:
  int ordinal_;
  void* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

std::vector<unsigned> pattern(unsigned seed) {
  std::vector<unsigned> words(kPatternWords);
  unsigned word = 2654435761U * (seed + 1);
  for (unsigned& next : words) next = word = word * 1664525U + 1013904223U;
  return words;
}

/// Memory of cudaMallocAsync has peers of its own: switching peers on is not for its pools.
void open_pool(int owner, int reader) {
  cudaMemPool_t pool = nullptr;
  if (!works(cudaDeviceGetDefaultMemPool(&pool, owner))) return;
  cudaMemAccessDesc access{};
  access.location = {.type = cudaMemLocationTypeDevice, .id = reader};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  works(cudaMemPoolSetAccess(pool, &access, 1));
}

/// Lets the current device reach the other's memory, for as long as the process lives.
bool open_peer(int current, int other) {
  static std::mutex mutex;
  // Asking again counts as an error with CUDA's tools. Never freed: threads may outlive exit().
  static auto& open = *new std::set<std::pair<int, int>>;
  const std::lock_guard lock(mutex);
  if (open.contains({current, other})) return true;
  int allowed = 0;
  if (!works(cudaDeviceCanAccessPeer(&allowed, current, other)) || allowed == 0) return false;
  const cudaError_t enabled = cudaDeviceEnablePeerAccess(other, 0);
  if (enabled != cudaSuccess) cudaGetLastError();
  if (enabled != cudaSuccess && enabled != cudaErrorPeerAccessAlreadyEnabled) return false;
  open.insert({current, other});
  return true;
}

/// As runs do it: by a stream of the target or of the source (senders.hpp), not by cudaMemcpyPeer,
/// which may go another way.
Peer try_pair(const Scratch& source, const Scratch& target, unsigned seed) {
  const std::size_t bytes = kPatternWords * sizeof(unsigned);
  const std::vector<unsigned> sent = pattern(seed);
  DeviceScope device(source.ordinal());
  check(source.copy(source.data(), sent.data(), bytes), "a copy to a device");
  for (const Scratch* owner : {&target, &source}) {
    const Scratch& other = owner == &target ? source : target;
    device.use(target.ordinal());
    target.clear();
    device.use(owner->ordinal());
    if (!open_peer(owner->ordinal(), other.ordinal())) return Peer::refused;
    open_pool(other.ordinal(), owner->ordinal());
    if (!works(owner->copy(target.data(), source.data(), bytes))) return Peer::refused;
    std::vector<unsigned> got(kPatternWords);
    device.use(target.ordinal());
    check(target.copy(got.data(), target.data(), bytes), "a copy from a device");
    if (got != sent) return Peer::wrong;
  }
  return Peer::direct;
}

/// Its ports are those that are certain: memory of the host, and what leaves or enters one GPU for
/// others. Which links share PCIe, and in which directions, differs from node to node, so a probe
/// finds it out.
class Shape {
 public:
  Shape(const std::vector<int>& ordinals, const std::vector<std::vector<Peer>>& peers,
        CholeskyPanels cholesky)
      : panels_(kPanels) {
    if (cholesky == CholeskyPanels::cusolver)
      panels_[static_cast<std::size_t>(Factoring::potrf)] = kCholeskyByCusolver;
    machine_.name = std::to_string(ordinals.size()) + " GPUs";
    machine_.source = "assumed: not measured yet";
    machine_.issue_s = kIssueS;
    add_location("host");
    add_location("pageable");
    const PortId memory = port("host memory"), reads = port("host reads"),
                 writes = port("host writes");
    const PortId threads = port("copy threads");
    // They use host memory too, but not as a GPU does: one load of both fits neither, so a probe
    // adds that afterwards.
    link(kPageable, kHost, kStagingBytesPerS, {threads});
    link(kHost, kPageable, kStagingBytesPerS, {threads});
    std::vector<PortId> out, in;
    for (const int ordinal : ordinals) {
      const DeviceId device = add_device(ordinal);
      const std::string name = std::to_string(ordinal);
      out.push_back(port("out of " + name));
      in.push_back(port("into " + name));
      link(kHost, device, kHostBytesPerS, {memory, reads});
      link(device, kHost, kHostBytesPerS, {memory, writes});
    }
    for (std::size_t from = 0; from < ordinals.size(); ++from)
      for (std::size_t to = 0; to < ordinals.size(); ++to)
        if (from != to && peers[from][to] == Peer::direct)
          link(kFirstDevice + static_cast<DeviceId>(from), kFirstDevice + static_cast<DeviceId>(to),
               kPeerBytesPerS, {out[from], in[to]});
  }

  Machine take() { return std::move(machine_); }

 private:
  PortId port(const std::string& name) {
    machine_.ports.push_back({name, kPortBytesPerS});
    return static_cast<PortId>(machine_.ports.size() - 1);
  }

  void add_location(const std::string& name) {
    machine_.devices.push_back({.name = name,
                                .memory_bytes = kAnyBytes,
                                .lanes = 1,
                                .launch_s = kLaunchS,
                                .memory_bytes_per_s = kMemoryBytesPerS,
                                .kernels = {},
                                .ports = {}});
  }

  DeviceId add_device(int ordinal) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
    add_location(std::to_string(ordinal));
    Device& device = machine_.devices.back();
    device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
    device.lanes = kLanes;
    const DeviceScope scope(ordinal);
    if (can_invert_diagonal()) device.inverse_order = kInverseOrder;
    device.solve_row_s = kSolveRowS;
    device.plain_row_s = kPlainRowS;
    device.solve_element_s = kSolveElementS;
    device.prepare_s = kPrepareS;
    device.panels = panels_;
    device.triangle_share = kTriangleShare;
    for (const DataType type : kDataTypes)
      for (const std::int64_t edge : kEdges) device.kernels.push_back({type, edge, kFlopsPerS});
    return static_cast<DeviceId>(machine_.devices.size() - 1);
  }

  void link(DeviceId source, DeviceId target, double bytes_per_s,
            const std::vector<PortId>& ports) {
    Link link{source, target, kLatencyS, bytes_per_s, {}};
    for (const PortId taken : ports) link.ports.push_back({taken, 1});
    machine_.links.push_back(std::move(link));
  }

  std::array<PanelTimes, kFactorings> panels_;
  Machine machine_;
};

}  // namespace

int visible_devices(std::string& why) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess) {
    if (count == 0) why = "CUDA shows no device";
    return count;
  }
  cudaGetLastError();
  why = cudaGetErrorString(code);
  return 0;
}

std::vector<int> usable_devices(const std::vector<int>& ordinals) {
  std::vector<int> usable;
  for (const int ordinal : ordinals) {
    try {
      const Scratch scratch(ordinal);
      usable.push_back(ordinal);
    } catch (const Error&) {
      // Its context may be in use by others of this process.
    }
  }
  return usable;
}

void start_contexts(const std::vector<int>& ordinals) {
  const auto start = [](int ordinal) {
    retain_context(ordinal);
    DeviceScope device;
    if (device.try_use(ordinal)) works(cudaFree(nullptr));  // what the runtime has of it
  };
  std::vector<std::future<void>> starting;
  for (const int ordinal : ordinals) {
    try {
      starting.push_back(std::async(std::launch::async, start, ordinal));
    } catch (const std::system_error&) {  // no thread
      start(ordinal);
    }
  }
}

std::vector<std::vector<Peer>> connect(const std::vector<int>& ordinals) {
  const std::size_t count = ordinals.size();
  std::vector<std::unique_ptr<Scratch>> sources, targets;
  // Where there is no pair, nothing waits for the device, whose streams may be held.
  for (const int ordinal : count > 1 ? ordinals : std::vector<int>{}) {
    sources.push_back(std::make_unique<Scratch>(ordinal));
    targets.push_back(std::make_unique<Scratch>(ordinal));
  }
  std::vector<std::vector<Peer>> peers(count, std::vector<Peer>(count, Peer::direct));
  for (std::size_t from = 0; from < count; ++from)
    for (std::size_t to = 0; to < count; ++to)
      if (from != to)
        peers[from][to] =
            try_pair(*sources[from], *targets[to], static_cast<unsigned>(from * count + to));
  return peers;
}

Machine shape_of(const std::vector<int>& ordinals, const std::vector<std::vector<Peer>>& peers,
                 CholeskyPanels cholesky) {
  return Shape(ordinals, peers, cholesky).take();
}

int capability_of_device() {
  int device = 0, major = 0, minor = 0;
  const bool known =
      works(cudaGetDevice(&device)) &&
      works(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) &&
      works(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return known ? 10 * major + minor : 0;
}

std::vector<Finding> describe(const std::vector<int>& ordinals,
                              const std::vector<std::vector<Peer>>& peers) {
  using Verdict = Finding::Verdict;
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  std::vector<Finding> found = {
      {"CUDA", Verdict::ok,
       "driver for CUDA " + version(driver) + ", built with " + version(runtime), ""}};
  for (const int ordinal : ordinals) {
    const DeviceScope device(ordinal);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    const std::size_t free_mib = free >> 20, total_mib = total >> 20;
    const bool crowded = free < total / 2;
    found.push_back({"GPU " + std::to_string(ordinal), crowded ? Verdict::slow : Verdict::ok,
                     std::string(properties.name) + ", compute capability " +
                         std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                         ", " + std::to_string(free_mib) + " of " + std::to_string(total_mib) +
                         " MiB free",
                     crowded ? "other processes hold most of its memory" : ""});
  }
  for (std::size_t from = 0; from < ordinals.size(); ++from)
    for (std::size_t to = 0; to < ordinals.size(); ++to) {
      const std::string pair =
          "pair " + std::to_string(ordinals[from]) + "->" + std::to_string(ordinals[to]);
      if (peers[from][to] == Peer::wrong)
        found.push_back({pair, Verdict::broken, "direct copies arrive changed; they are not used",
                         "check the IOMMU and ACS settings of this node"});
      if (peers[from][to] == Peer::refused)
        found.push_back({pair, Verdict::slow, "the driver allows no direct copies",
                         "GPUs behind one switch, or NVLink, would allow them"});
    }
  return found;
}

std::string identity_of(const std::vector<int>& ordinals) {
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  std::string identity = "cuda " + std::to_string(runtime) + " driver " + std::to_string(driver);
  constexpr char kDigits[] = "0123456789abcdef";
  for (const int ordinal : ordinals) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
    identity += std::string(", ") + properties.name + " ";
    for (const char byte : properties.uuid.bytes) {
      identity += kDigits[(static_cast<unsigned char>(byte) >> 4) & 15U];
      identity += kDigits[static_cast<unsigned char>(byte) & 15U];
    }
  }
  return identity;
}

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// streams.hpp: streams by queue, and events that are used again. It must not know plans'
// tasks.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/blas.hpp"
#include "backend/cuda/factoring.hpp"
#include "plan/plan.hpp"

namespace fleet::cuda {

/// The lane, which no plan has, of what comes before the products of an update: these wait for its
/// kernels, and panels go before both.
constexpr int kRowsLane = -1;

/// Runs the tasks of one queue on a GPU.
struct Stream {
  Queue queue;
  int ordinal = 0;  ///< CUDA's number of the device that the stream belongs to
  cudaStream_t stream = nullptr;
  std::unique_ptr<CublasHandle> blas;  ///< made for the first product
  std::unique_ptr<CusolverHandle>
      solver;                       ///< made for the first panel of Cholesky, where it can be
  bool asked_for_solver = false;    ///< it is made once, or never
  Workspace workspace;              ///< of panels
  std::uint64_t known_kernels = 0;  ///< of its last launch
};

/// Streams stay: a queue of a later plan gets the one that its like had. They belong to the owner
/// of their queue (senders.hpp).
class Streams {
 public:
  /// `ordinals`: CUDA's numbers of the devices from kFirstDevice on.
  explicit Streams(std::vector<int> ordinals) : ordinals_(std::move(ordinals)) {}
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// From any thread; the stream is for the run that has its device. Throws Error(device_failed).
  Stream& of(const Queue& queue);

 private:
  std::vector<int> ordinals_;
  std::mutex mutex_;
  std::deque<Stream> streams_;  ///< they stay where they are
};

/// Events of each device, handed out anew for each run.
class Events {
 public:
  explicit Events(bool timed) : timed_(timed) {}
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  /// For a stream of the current device, which is `ordinal`. By one thread at a time for each
  /// device. Throws Error(device_failed).
  cudaEvent_t next(int ordinal);
  /// next() is for devices before `ordinals`.
  void make_room(std::size_t ordinals);
  /// All of them may be handed out again.
  void reset();

 private:
  struct Pool {
    std::vector<cudaEvent_t> events;
    std::size_t used = 0;
  };
  bool timed_;
  std::vector<Pool> pools_;  ///< by ordinal
};

}  // namespace fleet::cuda

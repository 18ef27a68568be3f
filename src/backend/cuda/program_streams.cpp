// SPDX-License-Identifier: BSD-3-Clause
// program_streams.cpp: what the runtime offers for streams of others. It must not know calls.
#include "backend/cuda/program_streams.hpp"

#include <cuda_runtime.h>

#include <memory>

#include "backend/cuda/check.hpp"
#include "backend/cuda/stream_memory.hpp"

namespace fleet::cuda {
namespace {

constexpr const char* kWhat = "the caller's stream";

/// To ask breaks no capture.
cudaStream_t open_stream(void* handle) {
  const auto stream = handle != nullptr ? static_cast<cudaStream_t>(handle) : cudaStreamLegacy;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(stream, &status);
  if (code != cudaErrorStreamCaptureImplicit) check(code, kWhat);
  if (!works(code))
    throw Error(Status::unsupported,
                "the default stream waits for a stream that is being captured");
  if (status != cudaStreamCaptureStatusNone)
    throw Error(Status::unsupported, "the caller's stream is being captured");
  return stream;
}

void CUDART_CB tell(cudaStream_t, cudaError_t code, void* told) {
  const std::unique_ptr<std::function<void(const char*)>> then(
      static_cast<std::function<void(const char*)>*>(told));
  (*then)(code == cudaSuccess ? nullptr : "the caller's stream has failed");
}

}  // namespace

void wait_for_program(void* stream) { check(cudaStreamSynchronize(open_stream(stream)), kWhat); }

void when_program_done(void* stream, const std::function<void(const char*)>& then) {
  auto told = std::make_unique<std::function<void(const char*)>>(then);
  // A host function would not be called after an error in the stream.
  check(cudaStreamAddCallback(open_stream(stream), tell, told.get(), 0), kWhat);
  static_cast<void>(told.release());
}

std::function<void()> hold_program(void* stream) { return hold_stream(open_stream(stream)); }

bool is_default_stream_free() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return !any_stream_is_held() && works(cudaStreamIsCapturing(cudaStreamLegacy, &status));
}

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// vectors.cpp: vectors are matrices of one row, so that their increments are leading
// dimensions. It must not know plans.
#include "backend/cuda/vectors.hpp"

#include <dlfcn.h>

#include <string>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "base/error.hpp"
#include "cpu/vectors.hpp"

namespace fleet::cuda {
namespace {

void require(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  throw Error(Status::device_failed,
              std::string(what) + ": cuBLAS status " + std::to_string(static_cast<int>(status)));
}

cublasOperation_t operation(Op op) {
  if (op == Op::none) return CUBLAS_OP_N;
  return op == Op::transpose ? CUBLAS_OP_T : CUBLAS_OP_C;
}

template <typename T>
const T* as(const View& view) {
  return static_cast<const T*>(view.data);
}

/// A scalar of the launch as cuBLAS wants it, in the host's memory.
template <typename T>
T scalar(std::complex<double> value) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(value.real());
  else
    return {static_cast<decltype(T::x)>(value.real()), static_cast<decltype(T::x)>(value.imag())};
}

template <typename T>
using Gemv = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, std::int64_t, std::int64_t,
                                const T*, const T*, std::int64_t, const T*, std::int64_t, const T*,
                                T*, std::int64_t);
template <typename T>
using Axpy = cublasStatus_t (*)(cublasHandle_t, std::int64_t, const T*, const T*, std::int64_t, T*,
                                std::int64_t);
template <typename T>
using Dot = cublasStatus_t (*)(cublasHandle_t, std::int64_t, const T*, std::int64_t, const T*,
                               std::int64_t, T*);

template <typename T>
void call_gemv(Gemv<T> gemv, cublasHandle_t handle, const Launch& launch) {
  const View& a = launch.a;
  const T alpha = scalar<T>(launch.alpha), beta = scalar<T>(launch.beta);
  require(
      gemv(handle, operation(launch.op_a), a.rows, a.cols, &alpha, as<T>(a), a.ld, as<T>(launch.b),
           increment_of(launch.b), &beta, static_cast<T*>(launch.c.data), increment_of(launch.c)),
      "cuBLAS's gemv");
}

/// beta is 1: no other comes with axpy.
template <typename T>
void call_axpy(Axpy<T> axpy, cublasHandle_t handle, const Launch& launch) {
  const T alpha = scalar<T>(launch.alpha);
  require(axpy(handle, launch.a.cols, &alpha, as<T>(launch.a), increment_of(launch.a),
               static_cast<T*>(launch.c.data), increment_of(launch.c)),
          "cuBLAS's axpy");
}

template <typename T>
void call_dot(Dot<T> dot, cublasHandle_t handle, const Launch& launch, void* result) {
  require(dot(handle, launch.a.cols, as<T>(launch.a), increment_of(launch.a), as<T>(launch.b),
              increment_of(launch.b), static_cast<T*>(result)),
          "cuBLAS's dot");
}

void gemv(const VectorFunctions& call, cublasHandle_t handle, const Launch& launch) {
  switch (launch.type.storage) {
    case Storage::f32:
      return call_gemv<float>(call.sgemv, handle, launch);
    case Storage::f64:
      return call_gemv<double>(call.dgemv, handle, launch);
    case Storage::c32:
      return call_gemv<cuComplex>(call.cgemv, handle, launch);
    default:
      return call_gemv<cuDoubleComplex>(call.zgemv, handle, launch);
  }
}

void axpy(const VectorFunctions& call, cublasHandle_t handle, const Launch& launch) {
  switch (launch.type.storage) {
    case Storage::f32:
      return call_axpy<float>(call.saxpy, handle, launch);
    case Storage::f64:
      return call_axpy<double>(call.daxpy, handle, launch);
    case Storage::c32:
      return call_axpy<cuComplex>(call.caxpy, handle, launch);
    default:
      return call_axpy<cuDoubleComplex>(call.zaxpy, handle, launch);
  }
}

/// Into the device's memory: the host would have to wait for what came back to it.
void dot(const VectorFunctions& call, cublasHandle_t handle, const Launch& launch, void* result) {
  const bool conjugates = launch.op_a == Op::conjugate;
  switch (launch.type.storage) {
    case Storage::f32:
      return call_dot<float>(call.sdot, handle, launch, result);
    case Storage::f64:
      return call_dot<double>(call.ddot, handle, launch, result);
    case Storage::c32:
      return call_dot<cuComplex>(conjugates ? call.cdotc : call.cdotu, handle, launch, result);
    default:
      return call_dot<cuDoubleComplex>(conjugates ? call.zdotc : call.zdotu, handle, launch,
                                       result);
  }
}

}  // namespace

VectorFunctions find_vector_functions(void* library) {
  VectorFunctions functions;
  const auto find = [library](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr)
      throw Error(Status::unsupported, std::string("cuBLAS lacks ") + name + ": it is too old");
  };
  find("cublasSgemv_v2_64", functions.sgemv);
  find("cublasDgemv_v2_64", functions.dgemv);
  find("cublasCgemv_v2_64", functions.cgemv);
  find("cublasZgemv_v2_64", functions.zgemv);
  find("cublasSaxpy_v2_64", functions.saxpy);
  find("cublasDaxpy_v2_64", functions.daxpy);
  find("cublasCaxpy_v2_64", functions.caxpy);
  find("cublasZaxpy_v2_64", functions.zaxpy);
  find("cublasSdot_v2_64", functions.sdot);
  find("cublasDdot_v2_64", functions.ddot);
  find("cublasCdotu_v2_64", functions.cdotu);
  find("cublasCdotc_v2_64", functions.cdotc);
  find("cublasZdotu_v2_64", functions.zdotu);
  find("cublasZdotc_v2_64", functions.zdotc);
  find("cublasSetPointerMode_v2", functions.set_pointer_mode);
  return functions;
}

void multiply_vectors(const VectorFunctions& functions, cublasHandle_t handle, const Launch& launch,
                      void* scratch, cudaStream_t stream) {
  if (launch.kernel == Kernel::gemv) return gemv(functions, handle, launch);
  if (launch.kernel == Kernel::axpy) return axpy(functions, handle, launch);
  require(functions.set_pointer_mode(handle, CUBLAS_POINTER_MODE_DEVICE), "cublasSetPointerMode");
  try {
    dot(functions, handle, launch, scratch);
  } catch (const Error&) {
    functions.set_pointer_mode(handle, CUBLAS_POINTER_MODE_HOST);  // others use the handle
    throw;
  }
  require(functions.set_pointer_mode(handle, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode");
  merge(launch, {.data = scratch, .rows = 1, .cols = 1, .ld = 1}, stream);
}

}  // namespace fleet::cuda

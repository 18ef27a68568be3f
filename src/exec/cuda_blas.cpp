// SPDX-License-Identifier: BSD-3-Clause
// cuda_blas.cpp: finds libcublas and calls it. It must not know plans.
#include "exec/cuda_blas.hpp"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <complex>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "exec/cuda_check.hpp"

namespace fleet::cuda {

struct CublasLibrary::Functions {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasGemmEx_64) gemm = nullptr;
};

namespace {

/// What NVIDIA recommends for Hopper; older ones need less, and it is little next to any tile.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr const char* kNames[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};

/// Folders of the wheels that carry cuBLAS, next to the package in which this library lies.
std::vector<std::string> wheel_folders() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&wheel_folders), &info) == 0) return {};
  std::error_code error;
  const auto library = std::filesystem::canonical(info.dli_fname, error);
  if (error) return {};
  // site-packages/fleetblas/lib/libfleetblas_cuda.so
  const auto packages = library.parent_path().parent_path().parent_path();
  std::vector<std::string> folders;
  for (const char* inside : {"nvidia/cu13/lib", "nvidia/cublas/lib"})
    if (std::filesystem::is_directory(packages / inside, error))
      folders.push_back((packages / inside).string());
  return folders;
}

std::string file_of(void* symbol) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "libcublas";
}

void* open_library() {
  // One that the program has loaded already: two of them would only cost memory.
  for (const char* name : kNames)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  std::vector<std::string> files;
  for (const std::string& folder : wheel_folders())
    for (const char* name : kNames) files.push_back(folder + "/" + name);
  for (const char* name : kNames) files.emplace_back(name);
  for (const char* name : kNames) files.push_back(std::string("/usr/local/cuda/lib64/") + name);
  for (const std::string& file : files)
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw Error(Status::unsupported,
              "cuBLAS (libcublas.so.12 or newer) was not found: neither loaded already, nor in the "
              "package nvidia-cublas, nor on the library path, nor in /usr/local/cuda");
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    throw Error(Status::unsupported, std::string("cuBLAS lacks ") + name + ": it is too old");
}

void require(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  throw Error(memory ? Status::no_memory : Status::device_failed,
              std::string(what) + ": cuBLAS status " + std::to_string(static_cast<int>(status)));
}

cublasOperation_t operation(Op op) {
  switch (op) {
    case Op::none:
      return CUBLAS_OP_N;
    case Op::transpose:
      return CUBLAS_OP_T;
    case Op::conjugate:
      return CUBLAS_OP_C;
  }
  return CUBLAS_OP_N;
}

struct Types {
  cudaDataType_t data;
  cublasComputeType_t compute;
};

Types types_of(DataType type) {
  switch (type) {
    case DataType::f32:
      return {CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DataType::f64:
      return {CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DataType::c32:
      return {CUDA_C_32F, CUBLAS_COMPUTE_32F};
    case DataType::c64:
      return {CUDA_C_64F, CUBLAS_COMPUTE_64F};
    case DataType::f16:
      return {CUDA_R_16F, CUBLAS_COMPUTE_32F};
    case DataType::bf16:
      return {CUDA_R_16BF, CUBLAS_COMPUTE_32F};
    case DataType::tf32:
      return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
  }
  throw Error(Status::internal, "a type that cuBLAS is not told of");
}

/// A scalar as the compute type wants it, in the host's memory.
struct Scalar {
  Scalar(DataType type, std::complex<double> value)
      : wide(value), narrow(value), is_narrow(type != DataType::f64 && type != DataType::c64) {}
  const void* get() const {
    return is_narrow ? static_cast<const void*>(&narrow) : static_cast<const void*>(&wide);
  }
  std::complex<double> wide;  // its real part comes first
  std::complex<float> narrow;
  bool is_narrow;
};

}  // namespace

std::shared_ptr<const CublasLibrary> CublasLibrary::load() {
  void* library = open_library();
  auto functions = std::make_shared<Functions>();
  find(library, "cublasCreate_v2", functions->create);
  find(library, "cublasDestroy_v2", functions->destroy);
  find(library, "cublasGetVersion_v2", functions->version);
  find(library, "cublasSetStream_v2", functions->set_stream);
  find(library, "cublasSetWorkspace_v2", functions->set_workspace);
  find(library, "cublasGemmEx_64", functions->gemm);
  std::shared_ptr<CublasLibrary> loaded(new CublasLibrary);
  loaded->functions_ = functions;
  loaded->file_ = file_of(reinterpret_cast<void*>(functions->gemm));
  // Without a handle: it only asks the library.
  if (functions->version(nullptr, &loaded->version_) != CUBLAS_STATUS_SUCCESS) loaded->version_ = 0;
  return loaded;
}

CublasHandle::CublasHandle(std::shared_ptr<const CublasLibrary> library, cudaStream_t stream)
    : library_(std::move(library)) {
  const auto& call = library_->functions();
  check(cudaMalloc(&workspace_, kWorkspaceBytes), "cuBLAS's workspace");
  cublasHandle_t handle = nullptr;
  try {
    require(call.create(&handle), "cublasCreate");
    handle_ = handle;
    require(call.set_stream(handle, stream), "cublasSetStream");
    require(call.set_workspace(handle, workspace_, kWorkspaceBytes), "cublasSetWorkspace");
  } catch (const Error&) {
    if (handle != nullptr) call.destroy(handle);
    works(cudaFree(workspace_));
    throw;
  }
}

CublasHandle::~CublasHandle() {
  library_->functions().destroy(static_cast<cublasHandle_t>(handle_));
  works(cudaFree(workspace_));
}

void CublasHandle::multiply(const Launch& launch) {
  const Types types = types_of(launch.type);
  const Scalar alpha(launch.type, launch.alpha), beta(launch.type, launch.beta);
  const std::int64_t k = launch.op_a == Op::none ? launch.a.cols : launch.a.rows;
  require(library_->functions().gemm(
              static_cast<cublasHandle_t>(handle_), operation(launch.op_a), operation(launch.op_b),
              launch.c.rows, launch.c.cols, k, alpha.get(), launch.a.data, types.data, launch.a.ld,
              launch.b.data, types.data, launch.b.ld, beta.get(), launch.c.data, types.data,
              launch.c.ld, types.compute, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
}

}  // namespace fleet::cuda

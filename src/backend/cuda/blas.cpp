// SPDX-License-Identifier: BSD-3-Clause
// blas.cpp: finds libcublas and calls it. It must not know plans.
#include "backend/cuda/blas.hpp"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <complex>
#include <string>
#include <type_traits>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/library.hpp"
#include "backend/cuda/machine.hpp"
#include "backend/cuda/vectors.hpp"
#include "base/error.hpp"
#include "base/options.hpp"
#include "cpu/gemm_pieces.hpp"
#include "cpu/triangles.hpp"

namespace fleet::cuda {
namespace {

/// symm or hemm of a type.
template <typename Element>
using Symm = cublasStatus_t (*)(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, std::int64_t,
                                std::int64_t, const Element*, const Element*, std::int64_t,
                                const Element*, std::int64_t, const Element*, Element*,
                                std::int64_t);

/// syrk or herk of a type. Factors of herk are real: a Scalar's real part comes first.
template <typename Factor, typename Element>
using Syrk = cublasStatus_t (*)(cublasHandle_t, cublasFillMode_t, cublasOperation_t, std::int64_t,
                                std::int64_t, const Factor*, const Element*, std::int64_t,
                                const Factor*, Element*, std::int64_t);

/// syrkx or herkx of a type, whose beta is real.
template <typename Factor, typename Element>
using Syrkx = cublasStatus_t (*)(cublasHandle_t, cublasFillMode_t, cublasOperation_t, std::int64_t,
                                 std::int64_t, const Element*, const Element*, std::int64_t,
                                 const Element*, std::int64_t, const Factor*, Element*,
                                 std::int64_t);

/// trmm of a type, out of place: in place cuBLAS is several times slower.
template <typename Element>
using Trmm = cublasStatus_t (*)(cublasHandle_t, cublasSideMode_t, cublasFillMode_t,
                                cublasOperation_t, cublasDiagType_t, std::int64_t, std::int64_t,
                                const Element*, const Element*, std::int64_t, const Element*,
                                std::int64_t, Element*, std::int64_t);

template <typename Element>
using Trsm = cublasStatus_t (*)(cublasHandle_t, cublasSideMode_t, cublasFillMode_t,
                                cublasOperation_t, cublasDiagType_t, std::int64_t, std::int64_t,
                                const Element*, const Element*, std::int64_t, Element*,
                                std::int64_t);

/// The routines with triangles of one type. Factors of a Hermitian matrix are real.
template <typename Element, typename Real>
struct TriangleFunctions {
  Symm<Element> symm = nullptr, hemm = nullptr;
  Syrk<Element, Element> syrk = nullptr;
  Syrk<Real, Element> herk = nullptr;
  Syrkx<Element, Element> syrkx = nullptr;
  Syrkx<Real, Element> herkx = nullptr;
  Trmm<Element> trmm = nullptr;
  Trsm<Element> trsm = nullptr;
};

}  // namespace

struct CublasLibrary::Functions {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  MathFunctions math;
  decltype(&cublasGemmEx_64) gemm = nullptr;
  TriangleFunctions<float, float> s;
  TriangleFunctions<double, double> d;
  TriangleFunctions<cuComplex, float> c;
  TriangleFunctions<cuDoubleComplex, double> z;
  VectorFunctions vectors;
};

namespace {

/// NVIDIA's recommendation for Hopper; older GPUs need less, and it is little next to any tile.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
/// Half of each leaf is computed in vain: with 512, an eighth of the whole of a tile of 2048. The
/// products of smaller leaves leave most of a GPU idle, and wait for each other.
constexpr std::int64_t kLeafEdge = 512;

void* open_cublas() {
  void* library = open_library({"libcublas.so.13", "libcublas.so.12", "libcublas.so"}, "cublas");
  if (library != nullptr) return library;
  throw Error(Status::unsupported,
              "cuBLAS (libcublas.so.12 or newer) was not found: neither loaded already, nor in the "
              "package nvidia-cublas, nor on the library path, nor in /usr/local/cuda");
}

template <typename Function>
void find(void* library, const std::string& name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name.c_str()));
  if (function == nullptr)
    throw Error(Status::unsupported, "cuBLAS lacks " + name + ": it is too old");
}

template <typename Element, typename Real>
void find_triangles(void* library, const std::string& letter,
                    TriangleFunctions<Element, Real>& functions) {
  const std::string prefix = "cublas" + letter;
  find(library, prefix + "symm_v2_64", functions.symm);
  find(library, prefix + "syrk_v2_64", functions.syrk);
  find(library, prefix + "syrkx_64", functions.syrkx);
  find(library, prefix + "trmm_v2_64", functions.trmm);
  find(library, prefix + "trsm_v2_64", functions.trsm);
  if constexpr (!std::is_same_v<Element, Real>) {
    find(library, prefix + "hemm_v2_64", functions.hemm);
    find(library, prefix + "herk_v2_64", functions.herk);
    find(library, prefix + "herkx_64", functions.herkx);
  }
}

/// Calls `use` with the functions of the type.
template <typename Use>
void with_triangles(const CublasLibrary::Functions& functions, Storage storage, Use use) {
  switch (storage) {
    case Storage::f32:
      return use(functions.s);
    case Storage::f64:
      return use(functions.d);
    case Storage::c32:
      return use(functions.c);
    case Storage::c64:
      return use(functions.z);
    default:
      throw Error(Status::internal, "BLAS defines no such routine for this type");
  }
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

/// A scalar as the compute type wants it, in the host's memory. cuBLAS's complex types are aligned.
struct Scalar {
  Scalar(Storage storage, std::complex<double> value)
      : wide(value), narrow(value), is_narrow(storage != Storage::f64 && storage != Storage::c64) {}
  const void* get() const {
    return is_narrow ? static_cast<const void*>(&narrow) : static_cast<const void*>(&wide);
  }
  alignas(16) std::complex<double> wide;  // its real part comes first
  alignas(8) std::complex<float> narrow;
  bool is_narrow;
};

cublasFillMode_t fill_mode(const View& triangle) {
  return triangle.fill == Fill::lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}

/// Whether one factor is transposed and the other one not, as cuBLAS offers for triangles of C.
/// Its syrkx and herkx compute one triangle, whether or not it makes a symmetric matrix. herkx
/// takes the diagonal as real: only the real part of each step of her2k counts, in the sum of the
/// steps as in each.
bool turns_one_factor(const Launch& launch) {
  if ((launch.op_a == Op::none) == (launch.op_b == Op::none)) return false;
  if (!is_complex(launch.type.storage)) return true;
  const Op turned = launch.op_a == Op::none ? launch.op_b : launch.op_a;
  if (!launch.hermitian) return turned == Op::transpose;
  return turned == Op::conjugate && launch.beta.imag() == 0;
}

/// The operation of an update of a triangle of C.
cublasOperation_t turning(const Launch& launch) {
  if (launch.op_a == Op::none) return CUBLAS_OP_N;
  return launch.hermitian ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/// Whether C is updated by a matrix times its own transpose, as by syrk and herk. cuBLAS relies on
/// the diagonals of such products and on herk's real scalars.
bool is_by_itself(const Launch& launch) {
  const View &a = launch.a, &b = launch.b;
  if (a.data != b.data || a.ld != b.ld || a.rows != b.rows || a.cols != b.cols) return false;
  return turns_one_factor(launch) && (!launch.hermitian || launch.alpha.imag() == 0);
}

template <typename Element>
void call_symm(Symm<Element> symm, cublasHandle_t handle, const Launch& launch) {
  const Scalar alpha(launch.type.storage, launch.alpha), beta(launch.type.storage, launch.beta);
  const bool on_left = launch.a.fill != Fill::full;
  const View& symmetric = on_left ? launch.a : launch.b;
  const View& other = on_left ? launch.b : launch.a;
  require(symm(handle, on_left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT, fill_mode(symmetric),
               launch.c.rows, launch.c.cols, static_cast<const Element*>(alpha.get()),
               static_cast<const Element*>(symmetric.data), symmetric.ld,
               static_cast<const Element*>(other.data), other.ld,
               static_cast<const Element*>(beta.get()), static_cast<Element*>(launch.c.data),
               launch.c.ld),
          launch.hermitian ? "cuBLAS's hemm" : "cuBLAS's symm");
}

template <typename Factor, typename Element>
void call_syrk(Syrk<Factor, Element> syrk, cublasHandle_t handle, const Launch& launch) {
  const Scalar alpha(launch.type.storage, launch.alpha), beta(launch.type.storage, launch.beta);
  require(syrk(handle, fill_mode(launch.c), turning(launch), launch.c.rows, depth_of(launch),
               static_cast<const Factor*>(alpha.get()), static_cast<const Element*>(launch.a.data),
               launch.a.ld, static_cast<const Factor*>(beta.get()),
               static_cast<Element*>(launch.c.data), launch.c.ld),
          launch.hermitian ? "cuBLAS's herk" : "cuBLAS's syrk");
}

template <typename Factor, typename Element>
void call_syrkx(Syrkx<Factor, Element> syrkx, cublasHandle_t handle, const Launch& launch) {
  const Scalar alpha(launch.type.storage, launch.alpha), beta(launch.type.storage, launch.beta);
  require(
      syrkx(handle, fill_mode(launch.c), turning(launch), launch.c.rows, depth_of(launch),
            static_cast<const Element*>(alpha.get()), static_cast<const Element*>(launch.a.data),
            launch.a.ld, static_cast<const Element*>(launch.b.data), launch.b.ld,
            static_cast<const Factor*>(beta.get()), static_cast<Element*>(launch.c.data),
            launch.c.ld),
      launch.hermitian ? "cuBLAS's herkx" : "cuBLAS's syrkx");
}

cublasDiagType_t diagonal(const Launch& launch) {
  return launch.diag == Diag::unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
}

template <typename Element>
void call_trmm(Trmm<Element> trmm, cublasHandle_t handle, const Launch& launch) {
  const Scalar alpha(launch.type.storage, launch.alpha);
  const bool on_left = launch.a.fill != Fill::full;
  const View& triangular = on_left ? launch.a : launch.b;
  const View& other = on_left ? launch.b : launch.a;
  require(trmm(handle, on_left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT, fill_mode(triangular),
               operation(on_left ? launch.op_a : launch.op_b), diagonal(launch), launch.c.rows,
               launch.c.cols, static_cast<const Element*>(alpha.get()),
               static_cast<const Element*>(triangular.data), triangular.ld,
               static_cast<const Element*>(other.data), other.ld,
               static_cast<Element*>(launch.c.data), launch.c.ld),
          "cuBLAS's trmm");
}

template <typename Element>
void call_trsm(Trsm<Element> trsm, cublasHandle_t handle, const Launch& launch) {
  const Scalar alpha(launch.type.storage, launch.beta);
  require(trsm(handle, launch.side == Side::left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT,
               fill_mode(launch.a), operation(launch.op_a), diagonal(launch), launch.c.rows,
               launch.c.cols, static_cast<const Element*>(alpha.get()),
               static_cast<const Element*>(launch.a.data), launch.a.ld,
               static_cast<Element*>(launch.c.data), launch.c.ld),
          "cuBLAS's trsm");
}

}  // namespace

std::shared_ptr<const CublasLibrary> CublasLibrary::load() {
  void* library = open_cublas();
  auto functions = std::make_shared<Functions>();
  find(library, "cublasCreate_v2", functions->create);
  find(library, "cublasDestroy_v2", functions->destroy);
  find(library, "cublasGetVersion_v2", functions->version);
  find(library, "cublasSetStream_v2", functions->set_stream);
  find(library, "cublasSetWorkspace_v2", functions->set_workspace);
  functions->math = find_math_functions(library);
  find(library, "cublasGemmEx_64", functions->gemm);
  find_triangles(library, "S", functions->s);
  find_triangles(library, "D", functions->d);
  find_triangles(library, "C", functions->c);
  find_triangles(library, "Z", functions->z);
  functions->vectors = find_vector_functions(library);
  std::shared_ptr<CublasLibrary> loaded(new CublasLibrary);
  loaded->functions_ = functions;
  loaded->file_ = file_of(reinterpret_cast<void*>(functions->gemm), "libcublas");
  // Without a handle: it only asks the library.
  if (functions->version(nullptr, &loaded->version_) != CUBLAS_STATUS_SUCCESS) loaded->version_ = 0;
  return loaded;
}

CublasHandle::CublasHandle(std::shared_ptr<const CublasLibrary> library, cudaStream_t stream)
    : library_(std::move(library)),
      stream_(stream),
      native_(library_->functions().math, environment_changes_cublas(), capability_of_device()) {
  const auto& call = library_->functions();
  check(cudaMalloc(&workspace_, kWorkspaceBytes + kScratchBytes), "cuBLAS's workspace");
  scratch_ = static_cast<char*>(workspace_) + kWorkspaceBytes;
  cublasHandle_t handle = nullptr;
  try {
    require(call.create(&handle), "cublasCreate");
    handle_ = handle;
    use(stream);
    require(native_.set_up(handle), "cublasSetEmulationStrategy");
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

void CublasHandle::use(cudaStream_t stream) {
  const auto& call = library_->functions();
  const auto handle = static_cast<cublasHandle_t>(handle_);
  require(call.set_stream(handle, stream), "cublasSetStream");
  stream_ = stream;
  // The stream takes the handle's own workspace away.
  require(call.set_workspace(handle, workspace_, kWorkspaceBytes), "cublasSetWorkspace");
}

void CublasHandle::load_kernels(DataType type) {
  constexpr std::int64_t kEdge = 64;
  const auto square = [&](std::int64_t at) {
    void* const data = static_cast<char*>(scratch_) + at * kEdge * kEdge * bytes_of(type.storage);
    return View{.data = data, .rows = kEdge, .cols = kEdge, .ld = kEdge};
  };
  multiply({.type = type, .alpha = 1, .a = square(0), .b = square(1), .c = square(2)});
}

bool CublasHandle::put(const Launch& launch) {
  switch (launch.kernel) {
    case Kernel::multiply:
    case Kernel::gemv:
    case Kernel::axpy:
    case Kernel::dot:
      multiply(launch);
      return true;
    case Kernel::solve:
      solve(launch);
      return true;
    case Kernel::prepare:
      prepare(launch);
      return true;
    default:
      return false;
  }
}

void CublasHandle::set_mode(DataType type) {
  require(native_.set_mode(static_cast<cublasHandle_t>(handle_), type), "cublasSetMathMode");
}

void CublasHandle::multiply(const Launch& launch) {
  set_mode(launch.type);
  if (has_vectors(launch.kernel))
    return multiply_vectors(library_->functions().vectors, static_cast<cublasHandle_t>(handle_),
                            launch, scratch_, stream_);
  if (launch.triangular && (launch.a.data == launch.c.data || launch.b.data == launch.c.data))
    return multiply_in_place(launch);
  if (launch.a.fill != Fill::full || launch.b.fill != Fill::full)
    return launch.triangular ? multiply_by_triangular(launch) : multiply_by_symmetric(launch);
  if (launch.c.fill == Fill::full) return multiply_plainly(launch);
  if (is_by_itself(launch)) return update_by_itself(launch);
  if (turns_one_factor(launch)) return update_by_two(launch);
  fleet::multiply(launch, {.leaf_edge = kLeafEdge,
                           .plain = [this](const Launch& plain) { multiply_plainly(plain); },
                           .leaf = [this](const Launch& leaf) { multiply_leaf(leaf); }});
}

void CublasHandle::multiply_plainly(const Launch& launch) {
  const cudaDataType_t stored = stored_as(launch.type.storage);
  const Scalar alpha(launch.type.storage, launch.alpha), beta(launch.type.storage, launch.beta);
  require(library_->functions().gemm(
              static_cast<cublasHandle_t>(handle_), operation(launch.op_a), operation(launch.op_b),
              launch.c.rows, launch.c.cols, depth_of(launch), alpha.get(), launch.a.data, stored,
              launch.a.ld, launch.b.data, stored, launch.b.ld, beta.get(), launch.c.data, stored,
              launch.c.ld, native_.compute_type(launch.type), CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
}

void CublasHandle::add_product_of_halves(float alpha, const View& a, const View& b, const View& c) {
  const float beta = 1;
  require(library_->functions().gemm(static_cast<cublasHandle_t>(handle_), CUBLAS_OP_N, CUBLAS_OP_N,
                                     c.rows, c.cols, a.cols, &alpha, a.data, CUDA_R_16F, a.ld,
                                     b.data, CUDA_R_16F, b.ld, &beta, c.data, CUDA_R_32F, c.ld,
                                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx of halves");
}

void CublasHandle::multiply_by_symmetric(const Launch& launch) {
  if (launch.op_a != Op::none || launch.op_b != Op::none || launch.c.fill != Fill::full)
    throw Error(Status::internal, "cuBLAS has no such product with a symmetric factor");
  const auto handle = static_cast<cublasHandle_t>(handle_);
  with_triangles(library_->functions(), launch.type.storage, [&](const auto& call) {
    call_symm(launch.hermitian && call.hemm != nullptr ? call.hemm : call.symm, handle, launch);
  });
}

void CublasHandle::multiply_by_triangular(const Launch& launch) {
  const auto handle = static_cast<cublasHandle_t>(handle_);
  with_triangles(library_->functions(), launch.type.storage,
                 [&](const auto& call) { call_trmm(call.trmm, handle, launch); });
}

void CublasHandle::solve_by_cublas(const Launch& launch) {
  const auto handle = static_cast<cublasHandle_t>(handle_);
  set_mode(launch.type);
  with_triangles(library_->functions(), launch.type.storage,
                 [&](const auto& call) { call_trsm(call.trsm, handle, launch); });
}

void CublasHandle::update_by_itself(const Launch& launch) {
  const auto handle = static_cast<cublasHandle_t>(handle_);
  with_triangles(library_->functions(), launch.type.storage, [&](const auto& call) {
    if (launch.hermitian && call.herk != nullptr) return call_syrk(call.herk, handle, launch);
    call_syrk(call.syrk, handle, launch);
  });
}

void CublasHandle::update_by_two(const Launch& launch) {
  const auto handle = static_cast<cublasHandle_t>(handle_);
  with_triangles(library_->functions(), launch.type.storage, [&](const auto& call) {
    if (launch.hermitian && call.herkx != nullptr) return call_syrkx(call.herkx, handle, launch);
    call_syrkx(call.syrkx, handle, launch);
  });
}

/// In the order of the stream: the next leaf finds the scratch free.
void CublasHandle::multiply_leaf(const Launch& launch) {
  Launch whole = launch;
  whole.c = {.data = scratch_, .rows = launch.c.rows, .cols = launch.c.cols, .ld = launch.c.rows};
  whole.beta = 0.0;
  multiply_plainly(whole);
  merge(launch, whole.c, stream_);
}

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// elementwise.cu: add, scale, merge, copies that no engine does, inverses. It must not know plans.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <complex>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"

namespace fleet::cuda {
namespace {

constexpr int kThreads = 256;
/// Enough to keep the memory of the largest GPUs busy; each thread takes rows in strides.
constexpr std::int64_t kMostRowBlocks = 64;
constexpr std::int64_t kMostColumnBlocks = 65535;
/// Blocks of a copy: as many as keep a link busy. Threads that wait take the place of products.
constexpr std::int64_t kMostCopyBlocks = 64;

template <typename Real>
struct Complex {
  Real re, im;
};

__device__ float times(float beta, float x) { return beta * x; }
__device__ double times(double beta, double x) { return beta * x; }
template <typename Real>
__device__ Complex<Real> times(Complex<Real> beta, Complex<Real> x) {
  return {beta.re * x.re - beta.im * x.im, beta.re * x.im + beta.im * x.re};
}
__device__ float plus(float a, float b) { return a + b; }
__device__ double plus(double a, double b) { return a + b; }
template <typename Real>
__device__ Complex<Real> plus(Complex<Real> a, Complex<Real> b) {
  return {a.re + b.re, a.im + b.im};
}
__device__ float negative(float x) { return -x; }
__device__ double negative(double x) { return -x; }
template <typename Real>
__device__ Complex<Real> negative(Complex<Real> x) {
  return {-x.re, -x.im};
}
__device__ float reciprocal(float x) { return 1 / x; }
__device__ double reciprocal(double x) { return 1 / x; }
/// Without squares, which may be larger than all numbers.
template <typename Real>
__device__ Complex<Real> reciprocal(Complex<Real> x) {
  if (fabs(x.re) >= fabs(x.im)) {
    const Real ratio = x.im / x.re, scale = 1 / (x.re + x.im * ratio);
    return {scale, -ratio * scale};
  }
  const Real ratio = x.re / x.im, scale = 1 / (x.re * ratio + x.im);
  return {ratio * scale, -scale};
}
__device__ float real_part(float x) { return x; }
__device__ double real_part(double x) { return x; }
template <typename Real>
__device__ Complex<Real> real_part(Complex<Real> x) {
  return {x.re, 0};
}

/// The elements of C that count, and whether only the real parts of those on its diagonal do.
struct Region {
  std::int64_t rows, cols;
  Fill fill;
  bool real_diagonal;
};

Region region_of(const Launch& launch) {
  const View& c = launch.c;
  return {c.rows, c.cols, c.fill, launch.hermitian && c.fill != Fill::full};
}

// The operations on one element of C. Element is its type in memory, Wide the one of arithmetic;
// `real`: it is on the diagonal of a Hermitian matrix.

template <typename Element, typename Wide>
struct Add {
  Wide beta;
  const Element* a;
  std::int64_t lda;
  Element* c;
  std::int64_t ldc;
  __device__ void operator()(std::int64_t row, std::int64_t col, bool real) const {
    const Wide other = Wide(a[row + col * lda]), mine = Wide(c[row + col * ldc]);
    c[row + col * ldc] =
        Element(real ? plus(real_part(mine), real_part(times(beta, real_part(other))))
                     : plus(mine, times(beta, other)));
  }
};

template <typename Element, typename Wide>
struct Scale {
  Wide beta;
  bool clear;
  Element* c;
  std::int64_t ldc;
  __device__ void operator()(std::int64_t row, std::int64_t col, bool real) const {
    Element& to = c[row + col * ldc];
    if (clear) {
      to = Element{};
    } else {
      const Wide mine = Wide(to);
      to = Element(real ? real_part(times(beta, real_part(mine))) : times(beta, mine));
    }
  }
};

template <typename Element, typename Wide>
struct Merge {
  Wide beta;
  bool overwrite;
  const Element* sums;
  std::int64_t ld;
  Element* c;
  std::int64_t ldc;
  __device__ void operator()(std::int64_t row, std::int64_t col, bool real) const {
    Element& to = c[row + col * ldc];
    Wide sum = Wide(sums[row + col * ld]);
    if (!overwrite) {
      const Wide mine = Wide(to);
      sum = plus(sum, times(beta, real ? real_part(mine) : mine));
    }
    to = Element(real ? real_part(sum) : sum);
  }
};

template <typename Word>
struct Copy {
  const Word* from;
  std::int64_t from_ld;
  Word* to;
  std::int64_t to_ld;
  __device__ void operator()(std::int64_t row, std::int64_t col, bool) const {
    to[row + col * to_ld] = from[row + col * from_ld];
  }
};

template <typename Each>
__global__ void each_element(Region region, Each each) {
  for (std::int64_t col = blockIdx.y; col < region.cols; col += gridDim.y) {
    const std::int64_t begin = region.fill == Fill::lower ? min(col, region.rows) : 0;
    const std::int64_t end = region.fill == Fill::upper ? min(col + 1, region.rows) : region.rows;
    for (std::int64_t row = begin + blockIdx.x * std::int64_t{kThreads} + threadIdx.x; row < end;
         row += gridDim.x * std::int64_t{kThreads})
      each(row, col, region.real_diagonal && row == col);
  }
}

template <typename Each>
void for_each_element(const Region& region, Each each, cudaStream_t stream, const char* what) {
  if (region.rows == 0 || region.cols == 0) return;
  const std::int64_t row_blocks = (region.rows + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(std::min(row_blocks, kMostRowBlocks)),
                  static_cast<unsigned>(std::min(region.cols, kMostColumnBlocks)));
  each_element<<<grid, kThreads, 0, stream>>>(region, each);
  check(cudaGetLastError(), what);
}

/// Calls `work` with a zero of the element type as it is stored, and with beta as it is computed
/// with.
template <typename Work>
void with_types(const Launch& launch, Work work) {
  const double re = launch.beta.real(), im = launch.beta.imag();
  const auto narrow = static_cast<float>(re);
  switch (launch.type.storage) {
    case Storage::f64:
      return work(double{}, re);
    case Storage::f32:
      return work(float{}, narrow);
    case Storage::c64:
      return work(Complex<double>{}, Complex<double>{re, im});
    case Storage::c32:
      return work(Complex<float>{}, Complex<float>{narrow, static_cast<float>(im)});
    case Storage::f16:
      return work(__half{}, narrow);
    case Storage::bf16:
      return work(__nv_bfloat16{}, narrow);
  }
}

/// The places of the squares in words, and leading dimensions in words.
template <typename Word>
struct SquareWords {
  const Word* from;
  std::int64_t from_ld;
  Word* to;
  std::int64_t to_ld;
  std::int64_t first, last, edge;
  std::int64_t element;
  bool lower;
};

template <typename Word>
__global__ void each_square(SquareWords<Word> squares) {
  for (std::int64_t col = squares.first + blockIdx.x; col < squares.last; col += gridDim.x) {
    const std::int64_t square = squares.first + (col - squares.first) / squares.edge * squares.edge;
    const std::int64_t begin = squares.lower ? col : square;
    const std::int64_t end = squares.lower ? min(square + squares.edge, squares.last) : col + 1;
    for (std::int64_t word = begin * squares.element + threadIdx.x; word < end * squares.element;
         word += kThreads)
      squares.to[word + col * squares.to_ld] = squares.from[word + col * squares.from_ld];
  }
}

/// The blocks on the diagonal of a triangle, and their inverses.
template <typename T>
struct Blocks {
  static constexpr Storage kStorage = sizeof(T) == 4    ? Storage::f32
                                      : sizeof(T) == 16 ? Storage::c64
                                                        : Storage::f64;
  static constexpr int kEdge = static_cast<int>(inverse_block(kStorage));
  /// One triangle by rows, as the kernel keeps it.
  static constexpr std::size_t kPackedBytes = kEdge * (kEdge + 1) / 2 * sizeof(T);
  const T* a;
  std::int64_t ld, order;
  T* inverses;
  bool lower, unit;
};

constexpr int kWarp = 32, kWarps = 32;

/// A block of threads inverts a block of the triangle, an upper one turned round. With row i of the
/// inverse as y(i, .) / l(i, i), y begins as the identity, and each row k that is final is taken
/// l(i, k) / l(k, k) times from every later row i. So y(i, j) may have the place of l(i, j), which
/// was needed for the last time at k = j; the diagonal has reciprocals from the beginning. A row
/// has one warp.
template <typename T>
__global__ void __launch_bounds__(kWarp* kWarps) invert_blocks(Blocks<T> blocks) {
  extern __shared__ double packed[];
  const auto at = [](int row, int col) -> T& {
    return reinterpret_cast<T*>(packed)[row * (row + 1) / 2 + col];
  };
  constexpr int kEdge = Blocks<T>::kEdge;
  const std::int64_t begin = blockIdx.x * std::int64_t{kEdge};
  const int n = static_cast<int>(min(std::int64_t{kEdge}, blocks.order - begin));
  const int lane = threadIdx.x, warp = threadIdx.y;
  const T* block = blocks.a + begin * (blocks.ld + 1);
  for (int col = warp; col < n; col += kWarps)
    for (int row = lane; row < n; row += kWarp) {
      if (blocks.lower ? row < col : row > col) continue;
      if (row == col)
        at(row, row) = blocks.unit ? T{1} : reciprocal(block[row + row * blocks.ld]);
      else
        at(max(row, col), min(row, col)) = block[row + col * blocks.ld];
    }
  __syncthreads();
  for (int k = 0; k + 1 < n; ++k) {
    const int later = k + 1;
    for (int i = later + (warp + kWarps - later % kWarps) % kWarps; i < n; i += kWarps) {
      const T factor = negative(times(at(i, k), at(k, k)));
      __syncwarp();
      for (int j = lane; j <= k; j += kWarp)
        at(i, j) = j < k ? plus(at(i, j), times(factor, at(k, j))) : factor;
    }
    __syncthreads();
  }
  T* inverse = blocks.inverses + blockIdx.x * std::int64_t{kEdge} * kEdge;
  for (int col = warp; col < n; col += kWarps)
    for (int row = lane; row < n; row += kWarp) {
      T value{};
      if (row == col)
        value = at(row, row);
      else if (blocks.lower == (row > col))
        value = times(at(max(row, col), min(row, col)), at(max(row, col), max(row, col)));
      inverse[row + col * kEdge] = value;
    }
}

template <typename T>
bool has_room_for_blocks() {
  if (cudaFuncSetAttribute(invert_blocks<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           Blocks<T>::kPackedBytes) == cudaSuccess)
    return true;
  cudaGetLastError();
  return false;
}

}  // namespace

void add_scaled(const Launch& launch, cudaStream_t stream) {
  with_types(launch, [&](auto zero, auto beta) {
    using Element = decltype(zero);
    const auto* a = static_cast<const Element*>(launch.a.data);
    auto* c = static_cast<Element*>(launch.c.data);
    const Add<Element, decltype(beta)> each{beta, a, launch.a.ld, c, launch.c.ld};
    for_each_element(region_of(launch), each, stream, "add");
  });
}

void scale(const Launch& launch, cudaStream_t stream) {
  with_types(launch, [&](auto zero, auto beta) {
    using Element = decltype(zero);
    const bool clear = launch.beta == std::complex<double>(0);
    auto* c = static_cast<Element*>(launch.c.data);
    const Scale<Element, decltype(beta)> each{beta, clear, c, launch.c.ld};
    for_each_element(region_of(launch), each, stream, "scale");
  });
}

void merge(const Launch& launch, const View& sums, cudaStream_t stream) {
  const bool overwrite = launch.beta == std::complex<double>(0);
  with_types(launch, [&](auto zero, auto beta) {
    using Element = decltype(zero);
    using Wide = decltype(beta);
    for_each_element(
        region_of(launch),
        Merge<Element, Wide>{beta, overwrite, static_cast<const Element*>(sums.data), sums.ld,
                             static_cast<Element*>(launch.c.data), launch.c.ld},
        stream, "merge");
  });
}

void copy(const View& from, const View& to, Storage storage, cudaStream_t stream) {
  const auto in_words = [&]<typename Part>(Part) {
    const std::int64_t words = bytes_of(storage) / std::int64_t{sizeof(Part)};
    for_each_element({from.rows * words, from.cols, Fill::full, false},
                     Copy<Part>{static_cast<const Part*>(from.data), from.ld * words,
                                static_cast<Part*>(to.data), to.ld * words},
                     stream, "a copy within a GPU");
  };
  // As wide as elements are sure to be aligned.
  storage == Storage::f64 || storage == Storage::c64 ? in_words(double{}) : in_words(float{});
}

void copy_squares(const DiagonalSquares& squares, cudaStream_t stream) {
  const std::int64_t cols = squares.last - squares.first;
  if (cols <= 0) return;
  const auto in_words = [&]<typename Word>(Word) {
    constexpr auto kWordBytes = static_cast<std::int64_t>(sizeof(Word));
    if (squares.element_bytes % kWordBytes != 0)
      throw Error(Status::internal, "a triangle of elements that are no whole words");
    const std::int64_t element = squares.element_bytes / kWordBytes;
    const SquareWords<Word> words{.from = static_cast<const Word*>(squares.from.data),
                                  .from_ld = squares.from.ld * element,
                                  .to = static_cast<Word*>(squares.to.data),
                                  .to_ld = squares.to.ld * element,
                                  .first = squares.first,
                                  .last = squares.last,
                                  .edge = squares.edge,
                                  .element = element,
                                  .lower = squares.from.fill == Fill::lower};
    each_square<<<static_cast<unsigned>(std::min(cols, kMostCopyBlocks)), kThreads, 0, stream>>>(
        words);
  };
  word_bytes(squares) == sizeof(std::uint64_t) ? in_words(std::uint64_t{})
                                               : in_words(std::uint32_t{});
  check(cudaGetLastError(), "a copy of a triangle");
}

bool can_invert_diagonal() {
  return has_room_for_blocks<float>() && has_room_for_blocks<double>() &&
         has_room_for_blocks<Complex<float>>() && has_room_for_blocks<Complex<double>>();
}

void invert_diagonal(const Launch& launch, void* inverses, cudaStream_t stream) {
  const View& a = launch.a;
  if (a.rows == 0) return;
  with_types(launch, [&](auto zero, auto) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2) {
      throw Error(Status::internal, "BLAS defines no solution for this type");
    } else {
      const Blocks<T> blocks{.a = static_cast<const T*>(a.data),
                             .ld = a.ld,
                             .order = a.rows,
                             .inverses = static_cast<T*>(inverses),
                             .lower = a.fill == Fill::lower,
                             .unit = launch.diag == Diag::unit};
      const auto count = static_cast<unsigned>((a.rows + Blocks<T>::kEdge - 1) / Blocks<T>::kEdge);
      invert_blocks<<<count, dim3(kWarp, kWarps), Blocks<T>::kPackedBytes, stream>>>(blocks);
      check(cudaGetLastError(), "the inverses of a triangle's blocks");
    }
  });
}

}  // namespace fleet::cuda

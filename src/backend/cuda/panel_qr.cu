// SPDX-License-Identifier: BSD-3-Clause
// panel_qr.cu: narrow columns factored by Householder reflectors by one grid, which keeps them in
// its registers, and the factor of their block. It knows no recursion.
#include <algorithm>
#include <type_traits>

#include "backend/cuda/check.hpp"
#include "backend/cuda/mail.cuh"
#include "backend/cuda/panel_grid.cuh"
#include "backend/cuda/panel_kernels.hpp"

namespace fleet::cuda {
namespace {

/// Sums are in double precision, in which squares of floats are neither too large nor too small.
template <typename T>
struct WideOf {
  using Type = double;
};
template <typename R>
struct WideOf<Complex<R>> {
  using Type = Complex<double>;
};
template <typename T>
using Wide = typename WideOf<T>::Type;

template <typename To, typename From>
__device__ To converted(From x) {
  return element_of<To>(static_cast<RealOf<To>>(real_of(x)),
                        static_cast<RealOf<To>>(imaginary_of(x)));
}

__device__ double from_other(double x, int distance) { return __shfl_xor_sync(~0u, x, distance); }
__device__ Complex<double> from_other(Complex<double> x, int distance) {
  return {from_other(x.re, distance), from_other(x.im, distance)};
}

__device__ double scaled(double x, int exponent) { return scalbn(x, exponent); }
__device__ float scaled(float x, int exponent) { return scalbnf(x, exponent); }
template <typename R>
__device__ Complex<R> scaled(Complex<R> x, int exponent) {
  return {scaled(x.re, exponent), scaled(x.im, exponent)};
}

template <typename T>
struct Columns {
  T *a, *r, *t, *tau;
  std::int64_t lda, ldr, ldt;
  int rows, cols;
  MailLine* mail;
  std::uint32_t tag;
};

/// A reflector, and what its application subtracts from each column.
template <typename T, int Width>
struct Reflector {
  T beta, tau, scale;  ///< v is one, and below it the column times `scale`
  T weights[Width];
  T overlaps[Width];  ///< with the reflectors before it
};

template <typename T, int Width>
struct Shared {
  Wide<T> parts[kPanelThreads];
  Reflector<T, Width> now;
  T factor[Width * Width];  ///< t, which block 0 makes
  double largest[kPanelWarps];
  int exponent;
};

template <int Rows>
__device__ int row_of(int r) {
  return (static_cast<int>(blockIdx.x) * Rows + r) * kPanelThreads + static_cast<int>(threadIdx.x);
}

/// So many sums at a time: more take fewer steps, and registers.
template <int Width>
constexpr int kGroup = Width < 8 ? Width : 8;

/// The sums over a warp's lanes of `Count` values each: value i ends in the lanes that have i in
/// their upper bits.
template <typename W, int Count>
__device__ W sums_of_lanes(W (&values)[Count]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int size = Count / 2, distance = 16; size > 0; size /= 2, distance /= 2) {
    const bool is_upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const W kept = is_upper ? values[i + size] : values[i];
      const W given = is_upper ? values[i] : values[i + size];
      values[i] = sum(kept, from_other(given, distance));
    }
  }
  W total = values[0];
#pragma unroll
  for (int distance = 16 / Count; distance > 0; distance /= 2)
    total = sum(total, from_other(total, distance));
  return total;
}

/// This block's sums over the rows below `step` of the conjugate of the first element times each,
/// sent to all blocks. Two barriers of the block.
template <typename T, int Width, int Rows>
__device__ void send_sums(const T (&x)[Rows][Width], int rows, int step, MailLine* to,
                          std::uint32_t tag, Wide<T>* parts) {
  using W = Wide<T>;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  constexpr int kCount = kGroup<Width>;
#pragma unroll
  for (int first = 0; first < Width; first += kCount) {
    W values[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      values[k] = W{};
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const int row = row_of<Rows>(r);
        if (row > step && row < rows)
          values[k] = plus_product(values[k], converted<W>(conjugate(x[r][0])),
                                   converted<W>(x[r][first + k]));
      }
    }
    const W total = sums_of_lanes(values);
    if (lane % (32 / kCount) == 0) parts[warp * Width + first + lane / (32 / kCount)] = total;
  }
  __syncthreads();
  if (thread < Width) {
    W total{};
#pragma unroll
    for (int w = 0; w < kPanelWarps; ++w) total = sum(total, parts[w * Width + thread]);
    send(to + thread * kMailLines<W>, tag, total);
  }
  __syncthreads();
}

/// The row of the diagonal, which is the first of what was sent, and the sum over all blocks, in
/// the order of their numbers within each share: in the first `Width` threads. One barrier of the
/// block.
template <typename T, int Width>
__device__ Wide<T> receive_sums(const MailLine* sent, int count, std::uint32_t tag, Wide<T>* parts,
                                Wide<T>& top) {
  using W = Wide<T>;
  constexpr int kShares = kPanelThreads / Width, kAtOnce = 8 / kMailLines<W>;
  const int thread = static_cast<int>(threadIdx.x), k = thread % Width, share = thread / Width;
  W total{};
  for (int first = share; first < count; first += kAtOnce * kShares) {
    uint4 found[kAtOnce][kMailLines<W>];
    bool arrived;
    do {
      arrived = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int row = min(first + i * kShares, count - 1);
#pragma unroll
        for (int line = 0; line < kMailLines<W>; ++line)
          found[i][line] = peek(sent + (row * Width + k) * kMailLines<W> + line);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int line = 0; line < kMailLines<W>; ++line)
          arrived &= has_arrived(found[i][line], tag);
    } while (!arrived);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = first + i * kShares;
      if (row == 0) top = value_of<W>(found[i]);
      if (row > 0 && row < count) total = sum(total, value_of<W>(found[i]));
    }
  }
  const int shares = min(kShares, count);
  if (share < shares) parts[share * Width + k] = total;
  __syncthreads();
  if (thread >= Width) return W{};
  W whole{};
  for (int i = 0; i < shares; ++i) whole = sum(whole, parts[i * Width + thread]);
  return whole;
}

/// The power of two that columns are multiplied by so that no sum of squares is out of range: their
/// largest element becomes about one if it is far from it.
template <typename T, int Width, int Rows>
__device__ int agree_on_exponent(const T (&x)[Rows][Width], MailLine* mail, std::uint32_t tag,
                                 Shared<T, Width>& shared) {
  const int thread = static_cast<int>(threadIdx.x), blocks = static_cast<int>(gridDim.x);
  double largest = 0;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int k = 0; k < Width; ++k)
      largest = fmax(largest, fmax(fabs(real_of(x[r][k])), fabs(imaginary_of(x[r][k]))));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    largest = fmax(largest, from_other(largest, distance));
  if (thread % 32 == 0) shared.largest[thread / 32] = largest;
  __syncthreads();
  if (thread < 32) {
    largest = shared.largest[thread % kPanelWarps];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      largest = fmax(largest, from_other(largest, distance));
    if (thread == 0) send(mail + blockIdx.x, tag, largest);
    for (int block = thread; block < blocks; block += 32)
      largest = fmax(largest, receive<double>(mail + block, tag));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      largest = fmax(largest, from_other(largest, distance));
    constexpr double kLarge = 0x1p300, kSmall = 0x1p-300;
    const bool is_far = largest > kLarge || (largest < kSmall && largest > 0);
    if (thread == 0) shared.exponent = is_far && !isinf(largest) ? -ilogb(largest) : 0;
  }
  __syncthreads();
  return shared.exponent;
}

/// The reflector of one column from the sums and the row of the diagonal, by one warp; lane k has
/// those of element k.
template <typename T, int Width>
__device__ void make_reflector(Wide<T> sums, Wide<T> top, int step, Reflector<T, Width>& now) {
  using W = Wide<T>;
  constexpr double kNothing = 0x1p-1000;
  const int lane = static_cast<int>(threadIdx.x);
  const W alpha = from_lane(top, 0);
  const double below = real_of(from_lane(sums, 0));
  const double re = real_of(alpha), im = imaginary_of(alpha);
  W tau{}, scale{}, beta = alpha;
  if (!(below < kNothing) || im != 0) {
    const double size = below < kNothing ? hypot(re, im) : sqrt(re * re + im * im + below);
    const double turned = re >= 0 ? -size : size;
    beta = element_of<W>(turned, 0);
    // Both quotients at once, by two lanes.
    const W difference = element_of<W>(re - turned, im), one = element_of<W>(1, 0);
    const W mine =
        quotient(lane == 0 ? element_of<W>(turned - re, -im) : one, lane == 0 ? beta : difference);
    tau = from_lane(mine, 0);
    scale = from_lane(mine, 1);
  }
  if (lane < Width) {
    const W along = plus_product(top, conjugate(scale), sums);
    now.weights[lane] = converted<T>(product(conjugate(tau), along));
    // Columns that are done stand behind the others.
    const int earlier = lane - (Width - step);
    if (earlier >= 0)
      now.overlaps[earlier] = converted<T>(plus_product(conjugate(top), scale, conjugate(sums)));
  }
  if (lane == 0) {
    now.beta = converted<T>(beta);
    now.tau = converted<T>(tau);
    now.scale = converted<T>(scale);
  }
}

/// Column `step` of t, whose columns follow each other in `factor`, by one warp.
template <typename T, int Width>
__device__ void extend_factor(const Reflector<T, Width>& now, int step, T* factor) {
  const int row = static_cast<int>(threadIdx.x) % 32;
  T along{}, beside{};  // two sums, since each of their steps waits for the one before
  for (int k = 0; k < step; k += 2) {
    if (row <= k) along = plus_product(along, factor[k * Width + row], now.overlaps[k]);
    if (row <= k + 1 && k + 1 < step)
      beside = plus_product(beside, factor[(k + 1) * Width + row], now.overlaps[k + 1]);
  }
  along = sum(along, beside);
  if (row < step) factor[step * Width + row] = minus_product(T{}, now.tau, along);
  if (row == step) factor[step * Width + row] = now.tau;
}

/// As lu_columns: rows turn by one element in each step, and two sets of messages take turns. The
/// sums over a column's products with all others are its norm, what its reflector subtracts from
/// those to come, and its products with the reflectors before it, so a step needs one exchange.
template <typename T, int Width, int Rows>
__global__ void __launch_bounds__(kPanelThreads, 1) qr_columns(Columns<T> in) {
  using W = Wide<T>;
  __shared__ Shared<T, Width> shared;
  const int blocks = static_cast<int>(gridDim.x), thread = static_cast<int>(threadIdx.x);
  constexpr int kRowLines = Width * kMailLines<W>;
  T x[Rows][Width];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const T* from = in.a + row_of<Rows>(r);
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      x[r][k] = row_of<Rows>(r) < in.rows && k < in.cols ? *from : T{};
      from = next_column(from, in.lda);
    }
  }
  const bool makes_factor = blockIdx.x == 0 && thread / 32 == 1;
  int exponent = 0;
  if constexpr (sizeof(RealOf<T>) == 8) {
    exponent = agree_on_exponent<T, Width, Rows>(x, in.mail, in.tag, shared);
    if (exponent != 0)
#pragma unroll
      for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int k = 0; k < Width; ++k) x[r][k] = scaled(x[r][k], exponent);
  }
#pragma unroll 1
  for (int step = 0; step < in.cols; ++step) {
    const std::uint32_t tag = in.tag + static_cast<std::uint32_t>(step) + 1;
    MailLine* top = in.mail + ((step + 1) % 2) * (blocks + 1) * kRowLines;
    MailLine* sums = top + kRowLines;
    if (row_of<Rows>(0) == step)
#pragma unroll
      for (int k = 0; k < Width; ++k) send(top + k * kMailLines<W>, tag, converted<W>(x[0][k]));
    send_sums<T, Width, Rows>(x, in.rows, step, sums + blockIdx.x * kRowLines, tag, shared.parts);
    // While messages are on their way.
    if (makes_factor && step > 0) extend_factor<T, Width>(shared.now, step - 1, shared.factor);
    W row_of_diagonal{};
    const W total = receive_sums<T, Width>(top, blocks + 1, tag, shared.parts, row_of_diagonal);
    if (thread < 32) make_reflector<T, Width>(total, row_of_diagonal, step, shared.now);
    __syncthreads();
    if (blockIdx.x == 0 && thread == 0) in.tau[step] = shared.now.tau;
    const int left = in.cols - step;
    const T scale = shared.now.scale;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const int row = row_of<Rows>(r);
      const bool changes = row >= step && row < in.rows;
      T head = x[r][0];
      if (row > step) head = product(head, scale);
      const T v = row == step ? element_of<T>(1, 0) : head;
#pragma unroll
      for (int k = 1; k < Width; ++k) {
        const T next = minus_product(x[r][k], v, shared.now.weights[k]);
        x[r][k - 1] = chosen(changes & (k < left), next, x[r][k]);
      }
      x[r][Width - 1] = row == step ? shared.now.beta : head;
    }
  }
  const int turned = Width - in.cols;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int row = row_of<Rows>(r);
    if (row >= in.rows) continue;
    T* to = in.a + row;
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      const int col = k - turned;
      if (col < 0) continue;
      if (row <= col) in.r[row + col * in.ldr] = scaled(x[r][k], -exponent);
      *to = row > col ? x[r][k] : row == col ? element_of<T>(1, 0) : T{};
      to = next_column(to, in.lda);
    }
  }
  if (!makes_factor) return;
  extend_factor<T, Width>(shared.now, in.cols - 1, shared.factor);
  __syncwarp();
  for (int col = thread % 32; col < in.cols; col += 32)
    for (int row = 0; row <= col; ++row)
      in.t[row + col * in.ldt] = shared.factor[col * Width + row];
}

}  // namespace

BaseShape qr_shape(Storage storage, std::int64_t rows, int widest) {
  return widest_shape(storage, rows, widest, [](auto shape) {
    using Shape = decltype(shape);
    return reinterpret_cast<const void*>(
        &qr_columns<typename Shape::Element, Shape::kWidth, Shape::kRows>);
  });
}

void factor_qr_columns(Storage storage, BaseShape shape, const QrColumns& columns,
                       cudaStream_t stream) {
  with_shape(storage, shape, [&](auto known) {
    using Shape = decltype(known);
    using T = typename Shape::Element;
    Columns<T> in{.a = static_cast<T*>(columns.a.data),
                  .r = static_cast<T*>(columns.r.data),
                  .t = static_cast<T*>(columns.t.data),
                  .tau = static_cast<T*>(columns.tau),
                  .lda = columns.a.ld,
                  .ldr = columns.r.ld,
                  .ldt = columns.t.ld,
                  .rows = static_cast<int>(columns.a.rows),
                  .cols = static_cast<int>(columns.a.cols),
                  .mail = static_cast<MailLine*>(columns.mail),
                  .tag = columns.tag};
    void* arguments[] = {&in};
    check(cudaLaunchCooperativeKernel(
              reinterpret_cast<const void*>(&qr_columns<T, Shape::kWidth, Shape::kRows>),
              dim3(static_cast<unsigned>(blocks_of(shape, columns.a.rows))), dim3(kPanelThreads),
              arguments, 0, stream),
          "columns factored as QR");
  });
}

}  // namespace fleet::cuda

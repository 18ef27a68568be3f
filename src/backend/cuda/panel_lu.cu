// SPDX-License-Identifier: BSD-3-Clause
// panel_lu.cu: narrow columns factored with partial pivoting by one grid, which keeps them in its
// registers. It knows no recursion.
#include <algorithm>
#include <climits>

#include "backend/cuda/check.hpp"
#include "backend/cuda/mail.cuh"
#include "backend/cuda/panel_grid.cuh"
#include "backend/cuda/panel_kernels.hpp"

namespace fleet::cuda {
namespace {

/// The best pivot so far: the magnitude as a number that orders as it does, and its row. Of equals
/// the one in the first row.
struct Candidate {
  unsigned long long key;
  int row;
};

__device__ bool is_better(Candidate a, Candidate b) {
  return a.key > b.key || (a.key == b.key && a.row < b.row);
}

/// A magnitude that is no number never wins, but in the first row, where it always does: so do the
/// comparisons of LAPACK's idamax.
template <typename Real>
__device__ unsigned long long key_of(Real size, bool is_first) {
  if (size != size) return is_first ? ~0ull : 0;
  if constexpr (sizeof(Real) == 4)
    return __float_as_uint(size);
  else
    return static_cast<unsigned long long>(__double_as_longlong(size));
}

template <int Lanes>
__device__ Candidate best_of_lanes(Candidate mine) {
#pragma unroll
  for (int distance = Lanes / 2; distance > 0; distance /= 2) {
    const Candidate other{__shfl_xor_sync(~0u, mine.key, distance),
                          __shfl_xor_sync(~0u, mine.row, distance)};
    if (is_better(other, mine)) mine = other;
  }
  return mine;
}

constexpr int kCandidateLines = 2;

/// The best of the lanes, and the block that it is of.
__device__ Candidate best_of_lanes(Candidate mine, int* block) {
  const Candidate best = best_of_lanes<32>(mine);
  const unsigned owners = __ballot_sync(~0u, mine.row == best.row);
  *block = __shfl_sync(~0u, *block, __ffs(static_cast<int>(owners)) - 1);
  return best;
}

/// The best candidate of all blocks, in every lane of a warp. The loads of a try are under way
/// before the first is looked at, for so many blocks as keep the registers free.
template <int Each>
__device__ Candidate best_of_blocks(const MailLine* candidates, int blocks, std::uint32_t tag,
                                    int* block) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Candidate best{0, INT_MAX};
  for (int first = 0; first < blocks; first += 32 * Each) {
    uint4 key[Each], row[Each];
    bool arrived;
    do {
      arrived = true;
#pragma unroll
      for (int i = 0; i < Each; ++i) {
        const MailLine* line =
            candidates + kCandidateLines * min(first + lane + 32 * i, blocks - 1);
        key[i] = peek(line);
        row[i] = peek(line + 1);
      }
#pragma unroll
      for (int i = 0; i < Each; ++i)
        arrived &= has_arrived(key[i], tag) && has_arrived(row[i], tag);
    } while (!arrived);
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const Candidate other{(static_cast<unsigned long long>(key[i].z) << 32) | key[i].x,
                            static_cast<int>(row[i].x)};
      if (!is_better(other, best)) continue;
      best = other;
      *block = min(first + lane + 32 * i, blocks - 1);
    }
  }
  return best_of_lanes(best, block);
}

__device__ Candidate best_of_blocks(const MailLine* candidates, int blocks, std::uint32_t tag,
                                    int* block) {
  if (blocks <= 32) return best_of_blocks<1>(candidates, blocks, tag, block);
  return best_of_blocks<4>(candidates, blocks, tag, block);
}

template <typename T>
struct Columns {
  T* a;
  std::int64_t ld;
  int rows, cols;
  std::int32_t row;
  std::int32_t *pivots, *info, *moves;
  MailLine* mail;
  std::uint32_t tag;
};

/// What a thread block shares.
template <typename T, int Width>
struct Shared {
  Candidate of_warp[kPanelWarps];
  T pivot_row[Width];
  int pivot;
};

/// The first of the rows that a thread keeps; the others follow in steps of kPanelThreads.
template <int Rows>
__device__ int first_row() {
  return static_cast<int>(blockIdx.x) * kPanelThreads * Rows + static_cast<int>(threadIdx.x);
}

/// The best pivot of this block in the current column, which is the first of what the threads keep.
template <typename T, int Width, int Rows>
__device__ Candidate best_of_block(const T (&x)[Rows][Width], const int (&place)[Rows], int step,
                                   Candidate* of_warp) {
  Candidate best{0, INT_MAX};
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    if (place[r] < step) continue;
    const Candidate mine{key_of(magnitude(x[r][0]), place[r] == step), place[r]};
    if (is_better(mine, best)) best = mine;
  }
  best = best_of_lanes<32>(best);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
  __syncthreads();
  return best_of_lanes<kPanelWarps>(of_warp[threadIdx.x % kPanelWarps]);
}

/// Rows stay in the registers of their threads; what an exchange changes is their place. In each
/// step a row turns by one element, so that the current column is always the first one and no
/// register has an index that is known only at run time. An update and the search for the next
/// pivot need one exchange of the grid: all blocks send their best candidate and its row, and take
/// the best of all.
///
/// Two sets of messages take turns: whoever sends for a step has received from all for the one
/// before, so all have read what was sent for the one before that.
template <typename T, int Width, int Rows>
__global__ void __launch_bounds__(kPanelThreads, 1) lu_columns(Columns<T> in) {
  __shared__ Shared<T, Width> shared;
  const int blocks = static_cast<int>(gridDim.x), thread = static_cast<int>(threadIdx.x);
  T x[Rows][Width];
  int place[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int row = first_row<Rows>() + r * kPanelThreads;
    place[r] = row < in.rows ? row : -1;
    const T* from = in.a + row;
#pragma unroll
    for (int k = 0; k < Width; ++k, from += in.ld)
      x[r][k] = place[r] >= 0 && k < in.cols ? *from : T{};
  }
  constexpr int kRowLines = Width * kMailLines<T>;
  for (int step = 0; step < in.cols; ++step) {
    const std::uint32_t tag = in.tag + static_cast<std::uint32_t>(step);
    MailLine* candidates = in.mail + (step % 2) * blocks * (kCandidateLines + kRowLines);
    MailLine* rows = candidates + blocks * kCandidateLines;
    const Candidate mine = best_of_block<T, Width, Rows>(x, place, step, shared.of_warp);
    if (thread == 0) {
      MailLine* to = candidates + blockIdx.x * kCandidateLines;
      send_words(to, tag, static_cast<std::uint32_t>(mine.key),
                 static_cast<std::uint32_t>(mine.key >> 32));
      send_words(to + 1, tag, static_cast<std::uint32_t>(mine.row), 0);
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (place[r] != mine.row) continue;
      MailLine* to = rows + blockIdx.x * kRowLines;
#pragma unroll
      for (int k = 0; k < Width; ++k) send(to + k * kMailLines<T>, tag, x[r][k]);
    }
    if (thread < 32) {
      int owner = 0;
      const Candidate best = best_of_blocks(candidates, blocks, tag, &owner);
      if (thread < Width)
        shared.pivot_row[thread] =
            receive<T>(rows + owner * kRowLines + thread * kMailLines<T>, tag);
      if (thread == 0) {
        shared.pivot = best.row;
        if (blockIdx.x == 0) in.pivots[step] = in.row + best.row;
      }
    }
    __syncthreads();
    const int pivot = shared.pivot;
    const T top = shared.pivot_row[0];
    const bool is_singular = is_zero(top);
    if (is_singular && blockIdx.x == 0 && thread == 0 && *in.info == 0)
      *in.info = in.row + step + 1;
    const bool divides = magnitude(top) < safe_minimum<RealOf<T>>();
    const T inverse = is_singular || divides ? T{} : quotient(element_of<T>(1, 0), top);
    const int left = in.cols - step;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (place[r] == pivot)
        place[r] = step;
      else if (place[r] == step)
        place[r] = pivot;
      T head = x[r][0];
      const bool is_below = place[r] > step;
      if (is_below && !is_singular)
        head = divides ? quotient(head, top) : product(head, inverse);
#pragma unroll
      for (int k = 1; k < Width; ++k) {
        T next = x[r][k];
        if (is_below && k < left) next = minus_product(next, head, shared.pivot_row[k]);
        x[r][k - 1] = next;
      }
      x[r][Width - 1] = head;
    }
  }
  // Every row has turned once for each column: column k is now so much further back.
  const int turned = Width - in.cols;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    if (place[r] < 0) continue;
    const int row = first_row<Rows>() + r * kPanelThreads;
    if (place[r] < in.cols) in.moves[place[r]] = row;
    if (row < in.cols) in.moves[Width + row] = place[r];
    T* to = in.a + place[r];
#pragma unroll
    for (int k = 0; k < Width; ++k) {
      if (k < turned) continue;
      *to = x[r][k];
      to += in.ld;
    }
  }
}

}  // namespace

BaseShape lu_shape(Storage storage, std::int64_t rows, int widest) {
  return widest_shape(storage, rows, widest, [](auto shape) {
    using Shape = decltype(shape);
    return reinterpret_cast<const void*>(
        &lu_columns<typename Shape::Element, Shape::kWidth, Shape::kRows>);
  });
}

std::size_t mail_bytes(Storage storage, BaseShape shape, std::int64_t rows) {
  if (shape.width == 0) return 0;
  // QR sends sums in double precision, and one more row.
  const std::int64_t lines = is_complex(storage) ? 2 : 1;
  const std::int64_t blocks = blocks_of(shape, rows);
  return static_cast<std::size_t>(2 * (blocks + 1) * (kCandidateLines + shape.width * lines)) *
         sizeof(MailLine);
}

void factor_lu_columns(Storage storage, BaseShape shape, const LuColumns& columns,
                       cudaStream_t stream) {
  with_shape(storage, shape, [&](auto known) {
    using Shape = decltype(known);
    using T = typename Shape::Element;
    Columns<T> in{.a = static_cast<T*>(columns.a.data),
                  .ld = columns.a.ld,
                  .rows = static_cast<int>(columns.a.rows),
                  .cols = static_cast<int>(columns.a.cols),
                  .row = columns.row,
                  .pivots = columns.pivots,
                  .info = columns.info,
                  .moves = columns.moves,
                  .mail = static_cast<MailLine*>(columns.mail),
                  .tag = columns.tag};
    void* arguments[] = {&in};
    check(cudaLaunchCooperativeKernel(
              reinterpret_cast<const void*>(&lu_columns<T, Shape::kWidth, Shape::kRows>),
              dim3(static_cast<unsigned>(blocks_of(shape, columns.a.rows))), dim3(kPanelThreads),
              arguments, 0, stream),
          "columns factored as LU");
  });
}

}  // namespace fleet::cuda

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

/// The best of a warp's lanes, in all of them.
__device__ Candidate best_of_lanes(Candidate mine) {
#if __CUDA_ARCH__ >= 800
  const auto high = static_cast<unsigned>(mine.key >> 32), low = static_cast<unsigned>(mine.key);
  const unsigned best_high = __reduce_max_sync(~0u, high);
  const unsigned best_low = __reduce_max_sync(~0u, high == best_high ? low : 0);
  const bool is_best = high == best_high && low == best_low;
  return {(static_cast<unsigned long long>(best_high) << 32) | best_low,
          __reduce_min_sync(~0u, is_best ? mine.row : INT_MAX)};
#else
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const Candidate other{__shfl_xor_sync(~0u, mine.key, distance),
                          __shfl_xor_sync(~0u, mine.row, distance)};
    if (is_better(other, mine)) mine = other;
  }
  return mine;
#endif
}

/// The number, the row, and the reciprocal of the element.
template <typename T>
constexpr int kCandidateLines = 2 + kMailLines<T>;

/// The best of the lanes, and the block that it is of.
__device__ Candidate best_of_lanes(Candidate mine, int* block) {
  const Candidate best = best_of_lanes(mine);
  const unsigned owners = __ballot_sync(~0u, mine.row == best.row);
  *block = __shfl_sync(~0u, *block, __ffs(static_cast<int>(owners)) - 1);
  return best;
}

/// The best candidate of all blocks, in every lane of a warp. The loads of a try are under way
/// before the first is looked at, for so many blocks as keep the registers free.
template <typename T, int Each>
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
            candidates + kCandidateLines<T> * min(first + lane + 32 * i, blocks - 1);
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

/// Grids of so many blocks take the rows of all candidates at once, which saves the second way to
/// the one that is chosen; with more of them the rows would be more than the GPU's cache delivers.
constexpr int kRowsOfWarp = 2, kFewBlocks = kRowsOfWarp * kPanelWarps;

/// A row that was sent: its elements, and the reciprocal of the first.
template <typename T, int Width>
struct SentRow {
  alignas(16) T elements[Width];
  T inverse;
};

/// What a thread block shares.
template <typename T, int Width>
struct Shared {
  Candidate of_warp[kPanelWarps];
  T own_row[Width];
  Candidate of_block[kFewBlocks];
  SentRow<T, Width> rows[kFewBlocks];  ///< of many blocks: the chosen one is the first
};

/// The candidates of some blocks, their rows and the reciprocals, by one warp, which waits for all
/// at once.
template <typename T, int Width, int Each>
__device__ void receive_rows(const MailLine* candidates, const MailLine* rows,
                             const int (&blocks)[Each], std::uint32_t tag,
                             SentRow<T, Width>* const (&to)[Each], Candidate* const (&best)[Each]) {
  constexpr int kLines = kMailLines<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  MailLine key[Each], place[Each], inverse[Each][kLines], element[Each][kLines];
  bool arrived;
  do {
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      const MailLine* candidate = candidates + blocks[i] * kCandidateLines<T>;
      key[i] = peek(candidate);
      place[i] = peek(candidate + 1);
#pragma unroll
      for (int line = 0; line < kLines; ++line) {
        inverse[i][line] = peek(candidate + 2 + line);
        element[i][line] = peek(rows + (blocks[i] * Width + min(lane, Width - 1)) * kLines + line);
      }
    }
    arrived = true;
#pragma unroll
    for (int i = 0; i < Each; ++i) {
      arrived &= has_arrived(key[i], tag) && has_arrived(place[i], tag);
#pragma unroll
      for (int line = 0; line < kLines; ++line)
        arrived &= has_arrived(element[i][line], tag) && has_arrived(inverse[i][line], tag);
    }
  } while (!arrived);
#pragma unroll
  for (int i = 0; i < Each; ++i) {
    if (lane < Width) to[i]->elements[lane] = value_of<T>(element[i]);
    if (lane != 0) continue;
    to[i]->inverse = value_of<T>(inverse[i]);
    *best[i] = {(static_cast<unsigned long long>(key[i].z) << 32) | key[i].x,
                static_cast<int>(place[i].x)};
  }
}

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
  best = best_of_lanes(best);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
  __syncthreads();
  return best_of_lanes(of_warp[threadIdx.x % kPanelWarps]);
}

/// Sends the best candidate of this block with its row; of a block that has none left whatever was
/// there, which nobody takes. One barrier of the block.
template <typename T, int Width, int Rows>
__device__ void send_candidate(const T (&x)[Rows][Width], const int (&place)[Rows], Candidate mine,
                               std::uint32_t tag, MailLine* candidate, MailLine* row, T* own_row) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    send_words(candidate, tag, static_cast<std::uint32_t>(mine.key),
               static_cast<std::uint32_t>(mine.key >> 32));
    send_words(candidate + 1, tag, static_cast<std::uint32_t>(mine.row), 0);
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    if (place[r] != mine.row) continue;
#pragma unroll
    for (int k = 0; k < Width; ++k) own_row[k] = x[r][k];
  }
  __syncthreads();
  if (thread < Width) send(row + thread * kMailLines<T>, tag, own_row[thread]);
  if (thread == 32) send(candidate + 2, tag, quotient(element_of<T>(1, 0), own_row[0]));
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
    for (int k = 0; k < Width; ++k) {
      x[r][k] = place[r] >= 0 && k < in.cols ? *from : T{};
      from = next_column(from, in.ld);
    }
  }
  constexpr int kRowLines = Width * kMailLines<T>;
#pragma unroll 1
  for (int step = 0; step < in.cols; ++step) {
    const std::uint32_t tag = in.tag + static_cast<std::uint32_t>(step);
    MailLine* candidates = in.mail + (step % 2) * blocks * (kCandidateLines<T> + kRowLines);
    MailLine* rows = candidates + blocks * kCandidateLines<T>;
    const Candidate mine = best_of_block<T, Width, Rows>(x, place, step, shared.of_warp);
    send_candidate<T, Width, Rows>(x, place, mine, tag,
                                   candidates + blockIdx.x * kCandidateLines<T>,
                                   rows + blockIdx.x * kRowLines, shared.own_row);
    int owner = 0;
    Candidate best;
    const int warp = thread / 32;
    if (blocks <= kFewBlocks) {
      const int first = min(warp, blocks - 1), second = min(warp + kPanelWarps, blocks - 1);
      if (blocks <= kPanelWarps)
        receive_rows<T, Width, 1>(candidates, rows, {first}, tag, {&shared.rows[first]},
                                  {&shared.of_block[first]});
      else
        receive_rows<T, Width, 2>(candidates, rows, {first, second}, tag,
                                  {&shared.rows[first], &shared.rows[second]},
                                  {&shared.of_block[first], &shared.of_block[second]});
      __syncthreads();
      owner = min(thread % 32, blocks - 1);
      best = best_of_lanes(shared.of_block[owner], &owner);
    } else {
      if (warp == 0) {
        best_of_blocks<T, 4>(candidates, blocks, tag, &owner);
        receive_rows<T, Width, 1>(candidates, rows, {owner}, tag, {&shared.rows[0]},
                                  {&shared.of_block[0]});
      }
      __syncthreads();
      owner = 0;
      best = shared.of_block[0];
    }
    const T* pivot_row = shared.rows[owner].elements;
    const int pivot = best.row;
    if (blockIdx.x == 0 && thread == 0) in.pivots[step] = in.row + pivot;
    const T top = pivot_row[0], inverse = shared.rows[owner].inverse;
    const bool is_singular = is_zero(top);
    if (is_singular && blockIdx.x == 0 && thread == 0 && *in.info == 0)
      *in.info = in.row + step + 1;
    const bool divides = magnitude(top) < safe_minimum<RealOf<T>>();
    const int left = in.cols - step;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (place[r] == pivot)
        place[r] = step;
      else if (place[r] == step)
        place[r] = pivot;
      T head = x[r][0];
      const bool is_below = place[r] > step;
      if (is_below && !is_singular) head = divides ? quotient(head, top) : product(head, inverse);
#pragma unroll
      for (int k = 1; k < Width; ++k) {
        // Threads have four rows of floats, and a branch for each element costs more than the
        // products that a choice makes in vain; with two rows of a longer type it costs less.
        const bool changes = is_below && k < left;
        if constexpr (sizeof(T) == 4)
          x[r][k - 1] = chosen(changes, minus_product(x[r][k], head, pivot_row[k]), x[r][k]);
        else
          x[r][k - 1] = changes ? minus_product(x[r][k], head, pivot_row[k]) : x[r][k];
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
      to = next_column(to, in.ld);
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
  return static_cast<std::size_t>(2 * (blocks + 1) * (2 + lines + shape.width * lines)) *
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

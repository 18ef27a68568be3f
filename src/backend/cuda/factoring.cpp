// SPDX-License-Identifier: BSD-3-Clause
// factoring.cpp: panels by Panels, updates by cuBLAS, and the copies between strips and panels. It
// must not know plans.
#include "backend/cuda/factoring.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "backend/cuda/check.hpp"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/factoring_kernels.hpp"
#include "backend/cuda/mark.hpp"
#include "base/sizes.hpp"
#include "cpu/halves.hpp"
#include "cpu/panels.hpp"

namespace fleet::cuda {
namespace {

std::size_t aligned(std::int64_t bytes) {
  return static_cast<std::size_t>(round_up(bytes, kAlignmentBytes));
}

/// Rows of U are solved for in pieces of so many bytes at most, for the sake of memory. The product
/// has them all at once: by 16384 columns at a time, or 8192, none was faster on an H100
/// (measure_update), and some took a tenth longer.
constexpr std::int64_t kSolvedBytes = std::int64_t{64} << 20;

/// Columns of getrf's c that are solved for at a time.
std::int64_t solved_columns(const Launch& launch) {
  const std::int64_t column = launch.panel.width * bytes_of(launch.type.storage);
  return std::clamp<std::int64_t>(kSolvedBytes / std::max<std::int64_t>(1, column), 1,
                                  std::max<std::int64_t>(1, launch.c.cols));
}

/// Columns of an update in two streams: fewer are not worth the second. The first products are of
/// few columns, since nothing runs beside what comes before them.
constexpr std::int64_t kLeastColumnsInTwo = 4096;
constexpr std::array kEndsInTwo = {1.0 / 16, 1.0 / 4, 1.0};
/// Whole tiles of cuBLAS's kernels.
constexpr std::int64_t kColumnsOfTile = 128;

void order(cudaStream_t first, cudaStream_t second) {
  const Mark mark;
  mark.put(first);
  mark.await_in(second);
}

/// One kernel of a factorization. `products`: who has the last product of an update of getrf, after
/// what `handles` have.
class PanelKernel {
 public:
  PanelKernel(const Launch& launch, const Handles& handles, char* workspace,
              const Handles* products = nullptr)
      : launch_(launch),
        panel_(launch.panel),
        storage_(launch.type.storage),
        blas_(handles.blas),
        panels_(handles),
        stream_(handles.stream),
        workspace_(workspace),
        products_(products) {}

  void run() {
    switch (launch_.kernel) {
      case Kernel::factor:
        return factor();
      case Kernel::outcome:
        return take_outcome();
      case Kernel::adopt:
        return adopt();
      case Kernel::exchange:
        return exchange(strip(launch_.c, 0, panel_.length),
                        static_cast<const std::int32_t*>(launch_.a.data));
      case Kernel::reload:
        return reload();
      default:
        return update();
    }
  }

 private:
  Fill triangle() const {
    if (panel_.routine != Factoring::potrf) return Fill::full;
    return panel_.is_flat ? Fill::upper : Fill::lower;
  }
  View strip(const View& of, std::int64_t along, std::int64_t size, Fill fill = Fill::full) const {
    const std::int64_t begin = launch_.offset + along;
    return panel_.is_flat ? part(of, storage_, 0, begin, of.rows, size, fill)
                          : part(of, storage_, begin, 0, size, of.cols, fill);
  }
  View piece(const View& tile, std::int64_t along, std::int64_t size,
             Fill fill = Fill::full) const {
    return part_of_panel(launch_, tile, along, size, fill);
  }
  std::int32_t* notes(const View& tile) const {
    const std::int64_t at = panel_.width * (panel_.is_flat ? 1 : tile.ld);
    return reinterpret_cast<std::int32_t*>(static_cast<char*>(tile.data) + at * bytes_of(storage_));
  }

  /// Calls run(first, count, moves) for the exchanges of a panel, as many at a time as one kernel
  /// composes.
  template <typename Notes, typename Run>
  void in_pieces(Notes* notes, Run run) const {
    static_assert(Panel::kExchangesOfPiece == kMostExchanges);
    Notes* moves = notes + panel_.moves_begin();
    for (std::int64_t first = 0; first < panel_.width; first += kMostExchanges) {
      const std::int64_t count = std::min(kMostExchanges, panel_.width - first);
      run(first, count, moves);
      moves += 4 * count + 1;
    }
  }

  void factor() {
    const View& p = launch_.c;
    copy_filled(storage_, strip(launch_.a, 0, panel_.length, triangle()),
                piece(p, 0, panel_.length), stream_);
    switch (panel_.routine) {
      case Factoring::potrf:
        return factor_potrf();
      case Factoring::getrf:
        panels_.getrf(storage_, piece(p, 0, panel_.length), notes(p) + Panel::kPivots,
                      notes(p) + Panel::kInfo, workspace_);
        in_pieces(notes(p), [&](std::int64_t first, std::int64_t count, std::int32_t* moves) {
          compose_exchanges(notes(p) + Panel::kPivots + first, static_cast<std::int32_t>(first),
                            count, false, moves, stream_);
        });
        if (panel_.in_halves) split_panel(p);
        return invert_lower();
      case Factoring::geqrf: {
        const View square = piece(p, 0, panel_.width);
        char* const rest = workspace_ + aligned(panel_.width * bytes_of(storage_));
        panels_.geqrf(storage_, piece(p, 0, panel_.length), workspace_, t(), rest);
        View upper = square;
        upper.fill = Fill::upper;
        copy_filled(storage_, upper, piece(p, panel_.upper_begin(), panel_.width), stream_);
        return make_unit_lower(storage_, square, stream_);
      }
    }
  }

  void factor_potrf() {
    const std::int64_t width = panel_.width, rest = panel_.length - width;
    const View square = piece(launch_.c, 0, width, triangle());
    panels_.potrf(storage_, square, notes(launch_.c) + Panel::kInfo, workspace_);
    if (rest == 0) return;
    Launch solving{.kernel = Kernel::solve,
                   .type = launch_.type,
                   .op_a = is_complex(storage_) ? Op::conjugate : Op::transpose,
                   .beta = 1,
                   .a = square,
                   .c = piece(launch_.c, width, rest),
                   .triangular = true,
                   .side = panel_.is_flat ? Side::left : Side::right};
    if (can_invert_diagonal()) {
      const std::int64_t edge = inverse_block(storage_);
      solving.b = {.data = workspace_, .rows = edge, .cols = round_up(width, edge), .ld = edge};
      blas_.prepare({.kernel = Kernel::prepare, .type = launch_.type, .a = square, .c = solving.b});
    }
    blas_.solve(solving);
  }

  /// L's square once and for all, so that updates have nothing but products.
  void invert_lower() {
    const View block = piece(launch_.c, panel_.block_begin(), panel_.width);
    make_identity(storage_, block, stream_);
    panels_.solve_lower(storage_, piece(launch_.c, 0, panel_.width), block);
  }

  View t() const { return piece(launch_.c, panel_.block_begin(), panel_.width); }

  void copy_bytes(void* to, const void* from, std::int64_t bytes) const {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                          stream_),
          "the notes of a panel");
  }

  void take_outcome() {
    if (panel_.routine == Factoring::geqrf)
      return copy_diagonal(storage_, piece(launch_.a, panel_.block_begin(), panel_.width),
                           launch_.c.data, stream_);
    copy_bytes(launch_.c.data, notes(launch_.a), panel_.note_count() * 4);
  }

  void adopt() {
    const std::int64_t width = panel_.width, rest = panel_.length - width;
    const View& p = launch_.a;
    if (panel_.routine != Factoring::geqrf)
      return copy_filled(storage_, piece(p, 0, panel_.length, triangle()),
                         strip(launch_.c, 0, panel_.length), stream_);
    const View square = strip(launch_.c, 0, width);
    copy_below_diagonal(storage_, piece(p, 0, width), square, stream_);
    copy_filled(storage_, piece(p, panel_.upper_begin(), width, Fill::upper), square, stream_);
    if (rest > 0)
      copy_filled(storage_, piece(p, width, rest), strip(launch_.c, width, rest), stream_);
  }

  void exchange(const View& rows, const std::int32_t* noted) {
    in_pieces(noted, [&](std::int64_t first, std::int64_t count, const std::int32_t* moves) {
      exchange_composed(storage_, part(rows, storage_, first, 0, rows.rows - first, rows.cols),
                        moves, count, stream_);
    });
  }

  void reload() {
    const View& p = launch_.c;
    copy_filled(storage_, strip(launch_.a, 0, panel_.length, triangle()),
                piece(p, 0, panel_.length), stream_);
    if (panel_.routine == Factoring::geqrf) {
      make_unit_lower(storage_, piece(p, 0, panel_.width), stream_);
      return panels_.larft(storage_, piece(p, 0, panel_.length), launch_.b.data, t(), workspace_);
    }
    copy_bytes(notes(p), launch_.b.data, panel_.note_count() * 4);
    if (panel_.in_halves) split_panel(p);
    if (panel_.routine == Factoring::getrf) invert_lower();
  }

  void split_panel(const View& p) const {
    const HalvesOfPanel halves = halves_of(panel_, p);
    split_in_halves(piece(p, panel_.width, panel_.length - panel_.width), 1,
                    {halves.first.data, halves.second.data, halves.first.ld}, stream_);
  }

  /// c -= a*b, a being all of the panel below its square: one product of the first halves, and one
  /// of the pairs that are smaller by Panel::kSecond.
  void multiply_halves(const Launch& product, const View& scratch) const {
    const HalvesOfPanel halves = halves_of(panel_, launch_.a);
    const std::int64_t width = panel_.width, cols = product.b.cols;
    const View pairs{.data = scratch.data, .rows = 2 * width, .cols = cols, .ld = 2 * width};
    const View firsts = part(pairs, Storage::f16, width, 0, width, cols);
    const auto scale = static_cast<float>(launch_.alpha.real());
    split_in_halves(product.b, 1 / scale, {firsts.data, pairs.data, pairs.ld}, stream_);
    blas_.add_product_of_halves(-scale, halves.first, firsts, product.c);
    View both = halves.first;
    both.cols = 2 * width;
    blas_.add_product_of_halves(-scale / Panel::kSecond, both, pairs, product.c);
  }

  void update() {
    const auto scratch = [this](int which, std::int64_t rows, std::int64_t cols) {
      const std::size_t bytes = aligned(rows * cols * bytes_of(storage_));
      return View{.data = workspace_ + static_cast<std::size_t>(which) * bytes,
                  .rows = rows,
                  .cols = cols,
                  .ld = rows};
    };
    fleet::update(
        launch_,
        {.multiply =
             [&](const Launch& product) {
               if (panel_.in_halves)
                 return multiply_halves(product, scratch(1, panel_.width, product.b.cols));
               if (products_ != nullptr) order(stream_, products_->stream);
               (products_ != nullptr ? products_->blas : blas_).multiply(product);
             },
         .solve =
             [&](const View& p, const View& c) {
               const View inverse = piece(p, panel_.block_begin(), panel_.width);
               const std::int64_t most = solved_columns(launch_);
               for (std::int64_t col = 0; col < c.cols; col += most) {
                 const View some = part(c, storage_, 0, col, c.rows, std::min(most, c.cols - col));
                 const View solved = scratch(0, some.rows, some.cols);
                 blas_.multiply(
                     {.type = launch_.type, .alpha = 1.0, .a = inverse, .b = some, .c = solved});
                 copy_filled(storage_, solved, some, stream_);
               }
             },
         .exchange = [&](const View& p, const View& c) { exchange(c, notes(p)); },
         .scratch = scratch});
  }

  const Launch& launch_;
  const Panel& panel_;
  const Storage storage_;
  CublasHandle& blas_;
  const Panels panels_;
  cudaStream_t stream_;
  char* workspace_;
  const Handles* products_;
};

}  // namespace

Workspace::~Workspace() {
  for (char* block : blocks_) works(cudaFree(block));
}

bool Workspace::grow(std::size_t bytes) {
  if (bytes <= bytes_) return false;
  const std::size_t wanted = std::bit_ceil(bytes);
  blocks_.reserve(blocks_.size() + 1);
  void* memory = nullptr;
  if (!works(cudaMalloc(&memory, wanted)))
    throw Error(Status::no_memory, "a device has no memory for the workspace of panels");
  blocks_.push_back(static_cast<char*>(memory));
  bytes_ = wanted;
  return true;
}

std::size_t update_bytes(const Launch& launch) {
  const Panel& panel = launch.panel;
  const auto rows_of = [&](std::int64_t cols) {
    return aligned(panel.width * cols * bytes_of(launch.type.storage));
  };
  if (panel.routine == Factoring::potrf) return 0;
  if (panel.routine == Factoring::getrf && !panel.in_halves) return rows_of(solved_columns(launch));
  return 2 * rows_of(launch.c.cols);
}

std::size_t factoring_bytes(const Launch& launch, const Handles& handles) {
  const Panel& panel = launch.panel;
  const Storage storage = launch.type.storage;
  const std::int64_t bytes = bytes_of(storage), width = panel.width;
  if (launch.kernel == Kernel::update) return update_bytes(launch);
  if (launch.kernel != Kernel::factor && launch.kernel != Kernel::reload) return 0;
  const Panels panels(handles);
  switch (panel.routine) {
    case Factoring::potrf:
      // One after the other: what the factor takes, and the inverses of blocks of its diagonal.
      return std::max(
          panels.potrf_bytes(storage, {.rows = width,
                                       .cols = width,
                                       .ld = launch.c.rows,
                                       .fill = panel.is_flat ? Fill::upper : Fill::lower}),
          aligned(round_up(width, inverse_block(storage)) * inverse_block(storage) * bytes));
    case Factoring::getrf:
      return panels.getrf_bytes(storage, panel.length, width);
    default:
      return aligned(width * bytes) + std::max(panels.geqrf_bytes(storage, panel.length, width),
                                               Panels::larft_bytes(storage, width));
  }
}

void run_factoring(const Launch& launch, const Handles& handles, char* workspace) {
  PanelKernel(launch, handles, workspace).run();
}

bool can_update_in_two(const Launch& launch) {
  return launch.kernel == Kernel::update && launch.panel.routine == Factoring::getrf &&
         !launch.panel.in_halves && launch.c.cols >= kLeastColumnsInTwo;
}

void run_update_in_two(const Launch& launch, const Handles& rows, char* workspace,
                       const Handles& products) {
  try {
    order(products.stream, rows.stream);
    std::int64_t begin = 0;
    for (const double share : kEndsInTwo) {
      const std::int64_t end =
          share == 1
              ? launch.c.cols
              : round_up(static_cast<std::int64_t>(share * static_cast<double>(launch.c.cols)),
                         kColumnsOfTile);
      Launch some = launch;
      some.c = part(launch.c, launch.type.storage, 0, begin, launch.c.rows, end - begin);
      PanelKernel(some, rows, workspace, &products).run();
      begin = end;
    }
    // Where a panel is a square there are no products.
    if (launch.panel.length == launch.panel.width) order(rows.stream, products.stream);
  } catch (...) {
    works(cudaStreamSynchronize(rows.stream));
    throw;
  }
}

}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// strips.cpp: the matrices and chains of a factorization.
#include "program/strips.hpp"

#include <algorithm>
#include <utility>

#include "base/sizes.hpp"

namespace fleet {
namespace {

/// Strips beyond the diagonal.
constexpr std::int64_t kMostBeyond = 256;

class StripExpansion {
 public:
  explicit StripExpansion(const Strips& strips) : strips_(strips) { program_.strips = strips; }

  TileProgram matrices() {
    add_matrices();
    return std::move(program_);
  }

  TileProgram run() {
    const Stage& stage = strips_.stage;
    add_matrices();
    if (!stage.only_exchanges) {
      for (int k = 0; k < std::min(stage.begin, strips_.panels); ++k) {
        begin_chain(strips_.panel(k));
        add(Kernel::reload, strips_.strip(k), strips_.outcome(k), Accumulate::overwrite);
      }
      for (int j = stage.begin; j < stage.end; ++j) factor(j);
    }
    // A panel that is read again has its rows in the order in which it was factored.
    const bool is_whole = stage.begin == 0 && stage.end == strips_.count();
    if (strips_.what.routine == Factoring::getrf && (is_whole || stage.only_exchanges))
      for (int j = stage.begin; j < std::min(stage.end, strips_.panels); ++j) exchange(j);
    return std::move(program_);
  }

 private:
  void add_matrices() {
    const bool potrf = strips_.what.routine == Factoring::potrf;
    for (int j = 0; j < strips_.count(); ++j) {
      const std::int64_t length = strips_.what.m - strips_.top_of(j), width = strips_.width_of(j);
      Matrix strip = matrix(length, width, strips_.is_flat(), strips_.home_of(j));
      if (potrf) {
        strip.structure = is_complex(strip.storage) ? Structure::hermitian : Structure::symmetric;
        strip.diagonal = strips_.is_flat() ? Fill::upper : Fill::lower;
      }
      strip.stays = strips_.what.kept;
      strip.returns = !strips_.what.kept;
      program_.matrices.push_back(std::move(strip));
    }
    for (int k = 0; k < strips_.panels; ++k) {
      const Panel panel = strips_.panel_of(k);
      Matrix tile = matrix(panel.rows(), panel.cols(), false, kHost);
      tile.panel = panel;
      tile.is_scratch = true;
      tile.returns = false;
      program_.matrices.push_back(std::move(tile));
    }
    for (int k = 0; k < strips_.panels; ++k) {
      const Panel panel = strips_.panel_of(k);
      Matrix tile = matrix(panel.outcome_elements(), 1, false, kHost);
      tile.panel = panel;
      program_.matrices.push_back(std::move(tile));
    }
  }

  Matrix matrix(std::int64_t length, std::int64_t width, bool is_flat, DeviceId home) const {
    Matrix made{.storage = strips_.what.storage,
                .row_cuts = {0, is_flat ? width : length},
                .col_cuts = {0, is_flat ? length : width},
                .home = home};
    return made;
  }

  void begin_chain(const TileId& target) {
    program_.chains.push_back({target, static_cast<OpId>(program_.ops.size()), 0});
    program_.matrices[static_cast<std::size_t>(target.matrix)].is_written = true;
  }

  void add(Kernel kernel, const TileId& input, const TileId& second, Accumulate accumulate) {
    program_.ops.push_back(
        {.inputs = {Factor{.tile = input}, Factor{.tile = second}},
         .kernel = kernel,
         .accumulate = accumulate,
         .alpha = kernel == Kernel::update && strips_.in_halves ? kScaleOfHalves : kOne,
         .beta = kOne});
    ++program_.chains.back().ops;
    for (const TileId& tile : {input, second})
      if (tile.exists()) program_.matrices[static_cast<std::size_t>(tile.matrix)].is_read = true;
  }

  void factor(int j) {
    const int updates = std::min(j, strips_.panels);
    if (updates > 0) {
      begin_chain(strips_.strip(j));
      for (int k = 0; k < updates; ++k)
        add(Kernel::update, strips_.panel(k), kNoTile, Accumulate::sum);
    }
    if (j >= strips_.panels) return;
    begin_chain(strips_.panel(j));
    add(Kernel::factor, strips_.strip(j), kNoTile, Accumulate::overwrite);
    begin_chain(strips_.outcome(j));
    add(Kernel::outcome, strips_.panel(j), kNoTile, Accumulate::overwrite);
    begin_chain(strips_.strip(j));
    add(Kernel::adopt, strips_.panel(j), kNoTile, Accumulate::sum);
  }

  /// The exchanges of the panels after a strip's own.
  void exchange(int j) {
    if (j + 1 >= strips_.panels) return;
    begin_chain(strips_.strip(j));
    for (int k = j + 1; k < strips_.panels; ++k)
      add(Kernel::exchange, strips_.outcome(k), kNoTile, Accumulate::sum);
  }

  const Strips& strips_;
  TileProgram program_;
};

}  // namespace

Panel Strips::panel_of(int k) const {
  return {.routine = what.routine,
          .is_flat = is_flat(),
          .begin = begin_of(k),
          .length = what.m - begin_of(k),
          .width = width_of(k),
          .element_bytes = bytes_of(what.storage),
          .in_halves = in_halves};
}

std::int64_t Strips::outcome_elements(int panels_before) const {
  std::int64_t elements = 0;
  for (int k = 0; k < panels_before; ++k) elements += panel_of(k).outcome_elements();
  return elements;
}

Strips strips_of(const Factorization& what, std::int64_t width) {
  Strips strips{.what = what};
  const std::int64_t diagonal = what.diagonal();
  strips.cuts = {0};
  // Beyond the diagonal strips need no panels; few are enough.
  const std::int64_t beyond = std::max(width, ceil_div(what.n - diagonal, kMostBeyond));
  for (const auto& [end, edge] : {std::pair(diagonal, width), std::pair(what.n, beyond)})
    while (strips.cuts.back() < end)
      strips.cuts.push_back(std::min(strips.cuts.back() + edge, end));
  strips.panels =
      static_cast<int>(std::ranges::lower_bound(strips.cuts, diagonal) - strips.cuts.begin());
  strips.stage = {.begin = 0, .end = strips.count()};
  return strips;
}

TileProgram expand(const Strips& strips) { return StripExpansion(strips).run(); }

TileProgram matrices_of(const Strips& strips) { return StripExpansion(strips).matrices(); }

}  // namespace fleet

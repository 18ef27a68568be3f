// SPDX-License-Identifier: BSD-3-Clause
// guarded_blas.cpp: products in panels, each of which is a stretch that a fork waits for. It knows
// no context.
#include "core/guarded_blas.hpp"

#include <algorithm>
#include <utility>

#include "base/gate.hpp"
#include "cpu/gemm_pieces.hpp"

namespace fleet {
namespace {

/// The longest that a fork waits: about half a second on a core of 2026.
constexpr double kPanelFlops = 3e10;
/// Narrower panels would cost the CPU BLAS its speed.
constexpr std::int64_t kNarrowestPanel = 256;

/// Leases are protected in CpuBlas; a wrapper passes them on.
struct Leases : CpuBlas {
  static auto begin() { return &Leases::begin_lease; }
  static auto end() { return &Leases::end_lease; }
};

class GuardedBlas final : public CpuBlas {
 public:
  explicit GuardedBlas(std::shared_ptr<CpuBlas> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }

  void gemm(const Launch& launch) override {
    const double column_flops = 2.0 * static_cast<double>(launch.c.rows) *
                                static_cast<double>(depth_of(launch)) *
                                (is_complex(launch.type.storage) ? 4 : 1);
    const auto wanted = static_cast<std::int64_t>(kPanelFlops / std::max(1.0, column_flops));
    const std::int64_t step = std::max(kNarrowestPanel, wanted);
    if (launch.c.cols <= step) return pass_on(launch);
    for (std::int64_t col = 0; col < launch.c.cols; col += step)
      pass_on(columns(launch, col, std::min(step, launch.c.cols - col)));
  }

  /// The callers' triangles are small, so a fork can wait.
  bool solve(const Launch& launch) override {
    const gate::Pass pass;
    return inner_->solve(launch);
  }
  bool multiply_in_place(const Launch& launch) override {
    const gate::Pass pass;
    return inner_->multiply_in_place(launch);
  }

  const LapackLibrary* lapack() const override { return inner_->lapack(); }

  bool inside(const std::function<void()>& work) override {
    const gate::Pass pass;
    return inner_->inside(work);
  }

  /// One takes as long as one pass over memory, so a fork can wait.
  void multiply_vectors(const Launch& launch) override {
    const gate::Pass pass;
    inner_->multiply_vectors(launch);
  }

 protected:
  void begin_lease(int threads) override { (*inner_.*Leases::begin())(threads); }
  void end_lease() override { (*inner_.*Leases::end())(); }

 private:
  void pass_on(const Launch& launch) {
    const gate::Pass pass;
    inner_->gemm(launch);
  }

  static Launch columns(const Launch& launch, std::int64_t first, std::int64_t count) {
    Launch panel = launch;
    const auto moved = [&](const View& view, std::int64_t elements) -> void* {
      return static_cast<char*>(view.data) + elements * bytes_of(launch.type.storage);
    };
    panel.c.data = moved(launch.c, first * launch.c.ld);
    panel.c.cols = count;
    panel.b.data = moved(launch.b, launch.op_b == Op::none ? first * launch.b.ld : first);
    (launch.op_b == Op::none ? panel.b.cols : panel.b.rows) = count;
    return panel;
  }

  std::shared_ptr<CpuBlas> inner_;
};

}  // namespace

std::shared_ptr<CpuBlas> guarded(std::shared_ptr<CpuBlas> blas) {
  return std::make_shared<GuardedBlas>(std::move(blas));
}

}  // namespace fleet

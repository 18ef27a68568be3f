// SPDX-License-Identifier: BSD-3-Clause
// cpu_path.cpp: the items of a call one after another, each by the CPU BLAS. It knows no plan.
#include "core/cpu_path.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "cpu/triangles.hpp"
#include "cpu/triangular.hpp"
#include "program/expand.hpp"

namespace fleet {
namespace {

View item_view(const Call& call, const Arguments& item, int operand) {
  const auto at = static_cast<std::size_t>(operand);
  const bool triangle =
      operand == kC ? call.traits().triangle : operand == kA && call.traits().has_side();
  return {.data = item.data[at],
          .rows = call.stored_rows(operand),
          .cols = call.stored_cols(operand),
          .ld = std::abs(item.ld[at]),
          .fill = !triangle                  ? Fill::full
                  : call.uplo == Uplo::lower ? Fill::lower
                                             : Fill::upper,
          .reversed = item.ld[at] < 0};
}

Launch launch_of(const Call& call, const View& a, const View& b, const View& c) {
  return {.kernel = call.only_scales() ? Kernel::scale : product_of(call.routine),
          .type = call.type,
          .op_a = call.op_a,
          .op_b = call.op_b,
          .alpha = call.arguments.alpha,
          .beta = call.arguments.beta,
          .a = a,
          .b = b,
          .c = c,
          .hermitian = call.traits().hermitian,
          .triangular = call.traits().triangular,
          .diag = call.diag,
          .side = call.side};
}

/// The product of the routine with its factors in their places; the first product if it has two.
Launch routine_of(const Call& call, const View& a, const View& b, const View& c) {
  Launch launch = launch_of(call, a, b, c);
  const RoutineTraits& traits = call.traits();
  if (traits.triangular) launch.b = c;
  if (traits.has_side() && call.side == Side::right) {
    std::swap(launch.a, launch.b);
    std::swap(launch.op_a, launch.op_b);
  }
  if (traits.by_itself) {
    launch.op_b = call.op_a == Op::none ? traits.turned() : Op::none;
  }
  return launch;
}

void run(const Call& call, const View& a, const View& b, const View& c, CpuBlas& blas) {
  if (call.only_scales()) return scale(launch_of(call, a, b, c));
  if (call.traits().solves) {
    Launch launch = launch_of(call, a, b, c);
    launch.b = {};  // no inverses
    launch.beta = call.arguments.alpha;
    return solve(launch, blas);
  }
  Launch launch = routine_of(call, a, b, c);
  multiply(launch, blas);
  if (!call.traits().twice) return;
  std::swap(launch.a, launch.b);
  launch.beta = 1.0;
  if (call.traits().hermitian) launch.alpha = std::conj(launch.alpha);
  multiply(launch, blas);
}

class Staged {
 public:
  Staged(const View& home, DeviceId location, Storage storage, Backend& backend)
      : home_(home),
        location_(location),
        element_(bytes_of(storage)),
        backend_(backend),
        view_(home) {
    if (on_host(location)) return;
    storage_.resize(static_cast<std::size_t>(home.rows * home.cols * element_));
    view_.data = storage_.data();
    view_.ld = home.rows;
  }
  const View& view() const { return view_; }
  void fetch() {
    if (!on_host(location_)) backend_.transfer(kPageable, view_, location_, home_, element_);
  }
  void write_back() {
    if (!on_host(location_)) backend_.transfer(location_, home_, kPageable, view_, element_);
  }

 private:
  View home_;
  DeviceId location_;
  std::int64_t element_;
  Backend& backend_;
  View view_;
  std::vector<char> storage_;
};

void multiply_item_staged(const Call& call, const Arguments& item,
                          const std::array<DeviceId, 3>& homes, CpuBlas& blas, Backend& backend) {
  const bool on_devices = !std::ranges::all_of(homes, on_host);
  if (call.repeats() && on_devices)
    throw Error(Status::unsupported, "an increment of 0 with a vector on a device");
  // A pure scaling reads neither A nor B.
  const auto home_of = [&](int operand) {
    return call.only_scales() && operand != kC ? kPageable
                                               : homes[static_cast<std::size_t>(operand)];
  };
  Staged a(item_view(call, item, kA), home_of(kA), call.type.storage, backend);
  Staged b(item_view(call, item, kB), home_of(kB), call.type.storage, backend);
  Staged c(item_view(call, item, kC), home_of(kC), call.type.storage, backend);
  a.fetch();
  b.fetch();
  if (!call.beta_is_zero() || (call.traits().triangular && !call.only_scales())) c.fetch();
  past_first_write([&] {
    run(call, a.view(), b.view(), c.view(), blas);
    c.write_back();
  });
}

}  // namespace

void lease_if_possible(std::optional<CpuBlas::Lease>& lease, CpuBlas& blas, int threads) {
  try {
    lease.emplace(blas, threads);
  } catch (const std::bad_alloc&) {
    lease.reset();
  }
}

void multiply_in_place(const Call& call, CpuBlas& blas, int threads) {
  std::optional<CpuBlas::Lease> lease;
  if (!call.only_scales()) lease_if_possible(lease, blas, threads);
  past_first_write([&] {
    for (std::int64_t i = 0; i < call.batch; ++i) {
      const Arguments item = arguments_from(call, i);
      run(call, item_view(call, item, kA), item_view(call, item, kB), item_view(call, item, kC),
          blas);
    }
  });
}

void multiply_plainly(const Call& call) {
  for (std::int64_t i = 0; i < call.batch; ++i) {
    const Arguments item = arguments_from(call, i);
    PlainBlas plain;
    run(call, item_view(call, item, kA), item_view(call, item, kB), item_view(call, item, kC),
        plain);
  }
}

void multiply_staged(const Call& call, const std::array<DeviceId, 3>& homes, CpuBlas& blas,
                     int threads, Backend& backend) {
  std::optional<CpuBlas::Lease> lease;
  lease_if_possible(lease, blas, threads);
  const auto multiply_item = [&](std::int64_t item) {
    multiply_item_staged(call, arguments_from(call, item), homes, blas, backend);
  };
  try {
    multiply_item(0);
  } catch (const std::bad_alloc&) {
    throw Error(Status::no_memory, "the host cannot hold the operands on devices");
  }
  past_first_write([&] {
    for (std::int64_t item = 1; item < call.batch; ++item) multiply_item(item);
  });
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// host_trial.hpp: runs one problem with random operands by a plan on a host backend, and compares C
// with the oracle. It makes no plans.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/host/backend.hpp"
#include "recover/recover.hpp"
#include "run/execute.hpp"
#include "support/cpu_blas.hpp"
#include "support/reference.hpp"

namespace fleet::test {

/// Virtual devices with a link between any two, and the pinned ring.
inline Machine virtual_devices(int devices, std::int64_t memory_bytes = 1 << 26) {
  Machine machine{.name = "virtual", .source = "made up for a test"};
  machine.devices.push_back({.name = "host"});
  machine.devices.push_back({.name = "pageable"});
  for (int d = 0; d < devices; ++d)
    machine.devices.push_back({.name = std::to_string(d),
                               .memory_bytes = memory_bytes,
                               .lanes = 2,
                               .memory_bytes_per_s = 1e10,
                               .kernels = {{DataType::f32, 256, 1e10},
                                           {DataType::f64, 256, 1e10},
                                           {DataType::c32, 256, 1e10},
                                           {DataType::c64, 256, 1e10},
                                           {DataType::f16, 256, 1e10},
                                           {DataType::bf16, 256, 1e10}}});
  const auto both = [&](DeviceId x, DeviceId y) {
    machine.links.push_back({.source = x, .target = y, .latency_s = 1e-6, .bytes_per_s = 5e9});
    machine.links.push_back({.source = y, .target = x, .latency_s = 1e-6, .bytes_per_s = 5e9});
  };
  both(kPageable, kHost);
  for (int d = 0; d < devices; ++d) {
    both(kHost, kFirstDevice + d);
    for (int other = 0; other < d; ++other) both(kFirstDevice + other, kFirstDevice + d);
  }
  return machine;
}

/// The operands of one call at their homes, and the expected C.
template <typename T>
class HostTrial {
 public:
  /// Leading dimensions have `slack` extra rows, and items of a batch are not contiguous.
  HostTrial(const Problem& problem, std::uint64_t seed, std::int64_t slack = 0)
      : problem_(problem),
        random_(seed),
        alpha_(random_scalar<T>(random_)),
        beta_(problem.operands[kC].access == Access::write ? T(0) : random_scalar<T>(random_)) {
    for (const Operand& operand : problem.operands) {
      const std::int64_t ld = std::max<std::int64_t>(1, operand.rows + slack);
      const std::int64_t items = operand.shared ? 1 : problem.batch;
      host_.emplace_back(operand.rows, operand.cols, ld, items, ld * operand.cols + 7 * slack);
    }
    host_[kA].fill_random(random_);
    host_[kB].fill_random(random_);
    if (beta_ != T(0)) host_[kC].fill_random(random_);  // else it stays NaN
  }

  Guarded<T>& operand(int index) { return host_[static_cast<std::size_t>(index)]; }

  /// Runs `plan`; operands of devices are moved there before the run and back after it. With
  /// `recovers`, the CPU finishes a run that failed.
  Trace run(const Plan& plan, Backend& backend, bool recovers = false) {
    Arguments arguments{.alpha = std::complex<double>(alpha_), .beta = std::complex<double>(beta_)};
    // One rounding per step of k, and one when C is added at the end.
    expect(tile_count(plan.cuts().k) + 1);
    for (int x = 0; x < 3; ++x) place(x, arguments, backend);
    const Binding binding = bind(*plan.program, {&arguments, 1});
    const auto run = backend.begin(plan, binding, 0);
    const Trace trace = complete(plan, binding, *run);
    if (recovers && trace.status != Status::ok)
      recover({plan, binding, trace, *run}, {}, backend, *shared_cpu_blas());
    if (recovers || trace.status == Status::ok) fetch_c(arguments, backend);
    for (std::size_t x = 0; x < 3; ++x)
      if (!on_host(problem_.operands[x].home))
        backend.release(problem_.operands[x].home, arguments.data[x]);
    return trace;
  }

  /// "" if C is right and nothing outside it was written.
  std::string verdict() {
    for (std::int64_t item = 0; item < problem_.batch; ++item)
      if (std::string wrong = first_difference(expected_[static_cast<std::size_t>(item)],
                                               host_[kC].item(item), host_[kC].ld());
          !wrong.empty())
        return "item " + std::to_string(item) + ": " + wrong;
    for (const Guarded<T>& operand : host_)
      if (std::string broken = operand.broken_guard(); !broken.empty()) return broken;
    return "";
  }

 private:
  void expect(std::int64_t roundings) {
    for (std::int64_t item = 0; item < problem_.batch; ++item) {
      const auto of = [&](int x) {
        return operand(x).item(problem_.operands[static_cast<std::size_t>(x)].shared ? 0 : item);
      };
      expected_.push_back(expect_gemm<T>({.op_a = problem_.op_a,
                                          .op_b = problem_.op_b,
                                          .m = problem_.m,
                                          .n = problem_.n,
                                          .k = problem_.k,
                                          .alpha = alpha_,
                                          .a = of(kA),
                                          .lda = host_[kA].ld(),
                                          .b = of(kB),
                                          .ldb = host_[kB].ld(),
                                          .beta = beta_,
                                          .c = of(kC),
                                          .ldc = host_[kC].ld(),
                                          .roundings = roundings,
                                          .type = problem_.type}));
    }
  }

  View item_view(int x, std::int64_t item) {
    Guarded<T>& host = operand(x);
    return {host.item(item), host.rows(), host.cols(), host.ld()};
  }
  View device_view(int x, std::int64_t item, const Arguments& arguments) {
    View view = item_view(x, item);
    const auto at = static_cast<std::size_t>(x);
    view.data = static_cast<T*>(arguments.data[at]) + item * arguments.stride[at];
    return view;
  }

  void place(int x, Arguments& arguments, Backend& backend) {
    const auto at = static_cast<std::size_t>(x);
    const Operand& operand = problem_.operands[at];
    arguments.ld[at] = host_[at].ld();
    arguments.stride[at] = host_[at].stride();
    arguments.data[at] = host_[at].data();
    if (on_host(operand.home)) return;
    const std::int64_t items = operand.shared ? 1 : problem_.batch;
    const std::int64_t elements =
        std::max<std::int64_t>(1, items * host_[at].stride() + host_[at].ld() * operand.cols);
    arguments.data[at] =
        backend.allocate(operand.home, elements * static_cast<std::int64_t>(sizeof(T)));
    for (std::int64_t item = 0; item < items; ++item)
      backend.transfer(operand.home, device_view(x, item, arguments), kPageable, item_view(x, item),
                       sizeof(T));
  }

  void fetch_c(const Arguments& arguments, Backend& backend) {
    const DeviceId home = problem_.operands[kC].home;
    if (on_host(home)) return;
    for (std::int64_t item = 0; item < problem_.batch; ++item)
      backend.transfer(kPageable, item_view(kC, item), home, device_view(kC, item, arguments),
                       sizeof(T));
  }

  const Problem problem_;
  Random random_;
  T alpha_, beta_;
  std::vector<Guarded<T>> host_;
  std::vector<Expected> expected_;
};

}  // namespace fleet::test

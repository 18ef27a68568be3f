// SPDX-License-Identifier: BSD-3-Clause
// beside_backend.hpp: any backend, with the CPU's lane for what plans give the CPU. It knows no
// kind of backend.
#pragma once
#include <memory>
#include <utility>

#include "backend/cpu_beside.hpp"
#include "support/wrapped_backend.hpp"

namespace fleet::test {

class BesideBackend final : public WrappedBackend {
 public:
  /// The lane's products are `blas`'s, with one thread.
  BesideBackend(std::unique_ptr<Backend> devices, std::shared_ptr<CpuBlas> blas)
      : WrappedBackend(std::move(devices)), lane_(std::move(blas)) {}

  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    return beside_cpu(plan, WrappedBackend::begin(plan, binding, serial), lane_, 1);
  }

 private:
  CpuLane lane_;
};

}  // namespace fleet::test

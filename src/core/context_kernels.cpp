// SPDX-License-Identifier: BSD-3-Clause
// context_kernels.cpp: kernels outside of plans, on memory that lies in one place already.
#include "base/error.hpp"
#include "base/gate.hpp"
#include "core/context.hpp"
#include "core/readable.hpp"
#include "cpu/kernels.hpp"

namespace fleet {

void Context::compute_in_place(std::span<const Launch> launches,
                               std::span<const InPlace> operands) {
  const User inside(users_);
  if (options_.backend == BackendKind::sim)
    throw Error(Status::unsupported, "backend=sim computes nothing: it is for plans and timelines");
  std::array<DeviceTurn::Range, 3> ranges{};
  DeviceId home = kHost;
  bool is_here = true, is_together = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Block block = block_of(operands[i].view, operands[i].storage);
    settle(block, operands[i].access);
    const DeviceId found = locate(operands[i].view.data, block.bytes);
    if (i == 0) home = found;
    is_here = is_here && on_host(found);
    is_together = is_together && found == home;
    ranges[i] = {block.begin, block.bytes};
    if (gate::only_cpu_left()) require_readable(operands[i].view.data, block.bytes);
  }
  if (!is_here && !is_together)
    throw Error(Status::unsupported, "the operands lie in different places");
  if (is_here || gate::only_cpu_left()) {
    with_cpu([&](CpuBlas& blas) {
      for (const Launch& launch : launches) run_kernel(launch, blas);
    });
  } else {
    DeviceUse use = take_lock();
    Places places;
    places.add(home);
    use.take_when_free(places, ranges);
    if (offloader_.is_lost(home))
      throw Error(Status::device_failed,
                  "device " + offloader_.place_of(home) + ", which holds an operand, was lost");
    std::vector<DeviceLaunch> on_device;
    for (const Launch& launch : launches) on_device.push_back({home, launch});
    Backend& backend = *offloader_.engine().backend;
    Computing::note_other();  // no run beside it says how fast its kernels are
    const DeviceUse::Pause pause(&use);
    backend.compute(on_device);
  }
  for (const InPlace& operand : operands)
    if (operand.access != Access::read)
      queue_.note_written(block_of(operand.view, operand.storage));
}

}  // namespace fleet

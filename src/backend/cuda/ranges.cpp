// SPDX-License-Identifier: BSD-3-Clause
// ranges.cpp: names put together for NVTX, if anybody looks. It must not know streams.
#include "backend/cuda/ranges.hpp"

#include <nvtx3/nvToolsExt.h>

#include <new>
#include <string>

#include "problem/problem.hpp"
#include "sim/trace.hpp"

namespace fleet::cuda {
namespace {

std::string name_of(const Plan& plan) {
  if (plan.program->strips) return to_text(plan.program->strips->what);
  return plan.program->calls.empty() ? "copies" : to_text(plan.problem());
}

/// Tools copy the text, so `name` may go.
nvtxEventAttributes_t event(const std::string& name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name.c_str();
  return event;
}

/// Zero means none.
std::uint32_t category_of(TaskKind kind) { return static_cast<std::uint32_t>(kind) + 1; }

}  // namespace

// NVTX looks for a tool once in a process, and gives no domain where there is none.
Ranges::Ranges() : domain_(nvtxDomainCreateA("fleetblas")) {
  if (domain_ == nullptr) return;
  nvtxDomainNameCategoryA(domain_, category_of(TaskKind::fetch), "fetch");
  nvtxDomainNameCategoryA(domain_, category_of(TaskKind::compute), "compute");
  nvtxDomainNameCategoryA(domain_, category_of(TaskKind::writeback), "writeback");
}

Ranges::~Ranges() {
  if (domain_ != nullptr) nvtxDomainDestroy(domain_);
}

void Ranges::CallRange::open(const Plan& plan) {
  try {
    const std::string name = name_of(plan);
    const nvtxEventAttributes_t range = event(name);
    id_ = nvtxDomainRangeStartEx(domain_, &range);
  } catch (const std::bad_alloc&) {
    // Without a range: the call counts.
  }
}

void Ranges::CallRange::close() {
  if (id_) nvtxDomainRangeEnd(domain_, *id_);
}

bool Ranges::name_task(const Plan& plan, const Machine& machine, TaskId id) const {
  try {
    const Task& task = plan.tasks[static_cast<std::size_t>(id)];
    const Queue& queue = plan.queues[static_cast<std::size_t>(task.queue)];
    const std::string name = task_name(plan, task) + " " + queue_name(machine, queue);
    nvtxEventAttributes_t range = event(name);
    range.category = category_of(task.kind);
    range.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    range.payload.llValue = plan.program->moved_bytes_of(task.tile);
    nvtxDomainRangePushEx(domain_, &range);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Ranges::TaskRange::close() { nvtxDomainRangePop(domain_); }

}  // namespace fleet::cuda

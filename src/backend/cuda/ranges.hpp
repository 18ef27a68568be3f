// SPDX-License-Identifier: BSD-3-Clause
// ranges.hpp: what a profiler shows of this library: NVTX ranges with the names that plans and
// timelines use. It must not know streams.
#pragma once
#include <cstdint>
#include <optional>

#include "plan/plan.hpp"

struct nvtxDomainRegistration_st;

namespace fleet::cuda {

/// Ranges of the domain "fleetblas": one per call, and inside it one around what a thread does for
/// each task, which a profiler projects onto the work that was put into streams.
/// Without a tool a range is one comparison, and no name is made.
class Ranges {
 public:
  Ranges();
  ~Ranges();
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  /// Lives while a call runs; several may.
  class CallRange {
   public:
    CallRange(const Ranges& ranges, const Plan& plan) : domain_(ranges.domain_) {
      if (domain_ != nullptr) open(plan);
    }
    ~CallRange() {
      if (domain_ != nullptr) close();
    }
    CallRange(const CallRange&) = delete;
    CallRange& operator=(const CallRange&) = delete;

   private:
    void open(const Plan& plan);
    void close();
    nvtxDomainRegistration_st* domain_;
    std::optional<std::uint64_t> id_;
  };

  /// Lives while a task is put into its stream.
  class TaskRange {
   public:
    TaskRange(const Ranges& ranges, const Plan& plan, const Machine& machine, TaskId id)
        : domain_(ranges.domain_ != nullptr && ranges.name_task(plan, machine, id) ? ranges.domain_
                                                                                   : nullptr) {}
    ~TaskRange() {
      if (domain_ != nullptr) close();
    }
    TaskRange(const TaskRange&) = delete;
    TaskRange& operator=(const TaskRange&) = delete;

   private:
    void close();
    nvtxDomainRegistration_st* domain_;
  };

 private:
  bool name_task(const Plan& plan, const Machine& machine, TaskId id) const;

  nvtxDomainRegistration_st* domain_;  ///< none: no tool is attached
};

}  // namespace fleet::cuda

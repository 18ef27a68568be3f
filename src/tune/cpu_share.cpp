// SPDX-License-Identifier: BSD-3-Clause
// cpu_share.cpp: when the CPU may compute beside the devices. Pure.
#include "tune/cpu_share.hpp"

#include "program/decompose.hpp"

namespace fleet {

std::string why_no_cpu(const Problem& problem, const Machine& machine, const TuneRequest& request) {
  if (request.cpu_share && *request.cpu_share <= 0) return "cpu_share is off";
  if (request.preset != Preset::none) return "the preset leaves it out";
  if (request.own_copies) return "it multiplies in place, which deterministic results exclude";
  if (!request.rules.has(Rule::overlap)) return "the rule overlap is off";
  if (problem.batch > 1) return "items of a batch are not shared out to it";
  if (!may_have_cpu(problem)) return "an operand is on a device";
  if (!machine.can_compute(kHost, problem.type)) return "its rate for this type was not measured";
  if (request.cpu_part <= 0) return std::string(request.why_no_part);
  if (!request.goal.is_time() && !machine.devices[kHost].watts.known())
    return "its watts are not known";
  if (cpu_strip(problem, request.cpu_share.value_or(0.5)).empty()) return "C is too small";
  return "";
}

Tuning with_cpu(Tuning tuning, const Problem& problem, double share, double cpu_part) {
  tuning.workers.push_back(kHost);
  tuning.cpu_share = share_of(problem, cpu_strip(problem, share));
  tuning.cpu_part = cpu_part;
  tuning.inputs_first = false;  // it replaces its tiles at once
  return tuning;
}

}  // namespace fleet

// SPDX-License-Identifier: BSD-3-Clause
// text.cpp: the texts of the C API: allocated for the caller, given back with fleet_free_text.
// It decides nothing.
#include <cstdlib>

#include "api/boundary.hpp"
#include "core/doctor.hpp"
#include "core/probing.hpp"

using namespace fleet;  // NOLINT: this file is the border between the two languages

namespace {

/// malloc, so that the text outlives its context and no C++ is needed to free it.
char* copy_of(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

template <typename Make>
fleet_status give_text(fleet_context* context, char** text, Make&& make) {
  if (text != nullptr) *text = nullptr;
  return capi::guarded([&] {
    capi::required(text, "text");
    *text = copy_of(make(capi::context_of(context)));
  });
}

}  // namespace

void fleet_free_text(char* text) { std::free(text); }

fleet_status fleet_plan_json(fleet_context* context, const char* problem, char** text) {
  return give_text(context, text,
                   [&](Context& c) { return c.plan_json(capi::required(problem, "problem")); });
}

fleet_status fleet_simulate_json(fleet_context* context, const char* problem, char** text) {
  return give_text(context, text,
                   [&](Context& c) { return c.simulate_json(capi::required(problem, "problem")); });
}

fleet_status fleet_plan_program_json(fleet_context* context, const char* program, char** text) {
  return give_text(context, text, [&](Context& c) {
    return c.plan_program_json(capi::required(program, "program"));
  });
}

fleet_status fleet_simulate_program_json(fleet_context* context, const char* program, char** text) {
  return give_text(context, text, [&](Context& c) {
    return c.simulate_program_json(capi::required(program, "program"));
  });
}

fleet_status fleet_bound_json(fleet_context* context, const char* problem, char** text) {
  return give_text(context, text,
                   [&](Context& c) { return c.bound_json(capi::required(problem, "problem")); });
}

fleet_status fleet_trace_json(fleet_context* context, char** text) {
  return give_text(context, text, [](Context& c) { return c.trace_json(); });
}

fleet_status fleet_machine_json(fleet_context* context, char** text) {
  return give_text(context, text, [](Context& c) { return c.machine_json(); });
}

fleet_status fleet_config_json(fleet_context* context, char** text) {
  return give_text(context, text, [](Context& c) { return c.config_json(); });
}

fleet_status fleet_stats_json(fleet_context* context, char** text) {
  return give_text(context, text, [](Context& c) { return c.statistics_json(); });
}

fleet_status fleet_doctor_json(const char* options, char** text) {
  if (text != nullptr) *text = nullptr;
  return capi::guarded([&] {
    capi::required(text, "text");
    std::vector<std::string> complaints;
    Options read = read_options(complaints);
    if (options != nullptr) set_options(read, options);
    *text = copy_of(doctor_json(read, complaints));
  });
}

fleet_status fleet_probe_json(const char* options, const char* types, const char* file,
                              double budget_s, fleet_progress progress, void* user, char** text) {
  if (text != nullptr) *text = nullptr;
  return capi::guarded([&] {
    capi::required(text, "text");
    ProbeCall call{.types = types == nullptr ? "" : types,
                   .file = file == nullptr ? "" : file,
                   .budget_s = budget_s,
                   .progress = {}};
    if (progress != nullptr)
      call.progress = [&](const ProbeProgress& now) {
        return progress(user, now.share, now.what.c_str()) == 0;
      };
    *text = copy_of(probe_json(capi::options_from(options), call));
  });
}

// SPDX-License-Identifier: BSD-3-Clause
// context.cpp: two kinds of values, from the library's own text, need no reader of JSON.
#include "work/context.hpp"

#include "comm/comm.hpp"

namespace fleet::lu {
namespace {

/// Smaller memory is not worth being pinned.
constexpr std::size_t kWorthPinning = 1 << 20;

}  // namespace

void check(fleet_status status) {
  if (status != FLEET_OK) throw Failure(std::string("FleetBLAS: ") + fleet_message());
}

Context make_context(const std::string& options) {
  fleet_context* made = nullptr;
  check(fleet_context_create(options.c_str(), &made));
  return Context(made);
}

Pinned::Pinned(fleet_context* context, const std::vector<Memory>& memory) : context_(context) {
  for (const auto& [data, bytes] : memory)
    if (bytes >= kWorthPinning && fleet_host_register(context, data, bytes) == FLEET_OK)
      memory_.push_back(data);
}

Pinned::~Pinned() {
  for (void* const data : memory_) fleet_host_unregister(context_, data);
}

std::string config_value(fleet_context* context, const std::string& key) {
  char* text = nullptr;
  if (fleet_config_json(context, &text) != FLEET_OK) return {};
  const std::string config = text;
  fleet_free_text(text);
  const std::string name = "\"" + key + "\":";
  std::size_t begin = config.find(name);
  if (begin == config.npos) return {};
  begin = config.find_first_not_of(' ', begin + name.size());
  if (begin == config.npos || (config[begin] != '"' && config[begin] != '[')) return {};
  const std::size_t end = config.find(config[begin] == '"' ? '"' : ']', begin + 1);
  return end == config.npos ? std::string() : config.substr(begin + 1, end - begin - 1);
}

}  // namespace fleet::lu

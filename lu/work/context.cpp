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

namespace {

std::string config_of(fleet_context* context) {
  char* text = nullptr;
  if (fleet_config_json(context, &text) != FLEET_OK) return {};
  std::string config = text;
  fleet_free_text(text);
  return config;
}

/// Where the value of a key begins, the first of its name from `from` on; npos where there is none.
std::size_t find_value(const std::string& config, const std::string& key, std::size_t from) {
  const std::string name = "\"" + key + "\":";
  const std::size_t begin = config.find(name, from);
  return begin == config.npos ? begin : config.find_first_not_of(' ', begin + name.size());
}

}  // namespace

std::string config_value(fleet_context* context, const std::string& key) {
  const std::string config = config_of(context);
  const std::size_t begin = find_value(config, key, 0);
  if (begin == config.npos || (config[begin] != '"' && config[begin] != '[')) return {};
  const std::size_t end = config.find(config[begin] == '"' ? '"' : ']', begin + 1);
  return end == config.npos ? std::string() : config.substr(begin + 1, end - begin - 1);
}

Option option(fleet_context* context, const std::string& name) {
  const std::string config = config_of(context);
  std::size_t at = find_value(config, "options", 0);
  if (at != config.npos) at = find_value(config, name, at);
  if (at == config.npos) return {};
  const std::string of_it = config.substr(at, config.find('}', at) - at);
  const std::size_t value = find_value(of_it, "value", 0), origin = find_value(of_it, "origin", 0);
  if (value == of_it.npos || origin == of_it.npos) return {};
  const bool is_text = of_it[value] == '"';
  const std::size_t first = value + (is_text ? 1 : 0);
  return {of_it.substr(first, of_it.find_first_of(is_text ? "\"" : ", }", first) - first),
          of_it.compare(origin, 9, "\"default\"") != 0};
}

}  // namespace fleet::lu

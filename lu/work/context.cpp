// SPDX-License-Identifier: BSD-3-Clause
// context.cpp: two kinds of values, from the library's own text, need no reader of JSON.
#include "work/context.hpp"

#include "comm/comm.hpp"

namespace fleet::lu {

void check(fleet_status status) {
  if (status != FLEET_OK) throw Failure(std::string("FleetBLAS: ") + fleet_message());
}

Context make_context(const std::string& options) {
  fleet_context* made = nullptr;
  check(fleet_context_create(options.c_str(), &made));
  return Context(made);
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

// SPDX-License-Identifier: BSD-3-Clause
// machine_json.cpp: writes and reads machines as JSON, schema 2 (and reads schema 1). Devices and
// ports are referred to by name, so that a file can be read and edited by hand. It must not know
// what the numbers mean.
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "machine/machine.hpp"

namespace fleet {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Status::bad_file, "machine file: " + what);
}

const Json& member(const Json& object, const std::string& where, const char* key) {
  if (!object.is_object()) refuse(where + " is not an object");
  const auto it = object.find(key);
  if (it == object.end()) refuse(where + " has no '" + key + "'");
  return *it;
}

void know_only(const Json& object, const std::string& where, const std::set<std::string>& keys) {
  if (!object.is_object()) refuse(where + " is not an object");
  for (const auto& [key, value] : object.items())
    if (!keys.contains(key)) refuse(where + " has an unknown key '" + key + "'");
}

std::string text(const Json& object, const std::string& where, const char* key) {
  const Json& value = member(object, where, key);
  if (!value.is_string()) refuse(where + ": '" + key + "' is not a string");
  return value.get<std::string>();
}

double number(const Json& object, const std::string& where, const char* key) {
  const Json& value = member(object, where, key);
  if (!value.is_number()) refuse(where + ": '" + key + "' is not a number");
  return value.get<double>();
}

double at_least_zero(const Json& object, const std::string& where, const char* key) {
  if (!object.contains(key)) return 0;
  const double value = number(object, where, key);
  if (!(value >= 0) || !std::isfinite(value)) refuse(where + ": '" + key + "' is negative");
  return value;
}

double positive(const Json& object, const std::string& where, const char* key) {
  const double value = number(object, where, key);
  if (!(value > 0) || !std::isfinite(value)) refuse(where + ": '" + key + "' is not positive");
  return value;
}

/// A rate before runs corrected it; 0: they did not.
double measured(const Json& object, const std::string& where, const char* key = "measured") {
  return object.contains(key) ? positive(object, where, key) : 0;
}

std::int64_t whole(const Json& object, const std::string& where, const char* key) {
  const Json& value = member(object, where, key);
  if (!value.is_number_integer() || value.get<double>() > 9e18)
    refuse(where + ": '" + key + "' is not a whole number");
  return value.get<std::int64_t>();
}

const Json& list(const Json& object, const std::string& where, const char* key) {
  static const Json kEmpty = Json::array();
  if (!object.contains(key)) return kEmpty;
  const Json& value = member(object, where, key);
  if (!value.is_array()) refuse(where + ": '" + key + "' is not a list");
  return value;
}

template <typename Named>
int id_of(const std::vector<Named>& of, const std::string& name, const std::string& where,
          const char* kind) {
  for (std::size_t i = 0; i < of.size(); ++i)
    if (of[i].name == name) return static_cast<int>(i);
  refuse(where + " names " + kind + " '" + name + "', which does not exist");
}

std::vector<PortShare> read_shares(const Machine& m, const Json& object, const std::string& where) {
  std::vector<PortShare> shares;
  for (const Json& share : list(object, where, "ports")) {
    know_only(share, where + ", a port", {"port", "weight"});
    shares.push_back({id_of(m.ports, text(share, where, "port"), where, "port"),
                      positive(share, where, "weight")});
  }
  return shares;
}

std::vector<KernelRate> read_kernels(const Json& object, const std::string& where) {
  std::vector<KernelRate> kernels;
  for (const Json& kernel : list(object, where, "kernels")) {
    know_only(kernel, where + ", a kernel", {"type", "edge", "flops_per_s", "measured"});
    const std::string word = text(kernel, where, "type");
    const auto* type =
        std::ranges::find_if(kDataTypes, [&](DataType t) { return word == word_of(t); });
    if (type == kDataTypes.end())
      refuse(where + ": kernel type '" + word + "' is none of s, d, c, z, h, bf16, tf32");
    const KernelRate rate{*type, whole(kernel, where, "edge"),
                          positive(kernel, where, "flops_per_s"), measured(kernel, where)};
    if (rate.edge < 1) refuse(where + ": a kernel's edge is not positive");
    kernels.push_back(rate);
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const KernelRate& a, const KernelRate& b) {
    return a.type != b.type ? a.type < b.type : a.edge < b.edge;
  });
  for (std::size_t i = 1; i < kernels.size(); ++i)
    if (kernels[i].type == kernels[i - 1].type && kernels[i].edge == kernels[i - 1].edge)
      refuse(where + " gives the rate of one kernel twice");
  return kernels;
}

struct WattsKey {
  const char* name;
  double Watts::*value;
};
constexpr WattsKey kWattsKeys[] = {{"idle", &Watts::idle},     {"wait", &Watts::wait},
                                   {"copy", &Watts::copy},     {"exchange", &Watts::exchange},
                                   {"stream", &Watts::stream}, {"multiply", &Watts::multiply}};

Watts read_watts(const Json& object, const std::string& where, std::int64_t schema) {
  if (schema == 1) {
    const double idle = at_least_zero(object, where, "idle_watts");
    const double busy = at_least_zero(object, where, "busy_watts");
    return {idle, busy, busy, busy, busy, busy};
  }
  if (!object.contains("watts")) return {};
  const Json& of = member(object, where, "watts");
  const std::string here = where + ", watts";
  std::set<std::string> keys;
  for (const WattsKey& key : kWattsKeys) keys.insert(key.name);
  know_only(of, here, keys);
  Watts watts;
  for (const WattsKey& key : kWattsKeys) {
    member(of, here, key.name);
    watts.*key.value = at_least_zero(of, here, key.name);
  }
  if (!watts.known()) refuse(here + ": 'multiply' is not positive");
  return watts;
}

void read_panels(const Json& object, const std::string& where, Device& d) {
  std::set<std::string> names;
  for (std::size_t f = 0; f < d.panels.size(); ++f)
    names.insert(word_of(static_cast<Factoring>(f)));
  know_only(object, where, names);
  for (std::size_t f = 0; f < d.panels.size(); ++f) {
    const char* name = word_of(static_cast<Factoring>(f));
    if (!object.contains(name)) continue;
    const Json& times = object.at(name);
    const std::string here = where + ", " + name;
    know_only(times, here, {"column_s", "element_s", "widest"});
    d.panels[f] = {at_least_zero(times, here, "column_s"), at_least_zero(times, here, "element_s")};
    std::int64_t& widest = d.panels[f].widest;
    if (times.contains("widest")) widest = whole(times, here, "widest");
    if (widest < 1 || (widest > kWidestPanel && static_cast<Factoring>(f) != Factoring::potrf))
      refuse(here + ": 'widest' is less than 1, or more than " + std::to_string(kWidestPanel) +
             " in another routine than potrf");
  }
}

Device read_device(const Machine& m, const Json& object, const std::string& where,
                   std::int64_t schema) {
  std::set<std::string> keys = {"name",
                                "memory_bytes",
                                "lanes",
                                "launch_s",
                                "memory_bytes_per_s",
                                "kernels",
                                "ports",
                                "prepare_s",
                                "filling_elements",
                                "lanes_beside_solves",
                                "solve_row_s",
                                "plain_row_s",
                                "solve_element_s",
                                "inverse_order",
                                "triangle_share",
                                "memory_measured",
                                "beside",
                                "shares_host",
                                "in_place_share",
                                "panels"};
  if (schema == 1)
    keys.insert({"idle_watts", "busy_watts"});
  else
    keys.insert("watts");
  know_only(object, where, keys);
  Device d;
  d.name = text(object, where, "name");
  d.memory_bytes = whole(object, where, "memory_bytes");
  if (d.memory_bytes <= 0) refuse(where + ": 'memory_bytes' is not positive");
  const std::int64_t lanes = object.contains("lanes") ? whole(object, where, "lanes") : d.lanes;
  if (lanes < 1 || lanes > 256) refuse(where + ": 'lanes' is not between 1 and 256");
  d.lanes = static_cast<int>(lanes);
  const auto count = [&](const char* key, std::int64_t otherwise, std::int64_t least,
                         std::int64_t most) {
    if (!object.contains(key)) return otherwise;
    const std::int64_t value = whole(object, where, key);
    if (value < least || value > most)
      refuse(where + ": '" + key + "' is not between " + std::to_string(least) + " and " +
             std::to_string(most));
    return value;
  };
  d.filling_elements = count("filling_elements", d.filling_elements, 1, std::int64_t{1} << 40);
  d.lanes_beside_solves =
      static_cast<int>(count("lanes_beside_solves", d.lanes_beside_solves, 1, 256));
  d.inverse_order = count("inverse_order", d.inverse_order, 0, std::int64_t{1} << 40);
  d.solve_row_s = at_least_zero(object, where, "solve_row_s");
  d.plain_row_s = at_least_zero(object, where, "plain_row_s");
  d.solve_element_s = at_least_zero(object, where, "solve_element_s");
  d.prepare_s = at_least_zero(object, where, "prepare_s");
  if (object.contains("panels")) read_panels(object.at("panels"), where + ", panels", d);
  if (object.contains("triangle_share"))
    d.triangle_share = positive(object, where, "triangle_share");
  if (object.contains("shares_host")) {
    if (!object.at("shares_host").is_boolean()) refuse(where + ": 'shares_host' is no boolean");
    d.shares_host = object.at("shares_host").get<bool>();
  }
  if (object.contains("in_place_share"))
    d.in_place_share = positive(object, where, "in_place_share");
  if (d.in_place_share > 1) refuse(where + ": 'in_place_share' is more than 1");
  if (object.contains("beside")) d.beside = positive(object, where, "beside");
  d.launch_s = at_least_zero(object, where, "launch_s");
  d.memory_bytes_per_s = at_least_zero(object, where, "memory_bytes_per_s");
  d.memory_measured = measured(object, where, "memory_measured");
  d.kernels = read_kernels(object, where);
  d.ports = read_shares(m, object, where);
  d.watts = read_watts(object, where, schema);
  return d;
}

std::vector<ColumnRate> read_columns(const Json& object, const std::string& where,
                                     const char* key) {
  std::vector<ColumnRate> columns;
  const std::string here = where + ", " + key;
  for (const Json& column : list(object, where, key)) {
    know_only(column, here, {"bytes", "share"});
    const ColumnRate rate{whole(column, here, "bytes"), positive(column, here, "share")};
    if (rate.share > 1) refuse(here + ": 'share' is more than 1");
    if (rate.bytes <= (columns.empty() ? 0 : columns.back().bytes))
      refuse(here + " are not sorted by bytes");
    columns.push_back(rate);
  }
  return columns;
}

Link read_link(const Machine& m, const Json& object, const std::string& where) {
  know_only(object, where,
            {"from", "to", "latency_s", "sent_latency_s", "bytes_per_s", "columns", "near_columns",
             "ports", "measured"});
  Link l;
  l.source = id_of(m.devices, text(object, where, "from"), where, "device");
  l.target = id_of(m.devices, text(object, where, "to"), where, "device");
  if (l.source == l.target) refuse(where + " leads from a device to itself");
  if (m.find_link(l.source, l.target) >= 0) refuse(where + " appears twice");
  l.latency_s = at_least_zero(object, where, "latency_s");
  if (object.contains("sent_latency_s"))
    l.sent_latency_s = positive(object, where, "sent_latency_s");
  if (l.sent_latency_s > 0 && (on_host(l.source) || on_host(l.target)))
    refuse(where + ": 'sent_latency_s' is of links between devices");
  l.bytes_per_s = positive(object, where, "bytes_per_s");
  l.measured = measured(object, where);
  l.columns = read_columns(object, where, "columns");
  l.near_columns = read_columns(object, where, "near_columns");
  l.ports = read_shares(m, object, where);
  return l;
}

Machine read_machine(const Json& root) {
  know_only(root, "the file",
            {"schema", "name", "source", "notes", "issue_s", "devices", "ports", "links"});
  const std::int64_t schema = whole(root, "the file", "schema");
  if (schema < 1 || schema > kMachineSchema)
    refuse("schema " + std::to_string(schema) + ", this version reads schemas 1 to " +
           std::to_string(kMachineSchema));
  Machine m;
  m.name = text(root, "the file", "name");
  m.source = text(root, "the file", "source");
  m.issue_s = at_least_zero(root, "the file", "issue_s");
  for (const Json& object : list(root, "the file", "ports")) {
    const std::string where = "port " + std::to_string(m.ports.size());
    know_only(object, where, {"name", "capacity", "measured"});
    for (const Port& other : m.ports)
      if (other.name == text(object, where, "name")) refuse(where + " has the name of another");
    m.ports.push_back({text(object, where, "name"), positive(object, where, "capacity"),
                       measured(object, where)});
  }
  for (const Json& object : list(root, "the file", "devices")) {
    const Device d = read_device(m, object, "device " + std::to_string(m.devices.size()), schema);
    for (const Device& other : m.devices)
      if (other.name == d.name) refuse("two devices are named '" + d.name + "'");
    m.devices.push_back(d);
  }
  if (m.devices.size() < kFirstDevice || m.devices[kHost].name != "host" ||
      m.devices[kPageable].name != "pageable")
    refuse("the first two devices must be 'host' and 'pageable'");
  for (const Json& object : list(root, "the file", "links"))
    m.links.push_back(read_link(m, object, "link " + std::to_string(m.links.size())));
  for (DeviceId d = 0; d < std::ssize(m.devices); ++d) {
    const Device& device = m.devices[static_cast<std::size_t>(d)];
    if (device.shares_host &&
        (d < kFirstDevice || m.find_link(kHost, d) < 0 || m.find_link(d, kHost) < 0))
      refuse("device '" + device.name + "' shares the memory of the host without links with it");
  }
  return m;
}

Json write_shares(const Machine& m, const std::vector<PortShare>& shares) {
  Json out = Json::array();
  for (const PortShare& share : shares)
    out.push_back({{"port", m.ports.at(static_cast<std::size_t>(share.port)).name},
                   {"weight", share.weight}});
  return out;
}

void write_measured(Json& out, double rate) {
  if (rate > 0) out["measured"] = rate;
}

Json write_device(const Machine& m, const Device& d) {
  Json out = {{"name", d.name},
              {"memory_bytes", d.memory_bytes},
              {"lanes", d.lanes},
              {"launch_s", d.launch_s},
              {"memory_bytes_per_s", d.memory_bytes_per_s},
              {"kernels", Json::array()},
              {"ports", write_shares(m, d.ports)}};
  // Members with default values are left out, as in files written by hand.
  const Device usual;
  if (d.filling_elements != usual.filling_elements) out["filling_elements"] = d.filling_elements;
  if (d.lanes_beside_solves != usual.lanes_beside_solves)
    out["lanes_beside_solves"] = d.lanes_beside_solves;
  if (d.inverse_order != usual.inverse_order) out["inverse_order"] = d.inverse_order;
  if (d.prepare_s != usual.prepare_s) out["prepare_s"] = d.prepare_s;
  for (std::size_t f = 0; f < d.panels.size(); ++f)
    if (const PanelTimes& times = d.panels[f]; times != PanelTimes{}) {
      Json& panel = out["panels"][word_of(static_cast<Factoring>(f))];
      panel = {{"column_s", times.column_s}, {"element_s", times.element_s}};
      if (times.widest != kWidestPanel) panel["widest"] = times.widest;
    }
  if (d.solve_row_s != usual.solve_row_s) out["solve_row_s"] = d.solve_row_s;
  if (d.plain_row_s != usual.plain_row_s) out["plain_row_s"] = d.plain_row_s;
  if (d.solve_element_s != usual.solve_element_s) out["solve_element_s"] = d.solve_element_s;
  if (d.triangle_share != usual.triangle_share) out["triangle_share"] = d.triangle_share;
  if (d.memory_measured > 0) out["memory_measured"] = d.memory_measured;
  if (d.beside != usual.beside) out["beside"] = d.beside;
  if (d.shares_host) out["shares_host"] = true;
  if (d.in_place_share != usual.in_place_share) out["in_place_share"] = d.in_place_share;
  if (d.watts.known())
    for (const WattsKey& key : kWattsKeys) out["watts"][key.name] = d.watts.*key.value;
  for (const KernelRate& rate : d.kernels) {
    out["kernels"].push_back(
        {{"type", word_of(rate.type)}, {"edge", rate.edge}, {"flops_per_s", rate.flops_per_s}});
    write_measured(out["kernels"].back(), rate.measured);
  }
  return out;
}

Json write_link(const Machine& m, const Link& link) {
  Json out = {{"from", m.devices.at(static_cast<std::size_t>(link.source)).name},
              {"to", m.devices.at(static_cast<std::size_t>(link.target)).name},
              {"latency_s", link.latency_s},
              {"bytes_per_s", link.bytes_per_s}};
  if (link.sent_latency_s > 0) out["sent_latency_s"] = link.sent_latency_s;
  for (const auto& [key, columns] :
       {std::pair("columns", &link.columns), std::pair("near_columns", &link.near_columns)})
    for (const ColumnRate& column : *columns)
      out[key].push_back({{"bytes", column.bytes}, {"share", column.share}});
  out["ports"] = write_shares(m, link.ports);
  write_measured(out, link.measured);
  return out;
}

}  // namespace

std::string to_json(const Machine& m) {
  Json root = {{"schema", kMachineSchema}, {"name", m.name},         {"source", m.source},
               {"issue_s", m.issue_s},     {"ports", Json::array()}, {"devices", Json::array()},
               {"links", Json::array()}};
  for (const Port& port : m.ports) {
    root["ports"].push_back({{"name", port.name}, {"capacity", port.capacity}});
    write_measured(root["ports"].back(), port.measured);
  }
  for (const Device& device : m.devices) root["devices"].push_back(write_device(m, device));
  for (const Link& link : m.links) root["links"].push_back(write_link(m, link));
  return root.dump(1) + "\n";
}

Machine parse_machine(std::string_view text) {
  Json root;
  try {
    root = Json::parse(text);
  } catch (const Json::parse_error& e) {
    refuse("damaged JSON at byte " + std::to_string(e.byte));
  } catch (const Json::out_of_range&) {
    refuse("a number is out of range");
  }
  return read_machine(root);
}

Machine load_machine(const std::string& file_or_name, const std::string& shipped_folder) {
  const bool is_file =
      file_or_name.find('/') != std::string::npos || file_or_name.ends_with(".json");
  const std::string shipped = shipped_folder + "/" + file_or_name + ".json";
  const std::string file = !is_file && std::ifstream(shipped).good() ? shipped : file_or_name;
  std::ifstream in(file, std::ios::binary);
  if (!in.good())
    throw Error(Status::bad_file, "machine '" + file_or_name +
                                      "': no such file, and no shipped machine of that name");
  try {
    return parse_machine(std::string{std::istreambuf_iterator<char>(in), {}});
  } catch (const std::ios_base::failure&) {  // a folder can be opened but not read
    throw Error(Status::bad_file, file + ": cannot be read");
  } catch (const Error& e) {
    throw Error(e.status(), file + ": " + e.what());
  }
}

}  // namespace fleet

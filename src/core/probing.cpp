// SPDX-License-Identifier: BSD-3-Clause
// probing.cpp: finds the devices to measure, and keeps each measured part in the file. It must not
// know how anything is measured.
#include "core/probing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "backend/host/backend.hpp"
#include "backend/host/machine.hpp"
#include "backend/sim/backend.hpp"
#include "base/error.hpp"
#include "base/gate.hpp"
#include "core/engine.hpp"
#include "core/guarded_blas.hpp"
#include "machine/corrections.hpp"
#include "probe/probe.hpp"

namespace fleet {
namespace {

using Json = nlohmann::ordered_json;

std::vector<DataType> types_of(const std::string& words) {
  std::vector<DataType> types;
  std::istringstream stream(words);
  for (std::string word; std::getline(stream, word, ',');) {
    const std::size_t before = types.size();
    for (const DataType type : kDataTypes)
      if (word == word_of(type)) types.push_back(type);
    if (types.size() == before)
      throw Error(Status::bad_option, "types: '" + word + "' is none of s, d, c, z, h, bf16, tf32");
  }
  return types;
}

/// The parts to measure, and the initial rates.
struct Subject {
  std::unique_ptr<Backend> backend;
  Machine start;
  std::shared_ptr<CpuBlas> blas;  ///< none: the host is not measured
};

Subject subject_of(Options options) {
  options.inject = {};  // devices as they are
  if (options.backend == BackendKind::sim) {
    const auto named = named_machine(options);
    if (!named)
      throw Error(Status::bad_option, "backend=sim: expected machine=FILE or NAME with it");
    return {make_sim_backend(named->machine), named->machine, nullptr};
  }
  const auto blas = guarded(CpuBlas::load(options.cpu_blas));
  gate::install();
  options.machine.clear();
  Engine engine = start_engine(options, std::nullopt, blas);
  if (engine.backend == nullptr)
    throw Error(Status::unsupported,
                "there is no GPU to measure; backend=host measures virtual devices");
  Subject subject{std::move(engine.backend), uncorrected(*engine.machine), blas};
  if (options.backend == BackendKind::host) {
    // The engine's machine has only the values that its quick probe had time for.
    Machine shape = host_machine(subject.start.device_count(), core_count(),
                                 subject.start.devices[kFirstDevice].memory_bytes);
    for (std::size_t d = 0; d < shape.devices.size(); ++d)
      shape.devices[d].name = subject.start.devices[d].name;
    subject.backend = make_host_backend(shape, blas, options);
  }
  return subject;
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "?";
  return std::to_string(std::llround(100 * share)) + " %";
}

/// Types that the machine has rates of and that no part has measured.
std::vector<DataType> unmeasured(const Machine& machine, const ProbeReport& report) {
  std::vector<DataType> types;
  for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d)
    for (const KernelRate& rate : machine.devices[d].kernels)
      if (std::ranges::find(types, rate.type) == types.end()) types.push_back(rate.type);
  std::erase_if(types, [&](DataType type) {
    const std::string part = std::string("kernels ") + word_of(type);
    return std::ranges::find(report.done, part) != report.done.end();
  });
  return types;
}

/// The machine file. Its notes say how well each part was measured; readers may ignore them.
Json document_of(const Machine& machine, const ProbeReport& report, double budget_s,
                 const Json& earlier) {
  Json values = earlier;
  for (const ProbeValue& value : report.values)
    values.push_back({{"name", value.name},
                      {"unit", value.unit},
                      {"mean", value.mean},
                      {"interval", value.interval},
                      {"repeats", value.repeats},
                      {"settled", value.settled},
                      {"spread", value.spread}});
  Json unsettled = Json::array();
  for (const Json& value : values)
    if (!value["settled"].get<bool>()) {
      const int repeats = value["repeats"];
      const std::string name = value["name"];
      unsettled.push_back(repeats == 0 ? name + ": left out, no time for it"
                                       : name + ": known within " +
                                             percent(value["interval"].is_number()
                                                         ? value["interval"].get<double>()
                                                         : INFINITY) +
                                             " after " + std::to_string(repeats) +
                                             (repeats == 1 ? " repeat" : " repeats"));
    }
  for (const DataType type : unmeasured(machine, report))
    unsettled.push_back(std::string("kernels ") + word_of(type) +
                        ": not measured here, kept as they were known before");
  Json document;
  const Json bare = Json::parse(to_json(machine));
  for (const auto& [key, value] : bare.items()) {
    document[key] = value;
    if (key != "source") continue;
    document["notes"] = {{"unsettled", unsettled},
                         {"probe",
                          {{"complete", report.complete},
                           {"done", report.done},
                           {"budget_s", budget_s},
                           {"spent_s", report.spent_s},
                           {"values", values}}}};
  }
  return document;
}

/// Others see the old file or the new one, and a machine that crashes keeps one of them.
void replace_file(const std::string& file, const std::string& text) {
  const std::string partial = file + ".partial";
  std::ofstream stream(partial, std::ios::binary | std::ios::trunc);
  stream << text << '\n';
  stream.close();
  if (!stream || std::rename(partial.c_str(), file.c_str()) != 0) {
    std::remove(partial.c_str());
    throw Error(Status::bad_file, "cannot write " + file);
  }
}

/// The unfinished file of an earlier call.
struct Earlier {
  std::optional<Machine> machine;
  std::vector<std::string> done;
  Json values = Json::array();
};

Earlier read_earlier(const std::string& file, const Machine& shape) {
  Earlier earlier;
  std::ifstream stream(file, std::ios::binary);
  if (file.empty() || !stream) return earlier;
  try {
    const Json document = Json::parse(stream);
    const Json& probe = document.at("notes").at("probe");
    if (probe.at("complete").get<bool>()) return earlier;
    Machine machine = parse_machine(document.dump());
    if (!same_shape(machine, shape) || machine.name != shape.name) return earlier;
    earlier.done = probe.at("done").get<std::vector<std::string>>();
    earlier.values = probe.at("values");
    earlier.machine = std::move(machine);
  } catch (const Json::exception&) {  // of another kind: measured anew, and replaced
    return {};
  } catch (const Error&) {
    return {};
  }
  return earlier;
}

}  // namespace

std::string probe_json(const Options& options, const ProbeCall& call) {
  if (!(call.budget_s > 0)) throw Error(Status::bad_argument, "the budget has to be more than 0 s");
  ProbeRequest request;
  request.budget_s = call.budget_s;
  request.least_repeats = kCarefulRepeats;
  request.types = types_of(call.types);
  request.progress = call.progress;
  if (gate::only_cpu_left())
    throw Error(Status::unsupported, "nothing is measured in a forked child or at exit");
  const Subject subject = subject_of(options);
  const Earlier earlier = read_earlier(call.file, subject.backend->machine());
  request.start = earlier.machine ? &*earlier.machine : &subject.start;
  request.done = earlier.done;
  if (!call.file.empty())
    request.save = [&](const Machine& machine, const ProbeReport& report) {
      replace_file(call.file, document_of(machine, report, call.budget_s, earlier.values).dump(1));
    };
  ProbeReport report;
  const Machine machine = probe(*subject.backend, subject.blas.get(), request, report);
  subject.backend->trim();
  return document_of(machine, report, call.budget_s, earlier.values).dump(1);
}

}  // namespace fleet

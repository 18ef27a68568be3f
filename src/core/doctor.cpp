// SPDX-License-Identifier: BSD-3-Clause
// doctor.cpp: starts an engine as a context would, has everything examined, and writes it down. It
// must not keep anything.
#include "core/doctor.hpp"

#include <algorithm>

#include "backend/device_library.hpp"
#include "base/error.hpp"
#include "base/gate.hpp"
#include "base/json_text.hpp"
#include "core/corrections_text.hpp"
#include "core/engine.hpp"
#include "core/examine_settings.hpp"
#include "core/guarded_blas.hpp"
#include "probe/examine.hpp"

namespace fleet {
namespace {

using Verdict = Finding::Verdict;

class Doctor {
 public:
  explicit Doctor(const Options& options) : options_(options) {}

  void note(Finding finding) { findings_.push_back(std::move(finding)); }

  void look() {
    const std::shared_ptr<CpuBlas> blas = load_blas();
    for (Finding& finding : examine_host(options_, *blas)) note(std::move(finding));
    if (gate::only_cpu_left())
      note({"devices", Verdict::broken, "none in a forked child or at exit", ""});
    else
      look_at_devices(blas);
    look_at_disturbances();
  }

  std::string json() const {
    JsonText json;
    json.open('{')
        .member("healthy", std::ranges::none_of(findings_,
                                                [](const Finding& finding) {
                                                  return finding.verdict == Verdict::broken;
                                                }))
        .key("findings")
        .open('[');
    for (const Finding& finding : findings_)
      json.open('{')
          .member("subject", finding.subject)
          .member("verdict", to_string(finding.verdict))
          .member("text", finding.text)
          .member("advice", finding.advice)
          .close('}');
    return json.close(']').close('}').text();
  }

 private:
  /// The library of the options, or else any.
  std::shared_ptr<CpuBlas> load_blas() {
    std::shared_ptr<CpuBlas> blas;
    try {
      blas = CpuBlas::load(options_.cpu_blas);
    } catch (const Error& error) {
      note({"CPU BLAS", Verdict::broken, error.what(), "name another with FLEETBLAS_CPU_BLAS"});
      blas = CpuBlas::load("");
    }
    blas = guarded(blas);
    gate::install();
    return blas;
  }

  void look_at_devices(const std::shared_ptr<CpuBlas>& blas) {
    Engine engine;
    try {
      const auto named = named_machine(options_);
      if (options_.backend == BackendKind::sim && !named)
        throw Error(Status::bad_option, "backend=sim: expected machine=FILE or NAME with it");
      engine = start_engine(options_, named, blas);
    } catch (const Error& error) {
      note({"devices", Verdict::broken, error.what(), "until then the CPU BLAS does all products"});
      return;
    }
    const std::string changes = to_text(named_corrections(*engine.machine));
    note({"machine", Verdict::ok,
          engine.machine->name + " (" + engine.machine->source +
              (changes.empty() ? "" : "; corrected by runs: " + changes) + ")",
          ""});
    if (engine.backend == nullptr) {
      note_no_devices();
      return;
    }
    try {
      for (Finding& finding : engine.backend->examine()) note(std::move(finding));
      for (Finding& finding : examine_links(*engine.backend, *engine.machine))
        note(std::move(finding));
    } catch (const Error& error) {
      note({"devices", Verdict::broken, error.what(), ""});
    }
  }

  /// GPUs that fail to start are no error unless the options ask for them, so the reason is fetched
  /// again.
  std::string why_no_gpu() const {
    if (!may_have_gpus(options_)) return "no NVIDIA driver";
    try {
      std::string why;
      if (device_library(options_).count(why) == 0) return why;
      return "--backend cuda says why they do not start";
    } catch (const Error& error) {
      return error.what();
    }
  }

  void note_no_devices() {
    if (options_.backend == BackendKind::sim)
      note({"devices", Verdict::ok, "none: backend=sim only plans", ""});
    else if (options_.backend == BackendKind::automatic)
      note({"devices", Verdict::slow,
            "no usable GPU (" + why_no_gpu() + "): the CPU BLAS does all products",
            "virtual devices to try things out: --backend host"});
    else
      note({"devices", Verdict::broken, "the backend that was asked for is not in this build",
            "--backend auto takes what there is"});
  }

  void look_at_disturbances() {
    if (!options_.inject_text.empty())
      note({"inject", Verdict::slow, "faults on purpose are on: " + options_.inject_text,
            "unset FLEETBLAS_INJECT outside tests"});
    if (options_.device_memory > 0)
      note({"device_memory", Verdict::slow,
            "devices are held to " + std::to_string(options_.device_memory) + " bytes on purpose",
            "unset FLEETBLAS_DEVICE_MEMORY outside tests"});
    if (options_.offload == Offload::never)
      note({"offload", Verdict::slow, "never: devices are not used", "unset FLEETBLAS_OFFLOAD"});
  }

  const Options& options_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string doctor_json(const Options& options, const std::vector<std::string>& complaints) {
  Doctor doctor(options);
  for (const std::string& complaint : complaints)
    doctor.note({"settings", Verdict::broken, complaint, "it is left out until it is put right"});
  for (Finding& finding : examine_settings(options)) doctor.note(std::move(finding));
  doctor.look();
  return doctor.json();
}

}  // namespace fleet

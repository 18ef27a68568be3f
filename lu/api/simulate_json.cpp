// SPDX-License-Identifier: BSD-3-Clause
// simulate_json.cpp: the simulator behind the C API: JSON in, JSON out. It knows no rules of the
// model.
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "fleetblas/linpack.h"
#include "sim/simulate.hpp"

namespace fleet::lu {
namespace {

using nlohmann::json;

/// Ranks, and steps.
constexpr int kMost = 1000000;

struct BadWord : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The value of a constant, which stands beside its source.
const json& value(const json& part, const char* name) { return part.at(name).at("value"); }
double number(const json& part, const char* name) { return value(part, name).get<double>(); }
double number_or(const json& part, const char* name, double otherwise) {
  return part.contains(name) ? number(part, name) : otherwise;
}

RateTable rates(const json& part, const char* name) {
  RateTable table;
  if (!part.contains(name)) return table;
  for (const json& point : value(part, name))
    table.points.push_back({point.at(0).get<double>(), point.at(1).get<double>()});
  return table;
}

/// How many; or their speeds as parts of the fastest one's.
double gpus_of(const json& part) {
  const json& gpus = value(part, "gpus");
  if (!gpus.is_array()) return gpus.get<int>();
  double sum = 0;
  for (const json& speed : gpus) sum += speed.get<double>();
  return sum;
}

RankMeans means_of(const json& part) {
  RankMeans rank;
  rank.cores = value(part, "cores").get<int>();
  rank.core = rates(part, "core_rates");
  rank.memory_bytes_per_s = number(part, "memory_bytes_per_s");
  rank.rows_bytes_per_s = number_or(part, "rows_bytes_per_s", 0);
  rank.solve_share = number_or(part, "solve_share", 1);
  rank.gpus = gpus_of(part);
  rank.gpu = rates(part, "gpu_rates");
  rank.gpu_memory_bytes_per_s = number_or(part, "gpu_memory_bytes_per_s", 0);
  rank.transfer_latency_s = number_or(part, "transfer_latency_s", 0);
  rank.transfer_bytes_per_s = number_or(part, "transfer_bytes_per_s", 0);
  rank.resident = part.contains("resident") && value(part, "resident").get<bool>();
  rank.gpu_panel = {number_or(part, "gpu_panel_column_s", 0),
                    number_or(part, "gpu_panel_element_s", 0)};
  return rank;
}

Cluster cluster_of(const json& file) {
  Cluster cluster;
  cluster.rank = means_of(file.at("rank"));
  const json& node = file.at("node");
  cluster.node_rows = value(node, "rank_rows").get<int>();
  cluster.node_cols = value(node, "rank_cols").get<int>();
  cluster.machine = {number_or(node, "shared_cores", 0), number_or(node, "message_cores", 0)};
  if (cluster.machine.cores > 0 && cluster.rank.gpus > 0)
    throw std::invalid_argument("ranks that share cores have no GPUs");
  const json& links = file.at("links");
  const double sharing = cluster.node_rows * cluster.node_cols / number(links, "per_node");
  cluster.network = {number(links, "latency_s"), number(links, "bytes_per_s") / sharing};
  cluster.local = {number_or(links, "local_latency_s", cluster.network.latency_s),
                   number_or(links, "local_bytes_per_s", cluster.network.bytes_per_s)};
  cluster.chain = {number(links, "segment_bytes"), number(links, "segment_link_share"),
                   number(links, "segment_trips"), number_or(links, "exchange_share", 1)};
  return cluster;
}

/// The place of `word` among `words`.
template <typename Enum>
Enum one_of(const json& run, const char* name, std::initializer_list<const char*> words) {
  const auto word = run.at(name).get<std::string>();
  int place = 0;
  for (const char* known : words) {
    if (word == known) return static_cast<Enum>(place);
    ++place;
  }
  throw BadWord(std::string(name) + " means nothing: " + word);
}

std::optional<double> share(const json& run, const char* name) {
  const auto found = run.find(name);
  if (found == run.end() || found->is_null()) return {};
  const auto given = found->get<double>();
  if (!(given >= 0 && given <= 1))
    throw std::invalid_argument(std::string(name) + " is not between 0 and 1");
  return given;
}

Sharing sharing_of(const json& run) {
  if (!run.contains("shares")) return Sharing::given;
  return one_of<Sharing>(run, "shares", {"given", "measured"});
}

Simulation simulation_of(const json& run) {
  Simulation wanted;
  wanted.shape = {run.at("n").get<std::int64_t>(), run.at("nb").get<std::int64_t>(),
                  run.at("rows").get<int>(), run.at("cols").get<int>()};
  const Shape& shape = wanted.shape;
  if (shape.n < 1 || shape.nb < 1 || shape.rows < 1 || shape.cols < 1)
    throw std::invalid_argument("n, nb, rows and cols are at least 1");
  if (shape.rows > kMost / shape.cols || shape.n / kMost > shape.nb)
    throw std::invalid_argument("more than a million ranks or steps");
  wanted.overlap = one_of<Overlap>(run, "overlap", {"none", "lookahead", "dedicated", "full"});
  wanted.algorithm = one_of<Algorithm>(run, "tasks", {"pivoted", "unpivoted", "skeleton", "hpl"});
  wanted.transfers = one_of<Transfers>(run, "transfers", {"first", "overlap"});
  wanted.shares = {share(run, "solve_share"), share(run, "ahead_share"),
                   share(run, "product_share")};
  wanted.sharing = sharing_of(run);
  return wanted;
}

/// What Table 1 of paper 3 calls peaks, of one rank.
double peak_of(const json& part) {
  return number(part, "core_peak_flops_per_s") * number(part, "cores") +
         number_or(part, "gpu_peak_flops_per_s", 0) * gpus_of(part);
}

void require_finite(double seconds) {
  if (!std::isfinite(seconds))
    throw std::invalid_argument("a rate or a bandwidth of the cluster is zero");
}

json result_of(const Simulated& done, const Shape& shape, double peak) {
  require_finite(done.seconds);
  constexpr const char* kNames[kSpentKinds] = {"panel", "pivots",  "copy", "solve",
                                               "ahead", "product", "wait", "wait_rows"};
  const double ranks = shape.rows * shape.cols;
  json rank_s;
  for (std::size_t i = 0; i < kSpentKinds; ++i) rank_s[kNames[i]] = done.totals.rank_s[i] / ranks;
  constexpr const char* kKinds[kWorks] = {"solve", "ahead", "alone", "overlapped"};
  json cpu_shares = json::object();
  for (std::size_t i = 0; i < kWorks; ++i)
    if (done.cpu_shares[i]) cpu_shares[kKinds[i]] = *done.cpu_shares[i];
  return {{"seconds", done.seconds},
          {"cpu_shares", cpu_shares},
          {"flops_per_s", done.flops_per_s},
          {"share_of_peak", done.flops_per_s / (peak * ranks)},
          {"substitution_s", done.substitution_s},
          {"message_s", done.totals.message_s / ranks},
          {"transfer_s", done.totals.transfer_s / ranks},
          {"rank_s", rank_s}};
}

json product_of(const Cluster& cluster, const json& run, double peak) {
  const auto size = run.at("product").get<std::array<double, 3>>();
  const auto transfers = one_of<Transfers>(run, "transfers", {"first", "overlap"});
  if (!(size[0] > 0 && size[1] > 0 && size[2] > 0))
    throw std::invalid_argument("sizes of a product are positive");
  BalancedProduct done;
  if (sharing_of(run) == Sharing::measured) {
    done = balanced_product(cluster.rank, size[0], size[1], size[2], transfers);
  } else {
    done.cpu_share = share(run, "product_share").value_or(0);
    done.seconds = product_s(cluster.rank, size[0], size[1], size[2], done.cpu_share, transfers);
  }
  require_finite(done.seconds);
  const double rate = 2 * size[0] * size[1] * size[2] / done.seconds;
  return {{"seconds", done.seconds},
          {"flops_per_s", rate},
          {"share_of_peak", rate / peak},
          {"cpu_share", done.cpu_share}};
}

json simulated(const char* cluster_text, const char* run_text) {
  const json file = json::parse(cluster_text);
  const Cluster cluster = cluster_of(file);
  json run = file.value("run", json::object());
  run.update(json::parse(run_text));
  const double peak = peak_of(file.at("rank"));
  if (run.contains("product")) return product_of(cluster, run, peak);
  const Simulation wanted = simulation_of(run);
  return result_of(simulate(cluster, wanted), wanted.shape, peak);
}

char* copied(const std::string& text) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace
}  // namespace fleet::lu

fleet_status fleet_linpack_simulate_json(const char* cluster, const char* run, char** text) {
  if (text == nullptr) return FLEET_BAD_ARGUMENT;
  *text = nullptr;
  if (cluster == nullptr || run == nullptr) return FLEET_BAD_ARGUMENT;
  const auto fail = [text](fleet_status status, const char* reason) {
    *text = fleet::lu::copied(reason);
    return status;
  };
  try {
    *text = fleet::lu::copied(fleet::lu::simulated(cluster, run).dump());
    return *text == nullptr ? FLEET_NO_MEMORY : FLEET_OK;
  } catch (const std::bad_alloc&) {
    return FLEET_NO_MEMORY;
  } catch (const nlohmann::json::exception& error) {
    return fail(FLEET_BAD_FILE, error.what());
  } catch (const fleet::lu::BadWord& error) {
    return fail(FLEET_BAD_OPTION, error.what());
  } catch (const std::invalid_argument& error) {
    return fail(FLEET_BAD_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return fail(FLEET_INTERNAL, error.what());
  }
}

void fleet_linpack_free_text(char* text) { std::free(text); }

// SPDX-License-Identifier: BSD-3-Clause
// queues.cpp: which queues go in turn. It must not know tasks.
#include "plan/queues.hpp"

namespace fleet {
namespace {

/// The device that all matrices of a call are at home on, on which all others then wait; or the
/// host, if there is none. Several calls pass results to each other, and parts of k sums.
DeviceId only_source(const Plan& plan) {
  const TileProgram& program = *plan.program;
  const auto first = std::ranges::find(program.matrices, false, &Matrix::is_scratch);
  if (first == program.matrices.end() || program.calls.size() != 1 || plan.tuning.split_k)
    return kHost;
  const bool alone = std::all_of(first, program.matrices.end(), [&](const Matrix& matrix) {
    return matrix.is_scratch ||
           (matrix.home == first->home && !matrix.stays && !matrix.distribution);
  });
  return alone ? first->home : kHost;
}

/// Does the home of some data of a call have other workers to send them to?
bool serves_others(DeviceId home, const std::vector<DeviceId>& workers) {
  return !on_host(home) && std::ranges::count(workers, home) < std::ssize(workers);
}

/// By device, the bytes of matrices that are at home there: a rough measure of what it will send.
std::vector<std::int64_t> bytes_at_home(const TileProgram& program, std::size_t devices) {
  std::vector<std::int64_t> bytes(devices, 0);
  for (const Matrix& matrix : program.matrices) {
    // Tiles of what stays or is dealt are on all devices.
    const bool is_used = matrix.is_read || matrix.is_written;
    if (!is_used || matrix.is_scratch || matrix.stays || matrix.distribution) continue;
    const std::int64_t elements =
        std::int64_t{matrix.items} * matrix.row_cuts.back() * matrix.col_cuts.back();
    bytes[static_cast<std::size_t>(matrix.home)] +=
        elements * bytes_of(matrix.storage) / (matrix.diagonal == Fill::full ? 1 : 2);
  }
  return bytes;
}

/// Gives the plan the queues of what the homes of its matrices send and get, where they send in
/// turn. What a device fetches, or passes on, waits behind all that it has to send. So what goes on
/// to workers is sent by its source if that has less at home than the target; else the target, with
/// no more to send, fetches it.
SentQueues add_sent_queues(Plan& plan, const Machine& machine) {
  const TileProgram& program = *plan.program;
  const std::vector<DeviceId>& workers = plan.tuning.workers;
  const auto sends_some = [&](const Matrix& matrix) {
    return !matrix.is_scratch && serves_others(matrix.home, workers);
  };
  if (program.calls.size() != 1 || std::ranges::none_of(program.matrices, sends_some)) return {};
  const std::vector<char> in_turn = machine.sends_in_turn();
  std::vector<char> sends(in_turn.size(), 0), gets(sends), works(sends);
  for (const Matrix& matrix : program.matrices) {
    if (!sends_some(matrix)) continue;
    const auto home = static_cast<std::size_t>(matrix.home);
    sends[home] = in_turn[home];
    if (matrix.is_written) gets[home] = in_turn[home];
  }
  if (std::ranges::find(sends, 1) == sends.end()) return {};
  for (const DeviceId worker : workers) works[static_cast<std::size_t>(worker)] = 1;
  const std::vector<std::int64_t> at_home = bytes_at_home(program, in_turn.size());
  SentQueues queues(machine);
  for (LinkId id = 0; id < std::ssize(machine.links); ++id) {
    const Link& link = machine.links[static_cast<std::size_t>(id)];
    if (on_host(link.source) || on_host(link.target)) continue;
    const auto source = static_cast<std::size_t>(link.source);
    const auto target = static_cast<std::size_t>(link.target);
    const auto add = [&](Sent sent) {
      queues.add(id, sent, link.source, static_cast<QueueId>(plan.queues.size()));
      plan.queues.push_back({.kind = Queue::Kind::link,
                             .device = link.target,
                             .source = link.source,
                             .in_turn = true,
                             .sent = sent});
    };
    if (sends[source] != 0 && works[target] != 0) add(Sent::inputs);
    if ((works[source] != 0 || sends[source] != 0) && works[target] != 0 &&
        at_home[source] < at_home[target])
      add(Sent::passed);
    if (gets[target] != 0 && works[source] != 0) add(Sent::results);
  }
  return queues;
}

}  // namespace

std::vector<char> sending_in_turn(const Machine& machine, DeviceId home,
                                  const std::vector<DeviceId>& workers) {
  return serves_others(home, workers) ? machine.sends_in_turn()
                                      : std::vector<char>(machine.devices.size(), 0);
}

SentQueues send_in_turn(Plan& plan, const Machine& machine) {
  if (!plan.tuning.rules.has(Rule::overlap)) return {};
  const std::vector<char> in_turn =
      sending_in_turn(machine, only_source(plan), plan.tuning.workers);
  for (Queue& queue : plan.queues)
    queue.in_turn = queue.kind == Queue::Kind::link && !on_host(queue.device) &&
                    in_turn[static_cast<std::size_t>(queue.source)] != 0;
  return sends_in_turn(plan) ? SentQueues{} : add_sent_queues(plan, machine);
}

}  // namespace fleet

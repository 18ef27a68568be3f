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

/// Gives the plan the queues of what the homes of its matrices send and get, where they send in
/// turn. What goes on to workers is sent then too: what a device fetches would wait until it has
/// nothing more to send.
void add_sent_queues(Plan& plan, const Machine& machine) {
  const TileProgram& program = *plan.program;
  if (program.calls.size() != 1) return;
  const std::vector<DeviceId>& workers = plan.tuning.workers;
  std::vector<char> sends(machine.devices.size(), 0), gets(sends), works(sends);
  for (const Matrix& matrix : program.matrices) {
    const auto home = static_cast<std::size_t>(matrix.home);
    if (matrix.is_scratch || on_host(matrix.home)) continue;
    if (sends[home] == 0) sends[home] = sending_in_turn(machine, matrix.home, workers)[home];
    if (matrix.is_written) gets[home] = sends[home];
  }
  if (std::ranges::find(sends, 1) == sends.end()) return;
  for (const DeviceId worker : workers) works[static_cast<std::size_t>(worker)] = 1;
  for (const Link& link : machine.links) {
    if (on_host(link.source) || on_host(link.target)) continue;
    const auto source = static_cast<std::size_t>(link.source);
    const auto target = static_cast<std::size_t>(link.target);
    const auto add = [&](Sent sent) {
      plan.queues.push_back({.kind = Queue::Kind::link,
                             .device = link.target,
                             .source = link.source,
                             .in_turn = true,
                             .sent = sent});
    };
    if (sends[source] != 0 && works[target] != 0) add(Sent::inputs);
    if (works[target] != 0) add(Sent::passed);
    if (gets[target] != 0 && works[source] != 0) add(Sent::results);
  }
}

}  // namespace

std::vector<char> sending_in_turn(const Machine& machine, DeviceId home,
                                  const std::vector<DeviceId>& workers) {
  const auto targets =
      static_cast<std::ptrdiff_t>(workers.size()) - std::ranges::count(workers, home);
  if (on_host(home) || targets < 2) return std::vector<char>(machine.devices.size(), 0);
  return machine.sends_in_turn();
}

void send_in_turn(Plan& plan, const Machine& machine) {
  if (!plan.tuning.rules.has(Rule::overlap)) return;
  const std::vector<char> in_turn =
      sending_in_turn(machine, only_source(plan), plan.tuning.workers);
  for (Queue& queue : plan.queues)
    queue.in_turn = queue.kind == Queue::Kind::link && !on_host(queue.device) &&
                    in_turn[static_cast<std::size_t>(queue.source)] != 0;
  if (!sends_in_turn(plan)) add_sent_queues(plan, machine);
}

SentQueues::SentQueues(const Plan& plan, const Machine& machine) {
  const auto at = [&](DeviceId source, DeviceId target) {
    return static_cast<std::size_t>(source) * machine.devices.size() +
           static_cast<std::size_t>(target);
  };
  std::vector<std::size_t> links;  // by pair of devices
  for (std::size_t q = machine.links.size(); q < plan.queues.size(); ++q) {
    const Queue& queue = plan.queues[q];
    if (queue.kind != Queue::Kind::link) continue;
    if (links.empty()) {
      queues_.resize(machine.links.size(), {-1, -1, -1});
      sends_.resize(machine.devices.size(), 0);
      links.resize(machine.devices.size() * machine.devices.size());
      for (std::size_t l = 0; l < machine.links.size(); ++l)
        links[at(machine.links[l].source, machine.links[l].target)] = l;
    }
    if (queue.sent == Sent::inputs) sends_[static_cast<std::size_t>(queue.source)] = 1;
    queues_[links[at(queue.source, queue.device)]][static_cast<std::size_t>(queue.sent)] =
        static_cast<QueueId>(q);
  }
}

QueueId SentQueues::of(LinkId link, Sent sent) const {
  if (!any()) return link;
  const QueueId queue = queues_[static_cast<std::size_t>(link)][static_cast<std::size_t>(sent)];
  return queue < 0 ? link : queue;
}

}  // namespace fleet

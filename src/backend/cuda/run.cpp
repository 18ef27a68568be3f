// SPDX-License-Identifier: BSD-3-Clause
// run.cpp: events between streams, flags between streams and the CPU's copies. It must not
// know who asked for the run.
#include "backend/cuda/run.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "backend/cuda/copies.hpp"
#include "backend/cuda/elementwise.hpp"
#include "backend/cuda/factoring.hpp"
#include "backend/cuda/known_kernels.hpp"
#include "backend/cuda/senders.hpp"
#include "base/clock.hpp"
#include "base/sizes.hpp"
#include "cpu/blas.hpp"

namespace fleet::cuda {
namespace {

/// With overlap off, the host has one queue for all tasks that end there: copies by the CPU and by
/// any device, one after the other.
bool is_mixed(const Queue& queue) {
  return queue.kind == Queue::Kind::device && on_host(queue.device);
}

/// Copies with both ends in host memory are the CPU's.
bool is_staged(const Task& task) {
  return task.kind != TaskKind::compute && on_host(task.from.device) && on_host(task.to.device);
}

/// So are kernels there: C is only scaled, in place, and what the CPU computes beside the devices
/// is a kernel on nothing here.
bool is_cpus(const Task& task) {
  return on_host(task.to.device) && (task.kind == TaskKind::compute || on_host(task.from.device));
}

}  // namespace

std::int64_t Run::calls_of(const Plan& plan) {
  // A block of a solution: a product by its inverse, and one for those behind. Copies of right-hand
  // sides, a few for each solution, do not count.
  constexpr std::int64_t kCallsOfBlock = 2;
  const TileProgram& program = *plan.program;
  std::int64_t calls = 0;
  for (const Task& task : plan.tasks) {
    calls += task.chunks;
    if (task.kernel != Kernel::solve || task.kind != TaskKind::compute) continue;
    const TileId triangle = program.op(task.op).inputs[0].tile;
    const Matrix& of = program.matrix_of(triangle);
    calls += kCallsOfBlock * ceil_div(program.rows_of(triangle), inverse_block(of.storage));
  }
  return calls;
}

bool Run::stages(const Plan& plan) { return std::ranges::any_of(plan.tasks, is_staged); }

bool Run::can_capture(const Plan& plan) {
  return !plan.tasks.empty() && std::ranges::none_of(plan.tasks, is_cpus) &&
         std::ranges::none_of(plan.queues, is_mixed);
}

bool Run::can_share() const {
  return staged_count_ == 0 && std::ranges::none_of(lanes_, &Lane::mixed);
}

void Run::open(const Plan& plan, bool timed, Stager* stager, DeviceScope& scope) {
  stager_ = stager;
  timed_ = timed;
  capturing_ = false;
  events_ = timed ? &timed_events_ : &untimed_;
  prepare(plan, scope);
  if (timed_) start_clock();
  // Last: its threads wait for the run from here on.
  if (staged_count_ > 0 && !stager_->begin(staged_count_))
    throw Error(Status::no_memory, "the system gives no threads to copy pageable memory");
}

void Run::open_capture(const Plan& plan, DeviceScope& scope) {
  timed_ = false;
  events_ = &untimed_;
  prepare(plan, scope);
  origin_ = &stream_of(0);
  use(*origin_);
  check(cudaStreamBeginCapture(origin_->stream, cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  capturing_ = true;
  const cudaEvent_t root = mark(*origin_);
  for (const Stream* stream : used_)
    if (stream != origin_) await(*stream, root);
}

void Run::share(Issuers& issuers) {
  try {
    if (issuers.begin(ordinals_, plan_->tasks.size())) issuers_ = &issuers;
  } catch (const std::bad_alloc&) {
    // This thread does it.
  }
}

/// This thread scales what lies at home.
bool Run::is_done_when_put(TaskId id) const { return is_cpus(task(id)) && !staged(id); }

bool Run::is_shared(TaskId id) const { return issuers_ != nullptr && !is_cpus(task(id)); }

void Run::post(TaskId id, std::function<void()> put) {
  issuers_->post(thread_of(id), id, std::move(put));
}

bool Run::is_put_from(TaskId id, int thread) const {
  if (is_shared(id) && thread_of(id) != thread) issuers_->await(thread_of(id), id);
  return has_put(id);
}

bool Run::await_needs(TaskId id) const {
  if (!is_shared(id)) return true;
  const int thread = thread_of(id);
  const TaskId upstream = task(id).upstream;
  return std::ranges::all_of(plan_->after(task(id)),
                             [&](TaskId earlier) { return is_put_from(earlier, thread); }) &&
         (upstream == kNoTask || is_put_from(upstream, thread));
}

int Run::finish_putting() {
  if (issuers_ == nullptr) return 0;
  issuers_->finish(ordinals_);
  issuers_ = nullptr;
  return device_count();
}

/// A thread of a shared run belongs to one device.
void Run::use(const Stream& stream) {
  if (issuers_ == nullptr) return scope_->use(stream.ordinal);
  keep_device(stream.ordinal);
}

void Run::prepare(const Plan& plan, DeviceScope& scope) {
  plan_ = &plan;
  scope_ = &scope;
  opened_s_ = now_s();
  events_->reset();
  const std::size_t tasks = plan.tasks.size();
  put_.assign(tasks, 0);
  at_home_.clear();
  ends_.assign(tasks, {});
  chunks_.assign(tasks, {});
  staged_.assign(tasks, -1);
  staged_count_ = 0;
  for (std::size_t id = 0; id < tasks; ++id)
    if (is_staged(plan.tasks[id])) staged_[id] = staged_count_++;
  find_streams();
  find_needs();
}

void Run::find_streams() {
  const std::vector<Queue> served = served_by(*plan_);
  lanes_.assign(plan_->queues.size(), {});
  used_.clear();
  ordinals_.clear();
  for (TaskId id = 0; id < static_cast<TaskId>(plan_->tasks.size()); ++id) {
    Lane& lane = lanes_[static_cast<std::size_t>(task(id).queue)];
    const Queue& queue = plan_->queues[static_cast<std::size_t>(task(id).queue)];
    lane.mixed = is_mixed(queue);
    if (is_cpus(task(id)) || lane.stream != nullptr) continue;
    if (!lane.mixed) lane.stream = &streams_.of(served[static_cast<std::size_t>(task(id).queue)]);
    Stream& stream = stream_of(id);
    if (std::ranges::find(used_, &stream) != used_.end()) continue;
    used_.push_back(&stream);
    if (std::ranges::find(ordinals_, stream.ordinal) != ordinals_.end()) continue;
    ordinals_.push_back(stream.ordinal);
    events_->make_room(static_cast<std::size_t>(stream.ordinal) + 1);
  }
}

void Run::find_needs() {
  needed_.assign(plan_->tasks.size(), 0);
  watched_.assign(plan_->tasks.size(), 0);
  for (std::size_t id = 0; id < plan_->tasks.size(); ++id) {
    const Task& now = plan_->tasks[id];
    // After a fault, it matters which tiles have come home.
    const bool mixed = lanes_[static_cast<std::size_t>(now.queue)].mixed;
    if (now.kind == TaskKind::writeback || mixed) needed_[id] = 1;
    for (const TaskId earlier : plan_->after(now))
      if (task(earlier).queue != now.queue) needed_[static_cast<std::size_t>(earlier)] = 1;
    if (now.upstream != kNoTask) {
      needed_[static_cast<std::size_t>(now.upstream)] = 1;
      watched_[static_cast<std::size_t>(now.upstream)] = now.chunks > 1;
    }
  }
}

/// Places an event of each device on the host's clock. The shortest of a few tries counts: it was
/// disturbed least.
void Run::start_clock() {
  epochs_.clear();
  for (TaskId id = 0; id < static_cast<TaskId>(plan_->tasks.size()); ++id) {
    if (is_cpus(task(id))) continue;
    Stream& stream = stream_of(id);
    const auto ordinal = static_cast<std::size_t>(stream.ordinal);
    if (epochs_.size() <= ordinal) epochs_.resize(ordinal + 1);
    if (epochs_[ordinal].event != nullptr) continue;
    double least_s = 1e300;
    for (int attempt = 0; attempt < 3; ++attempt) {
      const double before_s = now_s();
      const cudaEvent_t event = mark(stream);
      check(cudaEventSynchronize(event), "cudaEventSynchronize");
      const double took_s = now_s() - before_s;
      if (took_s < least_s) epochs_[ordinal] = {event, before_s + took_s / 2};
      least_s = std::min(least_s, took_s);
    }
  }
  opened_s_ = now_s();
}

cudaEvent_t Run::mark(Stream& stream) {
  use(stream);
  const cudaEvent_t event = events_->next(stream.ordinal);
  check(cudaEventRecord(event, stream.stream), "cudaEventRecord");
  return event;
}

void Run::await(const Stream& stream, cudaEvent_t event) {
  check(cudaStreamWaitEvent(stream.stream, event, 0), "cudaStreamWaitEvent");
}

/// This thread waits. What has been put before can end without it.
void Run::await_here(TaskId earlier) {
  constexpr int kNoThread = -1;
  if (!is_put_from(earlier, kNoThread) ||
      (staged(earlier) && !stager_->await(staged_[static_cast<std::size_t>(earlier)])))
    throw Error(Status::device_failed, "what the host is to scale was not written");
  if (!staged(earlier) && !is_done_when_put(earlier))
    check(cudaEventSynchronize(ends(earlier).stop), "cudaEventSynchronize");
}

void Run::await_task(TaskId earlier, Stream& stream) {
  if (is_done_when_put(earlier)) return;
  if (staged(earlier))
    stager_->hold(stream.stream, staged_[static_cast<std::size_t>(earlier)]);
  else
    await(stream, ends(earlier).stop);
}

/// The stream of the task, which now waits for everything that the first piece of it needs.
Stream& Run::begin(TaskId id) {
  const Task& now = task(id);
  Stream& stream = stream_of(id);
  use(stream);
  for (const TaskId earlier : plan_->after(now))
    if (task(earlier).queue != now.queue) await_task(earlier, stream);
  const Lane& lane = lanes_[static_cast<std::size_t>(now.queue)];
  if (lane.mixed && lane.last != kNoTask) await_task(lane.last, stream);
  return stream;
}

void Run::note_start(TaskId id, Stream& stream) {
  if (timed_) ends(id).start = mark(stream);
}

void Run::end(TaskId id, Stream& stream) {
  if (timed_ || needed_[static_cast<std::size_t>(id)]) ends(id).stop = mark(stream);
  lanes_[static_cast<std::size_t>(task(id).queue)].last = id;
  put_[static_cast<std::size_t>(id)] = 1;
}

Stream& Run::stream_of(TaskId id) {
  const Task& now = task(id);
  const Lane& lane = lanes_[static_cast<std::size_t>(now.queue)];
  if (!lane.mixed) return *lane.stream;
  return streams_.of({Queue::Kind::link, now.to.device, now.from.device, 0});
}

void Run::copy(TaskId id, const View& from, const View& to) {
  if (staged(id)) return stage(id, from, to);
  const Task& now = task(id);
  Stream& stream = begin(id);
  const TaskId up = now.upstream;
  const bool same_queue = up != kNoTask && task(up).queue == now.queue;
  auto& marks = chunks_[static_cast<std::size_t>(id)];
  using Target = ColumnCopy::Target;
  ColumnCopy piece{.from = from,
                   .to = to,
                   .element_bytes = plan_->program->element_bytes_of(now.tile),
                   .target = now.to.in_place() ? Target::callers : Target::slot};
  for (int chunk = 0; chunk < now.chunks; ++chunk) {
    if (up != kNoTask && !same_queue) {
      const auto& events = chunks_[static_cast<std::size_t>(up)];
      if (events.empty())
        await_task(up, stream);
      else
        await(stream, events[static_cast<std::size_t>(chunk)]);
    }
    if (chunk == 0) note_start(id, stream);
    piece.first = from.cols * chunk / now.chunks;
    piece.last = from.cols * (chunk + 1) / now.chunks;
    copy_columns(piece, stream.stream);
    if (watched_[static_cast<std::size_t>(id)]) marks.push_back(mark(stream));
  }
  end(id, stream);
}

void Run::stage(TaskId id, const View& from, const View& to) {
  const Task& now = task(id);
  std::vector<Awaited> awaited;
  const auto add = [&](TaskId earlier) {
    if (is_done_when_put(earlier)) return;
    if (staged(earlier))
      awaited.push_back({.copy = staged_[static_cast<std::size_t>(earlier)]});
    else
      awaited.push_back({.event = ends(earlier).stop});
  };
  for (const TaskId earlier : plan_->after(now))
    if (task(earlier).queue != now.queue) add(earlier);
  if (now.upstream != kNoTask) add(now.upstream);
  Lane& lane = lanes_[static_cast<std::size_t>(now.queue)];
  if (lane.mixed && lane.last != kNoTask) add(lane.last);
  lane.last = id;
  stager_->enqueue(now.to.device == kHost ? Stager::Line::in : Stager::Line::out,
                   staged_[static_cast<std::size_t>(id)], from, to,
                   plan_->program->element_bytes_of(now.tile), std::move(awaited));
  put_[static_cast<std::size_t>(id)] = 1;
}

void Run::launch(TaskId id, const Launch& launch) {
  if (is_cpus(task(id))) {
    if (launch.kernel != Kernel::scale)
      throw Error(Status::unsupported, "the host is no worker of this backend");
    // Of several calls, some may write what another only scales at home.
    for (const TaskId earlier : plan_->after(task(id))) await_here(earlier);
    Lane& lane = lanes_[static_cast<std::size_t>(task(id).queue)];
    if (lane.mixed && lane.last != kNoTask) await_here(lane.last);
    const double start_s = now_s();
    scale(launch);
    if (timed_) at_home_[id] = {start_s - opened_s_, now_s() - opened_s_};
    lane.last = id;
    put_[static_cast<std::size_t>(id)] = 1;
    return;
  }
  Stream& stream = begin(id);
  note_start(id, stream);
  compute(launch, stream);
  end(id, stream);
}

void Run::compute(const Launch& launch, Stream& stream) {
  put_if_loaded(launch, stream.ordinal, stream.known_kernels, [&] { put(launch, stream); });
}

void Run::put(const Launch& launch, Stream& stream) {
  const auto blas = [&]() -> CublasHandle& {
    if (!stream.blas) throw Error(Status::internal, "a product in a stream that has no cuBLAS");
    return *stream.blas;
  };
  switch (launch.kernel) {
    case Kernel::multiply:
    case Kernel::gemv:
    case Kernel::axpy:
    case Kernel::dot:
    case Kernel::solve:
    case Kernel::prepare:
      static_cast<void>(blas().put(launch));
      return;
    case Kernel::add:
      return add_scaled(launch, stream.stream);
    case Kernel::scale:
      return scale(launch, stream.stream);
    case Kernel::narrow:
      return narrow(launch, stream.stream);
    case Kernel::pack:
    case Kernel::unpack:
      return move_rows(launch, stream.stream);
    default:
      return run_factoring(launch, {blas(), stream.stream, stream.solver.get()},
                           stream.workspace.data());
  }
}

void Run::wait() {
  const char* failure = nullptr;  // streams are waited for also where memory has run out
  // The CPU's lines first: streams may wait for them, never for what comes after.
  if (staged_count_ > 0) failure = stager_->finish();
  for (const Stream* stream : used_) {
    scope_->try_use(stream->ordinal);  // from another device the driver notes an error of its own
    const cudaError_t code = cudaStreamSynchronize(stream->stream);
    if (code == cudaSuccess) continue;
    cudaGetLastError();
    if (failure == nullptr) failure = cudaGetErrorString(code);
  }
  if (failure != nullptr) throw Error(Status::device_failed, std::string(failure));
}

cudaGraph_t Run::end_capture() {
  for (Stream* stream : used_) {
    if (stream == origin_) continue;
    const cudaEvent_t event = mark(*stream);
    use(*origin_);
    await(*origin_, event);
  }
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(origin_->stream, &graph), "cudaStreamEndCapture");
  capturing_ = false;
  return graph;
}

void Run::abandon() {
  cudaGraph_t graph = nullptr;
  if (capturing_ && works(cudaStreamEndCapture(origin_->stream, &graph)) && graph != nullptr)
    works(cudaGraphDestroy(graph));
  capturing_ = false;
}

void Run::find_done(std::vector<Span>& spans) {
  std::vector<char> later_done(lanes_.size(), 0);  // in the same queue: first in, first out
  for (TaskId id = static_cast<TaskId>(plan_->tasks.size()) - 1; id >= 0; --id) {
    if (!has_put(id)) continue;
    auto& later = later_done[static_cast<std::size_t>(task(id).queue)];
    if (is_done_when_put(id))
      later = 1;
    else if (staged(id))
      later = stager_->span(staged_[static_cast<std::size_t>(id)]).second >= 0;
    else if (!later && ends(id).stop != nullptr)
      later = works(cudaEventQuery(ends(id).stop));
    spans[static_cast<std::size_t>(id)] = later ? Span{0, 0} : Span{0, -1};
  }
  leave_out_dependents(*plan_, spans);
}

void Run::measure(std::vector<Span>& spans) {
  const auto at = [&](int ordinal, cudaEvent_t event) {
    const Epoch& epoch = epochs_[static_cast<std::size_t>(ordinal)];
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, epoch.event, event), "cudaEventElapsedTime");
    return std::max(0.0, epoch.host_s + 1e-3 * static_cast<double>(milliseconds) - opened_s_);
  };
  for (TaskId id = 0; id < static_cast<TaskId>(plan_->tasks.size()); ++id) {
    if (!has_put(id)) continue;
    Span& span = spans[static_cast<std::size_t>(id)];
    if (staged(id)) {
      const auto [start_s, stop_s] = stager_->span(staged_[static_cast<std::size_t>(id)]);
      if (stop_s >= 0) span = {start_s - opened_s_, stop_s - opened_s_};
      continue;
    }
    if (is_cpus(task(id))) {
      span = at_home_.at(id);
      continue;
    }
    const int ordinal = stream_of(id).ordinal;
    span.start_s = at(ordinal, ends(id).start);
    span.stop_s = std::max(span.start_s, at(ordinal, ends(id).stop));
  }
}

}  // namespace fleet::cuda

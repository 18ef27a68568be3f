// SPDX-License-Identifier: BSD-3-Clause
// matrices.cpp: matrices, queued calls on them and events of the C API, made from the table of
// arguments. It decides nothing.
#include <algorithm>

#include "api/parameters.hpp"
#include "core/tracked_matrix.hpp"

using namespace fleet;        // NOLINT: this file is the border between the two languages
using namespace fleet::capi;  // NOLINT

struct fleet_matrix {
  TrackedMatrix matrix;
};

struct fleet_event {
  enum class Source { call, stream, program };
  Source source = Source::call;
  Context* context = nullptr;  ///< of a call
  std::shared_ptr<Event> event;
};

namespace {

DataType element_type(fleet_type type) {
  const auto known = known_type(type);
  if (!known || known->compute != Compute::native)
    throw Error(Status::bad_argument, "type is " + std::to_string(static_cast<int>(type)) +
                                          ", expected 's', 'd', 'c', 'z', 'h' or 'b'");
  return *known;
}

/// Writes what matrices say into a call whose `a`, `b` and `c` are their handles.
class Filler {
 public:
  explicit Filler(const RawCall& asked)
      : raw_(asked), traits_(traits_of(asked.routine)), call_(asked) {}

  RawCall fill() {
    for (const int x : {kA, kB, kC}) {
      if (x == kB && !traits_.has_b) continue;
      const auto* handle = static_cast<const fleet_matrix*>(x == kA   ? raw_.a
                                                            : x == kB ? raw_.b
                                                                      : raw_.c);
      if (handle == nullptr) refuse(raw_, arg_of(x), "is NULL");
      matrices_[static_cast<std::size_t>(x)] = &handle->matrix;
      if (handle->matrix.type().storage != raw_.type.storage)
        refuse(raw_, arg_of(x),
               std::string("is a matrix of type ") + word_of(handle->matrix.type()) +
                   ", expected " + word_of(raw_.type));
    }
    find_sizes();
    call_.a = at(kA).data();
    call_.lda = step_of(kA);
    if (traits_.has_b) {
      call_.b = at(kB).data();
      call_.ldb = step_of(kB);
    }
    call_.c = at(kC).data();
    call_.ldc = step_of(kC);
    check_shapes();
    return call_;
  }

 private:
  static Arg arg_of(int x) { return x == kA ? Arg::a : x == kB ? Arg::b : Arg::c; }
  const TrackedMatrix& at(int x) const { return *matrices_[static_cast<std::size_t>(x)]; }
  bool is_vector(int x) const {
    return traits_.vectors && !(raw_.routine == Routine::gemv && x == kA) &&
           !(raw_.routine == Routine::dot && x == kC);
  }
  /// The number of elements of a vector: a matrix of one row or column.
  std::int64_t length(int x) const { return std::max(at(x).rows(), at(x).cols()); }
  std::int64_t step_of(int x) const {
    if (!is_vector(x)) return at(x).ld();
    return at(x).cols() == 1 ? 1 : at(x).ld();
  }

  void find_sizes() {
    const bool turned = raw_.transa != 'n';
    if (raw_.routine == Routine::gemv) {
      call_.m = at(kA).rows();
      call_.n = at(kA).cols();
    } else if (traits_.vectors) {
      call_.n = length(kA);
    } else {
      call_.m = at(kC).rows();
      call_.n = at(kC).cols();
      if (!traits_.has_side()) call_.k = turned ? at(kA).rows() : at(kA).cols();
    }
  }

  void check_shapes() const {
    const CallShape shape = shape_of(call_);
    for (const int x : {kA, kB, kC}) {
      if (x == kB && !traits_.has_b) continue;
      const auto [rows, cols] = stored_extent(shape, x);
      const std::int64_t is_rows = at(x).rows(), is_cols = at(x).cols();
      const bool fits = is_vector(x) ? std::min(is_rows, is_cols) <= 1 && is_rows * is_cols == cols
                                     : is_rows == rows && is_cols == cols;
      if (!fits)
        refuse(raw_, arg_of(x),
               "is " + std::to_string(is_rows) + " x " + std::to_string(is_cols) + ", expected " +
                   (is_vector(x) ? std::to_string(cols) + " in one row or column"
                                 : std::to_string(rows) + " x " + std::to_string(cols)));
    }
  }

  const RawCall& raw_;
  const RoutineTraits& traits_;
  RawCall call_;
  std::array<const TrackedMatrix*, 3> matrices_{};
};

/// `queues(context)` gives the event; `event` may be NULL.
void queue(Context& context, fleet_event** event, const auto& queues) {
  auto made = event == nullptr ? nullptr
                               : std::unique_ptr<fleet_event>(new fleet_event{.context = &context});
  auto queued = queues();
  if (made == nullptr) return;
  made->event = std::move(queued);
  *event = made.release();
}

fleet_status queue(fleet_context* handle, const RawCall& raw, fleet_event** event) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    const Call call = parse(Filler(raw).fill());
    Context& context = context_of(handle);
    queue(context, event, [&] { return context.queue(call); });
  });
}

fleet_status give_matrix(fleet_matrix** matrix, const auto& make) {
  if (matrix != nullptr) *matrix = nullptr;
  return guarded([&] {
    required(matrix, "matrix");
    *matrix = new fleet_matrix{make()};
  });
}

fleet_status give_event(fleet_event** event, const auto& make) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    required(event, "event");
    *event = new fleet_event(make());
  });
}

}  // namespace

fleet_status fleet_matrix_create(fleet_context* context, fleet_type type, std::int64_t rows,
                                 std::int64_t cols, const char* place, fleet_matrix** matrix) {
  return give_matrix(matrix, [&] {
    return TrackedMatrix::create(context_of(context), element_type(type), rows, cols,
                                 required(place, "place"));
  });
}

fleet_status fleet_matrix_wrap(fleet_context* context, fleet_type type, std::int64_t rows,
                               std::int64_t cols, void* data, std::int64_t ld,
                               fleet_matrix** matrix) {
  return give_matrix(matrix, [&] {
    return TrackedMatrix::wrap(context_of(context), element_type(type), rows, cols, data, ld);
  });
}

fleet_status fleet_matrix_view(const fleet_matrix* matrix, std::int64_t row, std::int64_t col,
                               std::int64_t rows, std::int64_t cols, fleet_matrix** view) {
  return give_matrix(view,
                     [&] { return required(matrix, "matrix")->matrix.view(row, col, rows, cols); });
}

fleet_status fleet_matrix_data(const fleet_matrix* matrix, void** data, std::int64_t* ld) {
  return guarded([&] {
    *required(data, "data") = required(matrix, "matrix")->matrix.data();
    if (ld != nullptr) *ld = matrix->matrix.ld();
  });
}

fleet_status fleet_matrix_read(const fleet_matrix* matrix, std::int64_t row, std::int64_t col,
                               std::int64_t rows, std::int64_t cols) {
  return guarded([&] { required(matrix, "matrix")->matrix.view(row, col, rows, cols).read(); });
}

fleet_status fleet_matrix_read_async(const fleet_matrix* matrix, std::int64_t row, std::int64_t col,
                                     std::int64_t rows, std::int64_t cols, fleet_event** event) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    const TrackedMatrix part = required(matrix, "matrix")->matrix.view(row, col, rows, cols);
    queue(part.context(), event, [&] { return part.queue_read(); });
  });
}

fleet_status fleet_matrix_scatter_async(const fleet_matrix* matrix, const void* data,
                                        std::int64_t ld, fleet_event** event) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    const TrackedMatrix& whole = required(matrix, "matrix")->matrix;
    queue(whole.context(), event, [&] { return whole.scatter(data, ld); });
  });
}

fleet_status fleet_matrix_gather_async(const fleet_matrix* matrix, void* data, std::int64_t ld,
                                       fleet_event** event) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    const TrackedMatrix& whole = required(matrix, "matrix")->matrix;
    queue(whole.context(), event, [&] { return whole.gather(data, ld); });
  });
}

fleet_status fleet_matrix_distribute(const fleet_matrix* matrix, const char* place,
                                     fleet_event** event) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    const TrackedMatrix& whole = required(matrix, "matrix")->matrix;
    queue(whole.context(), event, [&] { return whole.distribute(required(place, "place")); });
  });
}

fleet_status fleet_matrix_scatter(const fleet_matrix* matrix, const void* data, std::int64_t ld) {
  return guarded([&] {
    const TrackedMatrix& whole = required(matrix, "matrix")->matrix;
    whole.context().queued().wait(*whole.scatter(data, ld));
  });
}

fleet_status fleet_matrix_gather(const fleet_matrix* matrix, void* data, std::int64_t ld) {
  return guarded([&] {
    const TrackedMatrix& whole = required(matrix, "matrix")->matrix;
    whole.context().queued().wait(*whole.gather(data, ld));
  });
}

fleet_status fleet_matrix_wrote(const fleet_matrix* matrix, std::int64_t row, std::int64_t col,
                                std::int64_t rows, std::int64_t cols) {
  return guarded([&] { required(matrix, "matrix")->matrix.view(row, col, rows, cols).wrote(); });
}

fleet_status fleet_matrix_destroy(fleet_matrix* matrix) {
  return guarded([&] { delete matrix; });
}

fleet_status fleet_matrix_after(const fleet_matrix* matrix, const fleet_event* event) {
  return guarded(
      [&] { required(matrix, "matrix")->matrix.after(required(event, "event")->event); });
}

fleet_status fleet_set_priority(fleet_context* context, int priority) {
  return guarded([&] { context_of(context).queued().set_priority(priority); });
}

fleet_status fleet_event_wait(const fleet_event* event) {
  return guarded([&] {
    // Another thread may destroy it as soon as it is done.
    const std::shared_ptr<Event> waited = required(event, "event")->event;
    // A context that is gone has waited for its calls.
    if (event->source == fleet_event::Source::call && !waited->done())
      event->context->queued().wait(*waited);
    else
      waited->wait();
  });
}

fleet_status fleet_event_query(const fleet_event* event, int* done) {
  return guarded(
      [&] { *required(done, "done") = required(event, "event")->event->done() ? 1 : 0; });
}

fleet_status fleet_event_create(fleet_event** event) {
  return give_event(event, [] {
    return fleet_event{.source = fleet_event::Source::program, .event = std::make_shared<Event>()};
  });
}

fleet_status fleet_event_set(const fleet_event* event, fleet_status status) {
  return guarded([&] {
    if (required(event, "event")->source != fleet_event::Source::program)
      throw Error(Status::bad_argument, "the event is not one that fleet_event_create made");
    if (status < FLEET_OK || status > FLEET_INTERNAL)
      throw Error(Status::bad_argument, "there is no status " + std::to_string(status));
    const auto outcome = static_cast<Status>(status);
    const std::string why = std::string("the program set the event to ") + to_string(outcome);
    // Whoever waits for it may destroy it at once.
    const std::shared_ptr<Event> kept = event->event;
    if (!kept->finish(outcome, why)) throw Error(Status::bad_argument, "the event was set before");
  });
}

fleet_status fleet_event_record(fleet_context* context, int device, void* stream,
                                fleet_event** event) {
  return give_event(event, [&] {
    return fleet_event{.source = fleet_event::Source::stream,
                       .event = context_of(context).record(device, stream)};
  });
}

fleet_status fleet_stream_after(fleet_context* context, int device, void* stream,
                                const fleet_event* event) {
  return guarded([&] {
    const fleet_event& known = *required(event, "event");
    // Devices may have to start: the program may destroy its handle meanwhile.
    const std::shared_ptr<Event> kept = known.event;
    Context* const calls = known.source == fleet_event::Source::call ? known.context : nullptr;
    if (calls != nullptr && !kept->done()) {
      calls->start();
      calls->wait_for_first_calls();
    }
    context_of(context).hold_stream(device, stream, *kept);
  });
}

fleet_status fleet_event_destroy(fleet_event* event) {
  return guarded([&] {
    if (event == nullptr) return;
    if (event->source == fleet_event::Source::program)
      event->event->finish(Status::unsupported, "the event was destroyed before it was set");
    delete event;
  });
}

// A matrix is taken as its handle.
#define FLEET_ASYNC_PARAMETER(argument, name, form) AsyncParameter<Arg::argument, form> argument

template <Arg kArg, class F>
using AsyncParameter = std::conditional_t<
    kArg == Arg::c, fleet_matrix*,
    std::conditional_t<is_matrix(kArg), const fleet_matrix*, Parameter<kArg, F>>>;

#define FLEET_DEFINE_ASYNC(function, form, T, ...)                                          \
  using Traits_##function = Traits<Routine::form, T>;                                       \
  extern "C" fleet_status fleet_##function##_async(                                         \
      fleet_context* context, FLEET_ASYNC_##form(FLEET_ASYNC_PARAMETER, Traits_##function), \
      fleet_event** event) {                                                                \
    return queue(context,                                                                   \
                 {.symbol = "fleet_" #function "_async",                                    \
                  .signature = kAsync_##form,                                               \
                  .first = kBehindContext,                                                  \
                  .routine = Routine::form,                                                 \
                  .type = kTypeOf<T>,                                                       \
                  __VA_ARGS__ FLEET_ASYNC_##form(FLEET_VALUE, )},                           \
                 event);                                                                    \
  }
#define FLEET_ASYNC_REAL(form)             \
  FLEET_DEFINE_ASYNC(s##form, form, float) \
  FLEET_DEFINE_ASYNC(d##form, form, double)
#define FLEET_ASYNC_COMPLEX(form)                        \
  FLEET_DEFINE_ASYNC(c##form, form, std::complex<float>) \
  FLEET_DEFINE_ASYNC(z##form, form, std::complex<double>)
#define FLEET_ASYNC_ALL(form) \
  FLEET_ASYNC_REAL(form)      \
  FLEET_ASYNC_COMPLEX(form)

FLEET_ASYNC_ALL(gemm)
FLEET_ASYNC_ALL(gemmt)
FLEET_ASYNC_ALL(symm)
FLEET_ASYNC_COMPLEX(hemm)
FLEET_ASYNC_ALL(syrk)
FLEET_ASYNC_COMPLEX(herk)
FLEET_ASYNC_ALL(syr2k)
FLEET_ASYNC_COMPLEX(her2k)
FLEET_ASYNC_ALL(trmm)
FLEET_ASYNC_ALL(trsm)
FLEET_ASYNC_ALL(gemv)
FLEET_ASYNC_ALL(axpy)
FLEET_ASYNC_REAL(dot)
FLEET_DEFINE_ASYNC(cdotu, dot, std::complex<float>)
FLEET_DEFINE_ASYNC(zdotu, dot, std::complex<double>)
FLEET_DEFINE_ASYNC(cdotc, dot, std::complex<float>, .transa = 'c', )
FLEET_DEFINE_ASYNC(zdotc, dot, std::complex<double>, .transa = 'c', )

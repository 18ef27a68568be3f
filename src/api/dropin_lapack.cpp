// SPDX-License-Identifier: BSD-3-Clause
// dropin_lapack.cpp: calls of LAPACK from the preload library as calls of src/linalg, with pivots
// of either width. It knows no symbol names.
#include "api/dropin_lapack.hpp"

#include <algorithm>
#include <vector>

#include "api/boundary.hpp"
#include "base/clock.hpp"
#include "base/gate.hpp"
#include "core/argument_check.hpp"
#include "cpu/lapack_library.hpp"
#include "linalg/inverse.hpp"
#include "linalg/orthogonal.hpp"
#include "linalg/solve.hpp"

namespace fleet::capi {
namespace {

using LapackCall = fleet_dropin_lapack_call;

/// Why the last call that this thread offered was not taken; nullptr: it was not offered.
thread_local const char* refusal = nullptr;

Storage storage_of(char letter) {
  return letter == 's'   ? Storage::f32
         : letter == 'd' ? Storage::f64
         : letter == 'c' ? Storage::c32
                         : Storage::c64;
}

View view(const void* data, std::int64_t rows, std::int64_t cols, std::int64_t ld,
          Fill fill = Fill::full) {
  return {.data = const_cast<void*>(data), .rows = rows, .cols = cols, .ld = ld, .fill = fill};
}
View view_a(const LapackCall& c, std::int64_t rows, std::int64_t cols) {
  return view(c.a, rows, cols, c.lda);
}
View square_a(const LapackCall& c) { return view_a(c, c.n, c.n); }
/// The triangle that `uplo` names.
View triangle_a(const LapackCall& c) {
  return view(c.a, c.n, c.n, c.lda, c.uplo == 'u' ? Fill::upper : Fill::lower);
}
View right_sides(const LapackCall& c) { return view(c.b, c.n, c.nrhs, c.ldb); }

/// A real matrix is its own conjugate.
Op op_of(const LapackCall& c) {
  const bool real = !is_complex(storage_of(c.type));
  return c.trans == 'n' ? Op::none : c.trans == 't' || real ? Op::transpose : Op::conjugate;
}
Diag diag_of(const LapackCall& c) { return c.diag == 'u' ? Diag::unit : Diag::non_unit; }
Side side_of(const LapackCall& c) { return c.side == 'r' ? Side::right : Side::left; }

/// The pivots of a call with 64 bits.
class Pivots {
 public:
  Pivots(const LapackCall& call, std::int64_t count) : call_(call), count_(count) {
    if (call.int_bits == 32) copy_.resize(static_cast<std::size_t>(count));
  }
  std::int64_t* data() {
    return call_.int_bits == 32 ? copy_.data() : static_cast<std::int64_t*>(call_.ipiv);
  }
  /// Throws Error(bad_argument) for one that is no row.
  const std::int64_t* given() {
    if (call_.int_bits == 32) std::copy_n(narrow(), count_, copy_.data());
    for (std::int64_t i = 0; i < count_; ++i)
      if (data()[i] < 1 || data()[i] > call_.n)
        refuse_argument(std::string(call_.symbol) + ": a pivot is no row");
    return data();
  }
  void give_back() {
    if (call_.int_bits == 32)
      std::ranges::transform(copy_, narrow(), [](auto row) { return static_cast<int>(row); });
  }

 private:
  std::int32_t* narrow() const { return static_cast<std::int32_t*>(call_.ipiv); }

  const LapackCall& call_;
  std::int64_t count_;
  std::vector<std::int64_t> copy_;
};

std::int64_t with_new_pivots(const LapackCall& c, const linalg::Level3& on) {
  Pivots pivots(c, c.routine == fleet_dropin_getrf ? std::min(c.m, c.n) : c.n);
  std::int64_t info = 0;
  if (c.routine == fleet_dropin_getrf) {
    info = linalg::getrf(on, view_a(c, c.m, c.n), pivots.data());
  } else if (c.routine == fleet_dropin_gesv) {
    info = linalg::gesv(on, square_a(c), pivots.data(), right_sides(c));
  } else {
    std::int64_t iterations = 0;
    info = linalg::mixed_gesv(on,
                              {.a = square_a(c),
                               .pivots = pivots.data(),
                               .b = right_sides(c),
                               .x = view(c.c, c.n, c.nrhs, c.ldc)},
                              iterations);
    if (c.int_bits == 32)
      *static_cast<std::int32_t*>(c.iter) = static_cast<std::int32_t>(iterations);
    else
      *static_cast<std::int64_t*>(c.iter) = iterations;
  }
  pivots.give_back();
  return info;
}

/// What ormqr and larfb apply, and to what. T is larfb's, tau ormqr's; the other one is empty.
struct Reflectors {
  explicit Reflectors(const LapackCall& c)
      : order(c.side == 'l' ? c.m : c.n),
        by_rows(c.routine == fleet_dropin_larfb && c.storev == 'r'),
        v(by_rows ? view_a(c, c.k, order) : view_a(c, order, c.k)),
        t(c.b == nullptr ? View{} : view(c.b, c.k, c.k, c.ldb)),
        tau(c.tau == nullptr ? View{} : view(c.tau, c.k, 1, c.k)),
        target(view(c.c, c.m, c.n, c.ldc)) {}
  std::int64_t order;
  bool by_rows;
  View v, t, tau, target;
};

void apply(const LapackCall& c, const linalg::Level3& on) {
  const Reflectors given(c);
  if (c.routine == fleet_dropin_ormqr)
    return linalg::ormqr(on, side_of(c), op_of(c), given.v, c.tau, given.target);
  if (c.k > given.order) refuse_argument(std::string(c.symbol) + ": more reflectors than rows");
  linalg::larfb(on, side_of(c), op_of(c),
                {.backward = c.direct == 'b', .by_rows = given.by_rows, .v = given.v, .t = given.t},
                given.target);
}

/// Is the call one that the model is not asked about? Its operands are at home then.
bool leaves_reflectors(const LapackCall& c) {
  const bool applies = c.routine == fleet_dropin_ormqr || c.routine == fleet_dropin_larfb;
  Context& context = default_context();
  if (!applies || c.flops >= context.min_reflector_flops()) return false;
  const Reflectors given(c);
  const Storage storage = storage_of(c.type);
  return context.bring_to_cpu(given.v, storage, Access::read) &&
         context.bring_to_cpu(given.t, storage, Access::read) &&
         context.bring_to_cpu(given.tau, storage, Access::read) &&
         context.bring_to_cpu(given.target, storage, Access::update);
}

/// LAPACK's info.
std::int64_t run(const LapackCall& c) {
  const linalg::Level3 on(default_context(), storage_of(c.type), c.symbol);
  switch (c.routine) {
    case fleet_dropin_getrf:
    case fleet_dropin_gesv:
    case fleet_dropin_dsgesv:
    case fleet_dropin_zcgesv:
      return with_new_pivots(c, on);
    case fleet_dropin_potrf:
      return linalg::potrf(on, triangle_a(c));
    case fleet_dropin_geqrf:
      return linalg::geqrf(on, view_a(c, c.m, c.n), c.tau), 0;
    case fleet_dropin_getrs:
      return linalg::getrs(on, op_of(c), square_a(c), Pivots(c, c.n).given(), right_sides(c)), 0;
    case fleet_dropin_potrs:
      return linalg::potrs(on, triangle_a(c), right_sides(c)), 0;
    case fleet_dropin_posv:
      return linalg::posv(on, triangle_a(c), right_sides(c));
    case fleet_dropin_getri:
      return linalg::getri(on, square_a(c), Pivots(c, c.n).given());
    case fleet_dropin_potri:
      return linalg::potri(on, triangle_a(c));
    case fleet_dropin_trtri:
      return linalg::trtri(on, triangle_a(c), diag_of(c));
    case fleet_dropin_trtrs:
      return linalg::trtrs(on, op_of(c), diag_of(c), triangle_a(c), right_sides(c));
    case fleet_dropin_lauum:
      return linalg::lauum(on, triangle_a(c)), 0;
    case fleet_dropin_orgqr:
      return linalg::orgqr(on, view_a(c, c.m, c.n), c.k, c.tau), 0;
    case fleet_dropin_ormqr:
    case fleet_dropin_larfb:
      return apply(c, on), 0;
  }
  throw Error(Status::unsupported, "a routine of LAPACK that the core does not know");
}

/// The LAPACK behind would crash on an operand that is on a device.
bool has_device_operand(const LapackCall& c) {
  for (const void* data : {c.a, c.b, c.c})
    if (data != nullptr &&
        !default_context().bring_to_cpu(view(data, 1, 1, 1), storage_of(c.type), Access::read))
      return true;
  return false;
}

void log_last_error() {
  try {
    default_context().log_error(message());
  } catch (...) {
    // Memory is short: the caller learns what matters by info, or from the LAPACK behind.
  }
}

}  // namespace

int compute_lapack(const LapackCall* call, std::int64_t* info) {
  // The CPU's LAPACK in a call of ours, which calls itself by names that lead here.
  if (inside_lapack()) return 0;
  const double start_s = now_s();
  const fleet_status status = guarded([&] { *info = run(*call); });
  if (status != FLEET_OK) {
    log_last_error();
    bool ends_here = status == FLEET_DEVICE_FAILED;
    if (!ends_here) guarded([&] { ends_here = has_device_operand(*call); });
    if (!ends_here) return 0;
    // There is no status to say that there is no result: an info larger than m and n, which LAPACK
    // never gives.
    *info = std::max(call->m, call->n) + 1;
  }
  const double seconds = now_s() - start_s;
  guarded([&] {
    default_context().note_lapack(
        {.symbol = call->symbol, .flops = call->flops, .seconds = seconds});
  });
  return 1;
}

int offer_lapack(const LapackCall* call, std::int64_t* info) {
  // As in compute_lapack: whoever waits for the CPU's LAPACK may hold the devices.
  if (inside_lapack()) return 0;
  refusal = "only the CPU is left";
  if (gate::only_cpu_left()) return 0;
  bool is_left = false;
  // What fails here fails there too, which knows whether anybody else may do the call.
  guarded([&] { is_left = leaves_reflectors(*call); });
  refusal = is_left ? "too few flops for reflectors" : "an error before the devices";
  const int taken = is_left ? 0 : compute_lapack(call, info);
  if (taken != 0) refusal = nullptr;
  return taken;
}

void note_host_lapack(const LapackCall* call, double seconds) {
  if (inside_lapack()) return;
  const char* const last = refusal;
  refusal = nullptr;
  try {
    Context& context = default_context();
    context.note_lapack({.symbol = call->symbol,
                         .reason = last == nullptr ? context.why_not_offered() : last,
                         .flops = call->flops,
                         .seconds = seconds});
  } catch (...) {
    // The call is done; only its line in the books is missing.
  }
}

std::int64_t block_size(char type, std::int64_t m, std::int64_t n, std::int64_t above,
                        std::int64_t most) {
  // Level 3 in the CPU's LAPACK stays with the CPU.
  if (inside_lapack()) return 0;
  std::int64_t size = 0;
  guarded([&] {
    size = default_context().block_size(
        {.storage = storage_of(type), .m = m, .n = n, .above = above, .most = most});
  });
  return size;
}

}  // namespace fleet::capi

// SPDX-License-Identifier: BSD-3-Clause
// dropin.cpp: what the preload library asks of the core. It knows no symbol names.
#include "api/dropin.h"

#include <limits>
#include <utility>

#include "api/boundary.hpp"
#include "api/dropin_lapack.hpp"
#include "base/gate.hpp"
#include "base/sizes.hpp"
#include "core/cpu_path.hpp"
#include "cpu/lapack_library.hpp"

namespace fleet {
namespace {

/// The last call that this thread offered: why it was not taken (nullptr: it was not offered), and
/// whether it was computed here all the same, which is in the books. One variable: each costs a
/// look-up of its own.
struct Offered {
  const char* refusal = nullptr;
  bool computed = false;
};
thread_local Offered offered;

DataType type_of(char letter) {
  switch (letter) {
    case 's':
      return DataType::f32;
    case 'd':
      return DataType::f64;
    case 'c':
      return DataType::c32;
    default:
      return DataType::c64;
  }
}

/// The routines of both sides are numbered alike.
static_assert(static_cast<int>(Routine::her2k) == fleet_dropin_her2k &&
              static_cast<int>(Routine::trsm) == fleet_dropin_trsm);

RawCall raw_of(const fleet_dropin_call& call) {
  const auto routine = static_cast<Routine>(call.routine);
  return {.symbol = call.symbol,
          .signature = signature_of(routine),
          .routine = routine,
          .type = type_of(call.type),
          .side = call.side,
          .uplo = call.uplo,
          .transa = call.transa,
          .transb = call.transb,
          .diag = call.diag,
          .m = call.m,
          .n = call.n,
          .k = call.k,
          .alpha = call.alpha,
          .a = call.a,
          .lda = call.lda,
          .b = call.b,
          .ldb = call.ldb,
          .beta = call.beta,
          .c = call.c,
          .ldc = call.ldc};
}

int offer(const fleet_dropin_call* call) {
  // The CPU's LAPACK in a call of ours: whoever waits for it may hold the devices.
  if (inside_lapack()) {
    offered = {.refusal = "inside the CPU's LAPACK"};
    return 0;
  }
  offered = {.refusal = "an error before the devices"};
  int taken = 0;
  capi::guarded([&] {
    taken = default_context().compute_if_profitable(parse(raw_of(*call)), offered.refusal) ? 1 : 0;
  });
  if (taken != 0) offered.refusal = nullptr;
  return taken;
}

int compute(const fleet_dropin_call* call) {
  offered.computed = true;
  if (inside_lapack())
    return capi::guarded([&] { multiply_plainly(parse(raw_of(*call))); }) == FLEET_OK;
  const fleet_status status =
      capi::guarded([&] { default_context().compute(parse(raw_of(*call))); });
  if (status == FLEET_DEVICE_FAILED) default_context().log_error(capi::message());
  // After device_failed C is undefined: the caller's own loops would apply beta to it again.
  return status == FLEET_OK || status == FLEET_DEVICE_FAILED;
}

void note_host(const fleet_dropin_call* call, double seconds) {
  const Offered last = std::exchange(offered, Offered{});
  if (last.computed || inside_lapack()) return;
  try {
    Context& context = default_context();
    const char* reason = last.refusal == nullptr ? context.why_not_offered() : last.refusal;
    if (context.books_shapes())
      context.note_host_shape(call->symbol, shape_of(raw_of(*call)), reason, seconds);
    else
      context.note_host_call(describe(raw_of(*call)), reason, seconds);
  } catch (...) {
    // The call is done; only its line in the books is missing.
  }
}

fleet_dropin_core make_core() {
  fleet_dropin_core core{.version = FLEET_DROPIN_VERSION,
                         .min_flops = kNever,
                         .wants_all = 0,
                         .offer = offer,
                         .compute = compute,
                         .note_host = note_host,
                         .serves_lapack = 1,
                         .lapack_min_flops = kNever,
                         .offer_lapack = capi::offer_lapack,
                         .compute_lapack = capi::compute_lapack,
                         .note_host_lapack = capi::note_host_lapack,
                         .block_size = capi::block_size};
  capi::guarded([&] {
    core.wants_all = default_context().wants_all_calls() ? 1 : 0;
    core.min_flops = default_context().min_flops();
    core.serves_lapack = default_context().serves_lapack() ? 1 : 0;
    // Which part of a call is worth devices is decided in it, call by call.
    core.lapack_min_flops = core.serves_lapack != 0 ? core.min_flops : kNever;
  });
  return core;
}

}  // namespace
}  // namespace fleet

const fleet_dropin_core* fleet_dropin(void) {
  static const fleet_dropin_core core = fleet::make_core();
  return &core;
}

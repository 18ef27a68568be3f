// SPDX-License-Identifier: BSD-3-Clause
// routines.cpp: every routine of the C API, made from the table of arguments. The compiler compares
// them with fleetblas.h. Which types can be combined is decided here, all else in `core`.
#include "api/parameters.hpp"

using namespace fleet;        // NOLINT: this file is the border between the two languages
using namespace fleet::capi;  // NOLINT

namespace {

/// The types of one call of gemm_ex.
struct Types {
  fleet_type a, b, c, compute;
};

DataType type_of(fleet_type type, const RawCall& raw, Arg arg) {
  if (const auto known = known_type(type)) return *known;
  refuse(raw, arg,
         "is " + std::to_string(static_cast<int>(type)) +
             ", expected 's', 'd', 'c', 'z', 'h', 'b' or 't'");
}

/// The type of a product with these types of operands.
DataType product_type(const RawCall& raw, const Types& types) {
  const DataType compute = type_of(types.compute, raw, Arg::compute);
  const DataType a = type_of(types.a, raw, Arg::atype);
  const DataType b = type_of(types.b, raw, Arg::btype);
  const DataType c = type_of(types.c, raw, Arg::ctype);
  const bool equal = a == b && b == c;
  if (equal && is_half(c.storage) && compute == DataType::f32) return c;
  if (equal && c == DataType::f32 && compute == DataType::tf32) return compute;
  if (equal && !is_half(c.storage) && c != DataType::tf32 && compute == c) return c;
  throw Error(Status::unsupported, std::string(raw.symbol) + ": this version does not multiply " +
                                       word_of(a) + " by " + word_of(b) + " into " + word_of(c) +
                                       " computed as " + word_of(compute));
}

fleet_status compute_types(fleet_context* context, RawCall raw, const Types& types) {
  const fleet_status status = capi::guarded([&] { raw.type = product_type(raw, types); });
  return status == FLEET_OK ? capi::compute(context, raw) : status;
}

}  // namespace

// fleet_<function> for elements T, with the arguments of `form`; what else it says of the call
// follows.
#define FLEET_DEFINE(function, form, the_routine, T, ...)                                   \
  using Traits_##function = Traits<Routine::the_routine, T>;                                \
  extern "C" fleet_status fleet_##function(                                                 \
      fleet_context* context, FLEET_ARGUMENTS_##form(FLEET_PARAMETER, Traits_##function)) { \
    return capi::compute(context, {.symbol = "fleet_" #function,                            \
                                   .signature = kArguments_##form,                          \
                                   .first = kBehindContext,                                 \
                                   .routine = Routine::the_routine,                         \
                                   .type = kTypeOf<T>,                                      \
                                   __VA_ARGS__ FLEET_ARGUMENTS_##form(FLEET_VALUE, )});     \
  }
#define FLEET_DEFINE_REAL(form, routine)      \
  FLEET_DEFINE(s##form, form, routine, float) \
  FLEET_DEFINE(d##form, form, routine, double)
#define FLEET_DEFINE_COMPLEX(form, routine)                 \
  FLEET_DEFINE(c##form, form, routine, std::complex<float>) \
  FLEET_DEFINE(z##form, form, routine, std::complex<double>)
#define FLEET_DEFINE_ALL(form, routine) \
  FLEET_DEFINE_REAL(form, routine)      \
  FLEET_DEFINE_COMPLEX(form, routine)
#define FLEET_DEFINE_EX(form)                                                          \
  extern "C" fleet_status fleet_##form##_ex(                                           \
      fleet_context* context, FLEET_ARGUMENTS_##form##_ex(FLEET_PARAMETER, Untyped)) { \
    return compute_types(context,                                                      \
                         {.symbol = "fleet_" #form "_ex",                              \
                          .signature = kArguments_##form##_ex,                         \
                          .first = kBehindContext,                                     \
                          FLEET_ARGUMENTS_##form(FLEET_VALUE, )},                      \
                         {atype, btype, ctype, compute});                              \
  }

FLEET_DEFINE_ALL(gemm, gemm)
FLEET_DEFINE_ALL(gemm_strided_batched, gemm)
FLEET_DEFINE_EX(gemm)
FLEET_DEFINE_EX(gemm_strided_batched)
FLEET_DEFINE_ALL(gemmt, gemmt)
FLEET_DEFINE_ALL(symm, symm)
FLEET_DEFINE_COMPLEX(hemm, hemm)
FLEET_DEFINE_ALL(syrk, syrk)
FLEET_DEFINE_COMPLEX(herk, herk)
FLEET_DEFINE_ALL(syr2k, syr2k)
FLEET_DEFINE_COMPLEX(her2k, her2k)
FLEET_DEFINE_ALL(trmm, trmm)
FLEET_DEFINE_ALL(trsm, trsm)
FLEET_DEFINE_ALL(gemv, gemv)
FLEET_DEFINE_ALL(axpy, axpy)
FLEET_DEFINE_REAL(dot, dot)
FLEET_DEFINE(cdotu, dot, dot, std::complex<float>)
FLEET_DEFINE(zdotu, dot, dot, std::complex<double>)
FLEET_DEFINE(cdotc, dot, dot, std::complex<float>, .transa = 'c', )
FLEET_DEFINE(zdotc, dot, dot, std::complex<double>, .transa = 'c', )

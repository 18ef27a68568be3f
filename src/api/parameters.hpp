// SPDX-License-Identifier: BSD-3-Clause
// parameters.hpp: how the C API takes the arguments of the table. It decides nothing.
#pragma once
#include <complex>
#include <optional>
#include <type_traits>

#include "api/boundary.hpp"
#include "problem/signature.hpp"

namespace fleet::capi {

template <class T>
constexpr DataType kTypeOf = DataType::f64;
template <>
constexpr DataType kTypeOf<float> = DataType::f32;
template <>
constexpr DataType kTypeOf<std::complex<float>> = DataType::c32;
template <>
constexpr DataType kTypeOf<std::complex<double>> = DataType::c64;

/// The type of the parts of a complex number.
template <class T>
T real_of(T);
template <class T>
T real_of(std::complex<T>);

/// Shared by all functions of one routine and element type.
template <Routine kTheRoutine, class T>
struct Traits {
  static constexpr const RoutineTraits& kTraits = traits_of(kTheRoutine);
  static constexpr bool kReal = std::is_floating_point_v<T>;
  using Element = std::conditional_t<kReal, T, void>;
  using Real = decltype(real_of(T()));
  static constexpr bool has_real(Arg scalar) {
    return kReal || (scalar == Arg::alpha ? kTraits.has_real_alpha() : kTraits.has_real_beta());
  }
};
/// Scalars and matrices of any type, which is an argument: all by address, as complex ones are.
using Untyped = Traits<Routine::gemm, std::complex<double>>;

/// How the C API takes an argument of a function of traits F: complex numbers by address.
template <Arg kArg, class F>
constexpr auto parameter_type() {
  if constexpr (kArg == Arg::side)
    return std::type_identity<fleet_side>{};
  else if constexpr (kArg == Arg::uplo)
    return std::type_identity<fleet_uplo>{};
  else if constexpr (kArg == Arg::transa || kArg == Arg::transb)
    return std::type_identity<fleet_op>{};
  else if constexpr (kArg == Arg::diag)
    return std::type_identity<fleet_diag>{};
  else if constexpr (is_type(kArg))
    return std::type_identity<fleet_type>{};
  else if constexpr (is_scalar(kArg))
    return std::type_identity<
        std::conditional_t<F::has_real(kArg), typename F::Real, const void*>>{};
  else if constexpr (kArg == Arg::c)
    return std::type_identity<typename F::Element*>{};
  else if constexpr (is_matrix(kArg))
    return std::type_identity<const typename F::Element*>{};
  else
    return std::type_identity<std::int64_t>{};
}
template <Arg kArg, class F>
using Parameter = typename decltype(parameter_type<kArg, F>())::type;

/// An argument as RawCall has it: scalars by address.
template <class T>
constexpr auto written(const T& argument) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<const void*>(&argument);
  else
    return argument;
}

/// Nothing for a number that is no type.
inline std::optional<DataType> known_type(fleet_type type) {
  switch (type) {
    case FLEET_F32:
      return DataType::f32;
    case FLEET_F64:
      return DataType::f64;
    case FLEET_C32:
      return DataType::c32;
    case FLEET_C64:
      return DataType::c64;
    case FLEET_F16:
      return DataType::f16;
    case FLEET_BF16:
      return DataType::bf16;
    case FLEET_TF32:
      return DataType::tf32;
  }
  return std::nullopt;
}

/// The position of the first argument after the context.
constexpr int kBehindContext = 2;

#define FLEET_PARAMETER(argument, name, form) Parameter<Arg::argument, form> argument
#define FLEET_VALUE(argument, name, extra) .argument = written(argument)

}  // namespace fleet::capi

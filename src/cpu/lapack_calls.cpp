// SPDX-License-Identifier: BSD-3-Clause
// lapack_calls.cpp: arguments as gfortran passes them, in the width of the library's integers. It
// must not know what calls are pieces of.
#include "cpu/lapack_calls.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <tuple>
#include <type_traits>
#include <vector>

namespace fleet::lapack {
namespace {

/// A leading dimension that is never stepped over need not fit.
std::int64_t effective_ld(const View& view) {
  const std::int64_t least = std::max<std::int64_t>(1, view.rows);
  return view.cols <= 1 ? least : std::max(least, view.ld);
}

bool fits(const LapackLibrary& library, std::initializer_list<std::int64_t> sizes) {
  return library.wide_ints || std::max(sizes) <= std::numeric_limits<std::int32_t>::max();
}

/// An integer of the library's width that it writes.
struct Written {
  std::int64_t& value;
};

/// What an argument is kept in while its address is passed.
template <typename Int, typename T>
auto kept(const T& argument) {
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, Written>)
    return Int{};
  else
    return argument;
}

template <typename Int, typename... Arguments>
void call_fortran(void* symbol, Arguments... arguments) {
  std::tuple places{kept<Int>(arguments)...};
  const auto address = []<typename Place>(Place& place) -> const void* {
    if constexpr (std::is_pointer_v<Place>)
      return place;
    else
      return &place;
  };
  std::apply(
      [&](auto&... place) {
        const auto set = []<typename T>(auto& where, const T& what) {
          if constexpr (std::is_same_v<T, std::int64_t>)
            where = static_cast<std::remove_reference_t<decltype(where)>>(what);
        };
        (set(place, arguments), ...);
        // The lengths at the end belong to the character arguments: as many as any routine has.
        using Function = void (*)(std::conditional_t<true, const void*, Arguments>..., std::size_t,
                                  std::size_t, std::size_t);
        reinterpret_cast<Function>(symbol)(address(place)..., 1, 1, 1);
        const auto get = []<typename T>(const auto& where, const T& what) {
          if constexpr (std::is_same_v<T, Written>) what.value = where;
        };
        (get(place, arguments), ...);
      },
      places);
}

/// Calls the routine in the library; false where it cannot be called now.
template <typename... Arguments>
bool call(CpuBlas& blas, LapackRoutine routine, Storage storage, Arguments... arguments) {
  void* symbol = blas.lapack()->find(routine, storage);
  const auto work = [&] {
    blas.lapack()->wide_ints ? call_fortran<std::int64_t>(symbol, arguments...)
                             : call_fortran<std::int32_t>(symbol, arguments...);
  };
  return blas.inside(std::ref(work));
}

/// The first real number of what a library wrote to the answer.
template <typename Real>
double leading(const std::array<double, 2>& answer) {
  Real first;
  std::memcpy(&first, answer.data(), sizeof first);
  return first;
}

/// The same for a routine whose last arguments are a workspace, its length and info.
template <typename... Arguments>
bool call_with_workspace(CpuBlas& blas, LapackRoutine routine, Storage storage, std::int64_t least,
                         Arguments... arguments) {
  std::int64_t info = 0;
  std::array<double, 2> answer{};  // large enough for an element of any type
  if (!call(blas, routine, storage, arguments..., static_cast<void*>(answer.data()),
            std::int64_t{-1}, Written{info}))
    return false;
  const bool is_single = storage == Storage::f32 || storage == Storage::c32;
  const double wanted = is_single ? leading<float>(answer) : leading<double>(answer);
  const std::int64_t elements = std::max(least, static_cast<std::int64_t>(wanted));
  if (!fits(*blas.lapack(), {elements})) return false;
  std::vector<char> workspace;
  try {
    workspace.resize(static_cast<std::size_t>(elements * bytes_of(storage)));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return call(blas, routine, storage, arguments..., static_cast<void*>(workspace.data()), elements,
              Written{info});
}

char uplo_of(const View& a) { return a.fill == Fill::upper ? 'U' : 'L'; }

/// 32-bit pivots in the place of as many 64-bit ones: widened from the last on.
void widen_pivots(std::int64_t* pivots, std::int64_t count) {
  for (std::int64_t i = count - 1; i >= 0; --i) {
    std::int32_t narrow;
    std::memcpy(&narrow, reinterpret_cast<const char*>(pivots) + i * std::int64_t{sizeof narrow},
                sizeof narrow);
    pivots[i] = narrow;
  }
}

}  // namespace

bool has(CpuBlas& blas, LapackRoutine routine, Storage storage) {
  return blas.lapack() != nullptr && blas.lapack()->find(routine, storage) != nullptr;
}

bool call_potrf(CpuBlas& blas, Storage storage, const View& a, std::int64_t& info) {
  const std::int64_t lda = effective_ld(a);
  return has(blas, LapackRoutine::potrf, storage) && fits(*blas.lapack(), {a.rows, lda}) &&
         call(blas, LapackRoutine::potrf, storage, uplo_of(a), a.rows, a.data, lda, Written{info});
}

bool call_getrf(CpuBlas& blas, Storage storage, const View& a, std::int64_t* pivots,
                std::int64_t& info) {
  const std::int64_t lda = effective_ld(a);
  if (!has(blas, LapackRoutine::getrf, storage) || !fits(*blas.lapack(), {a.rows, a.cols, lda}) ||
      !call(blas, LapackRoutine::getrf, storage, a.rows, a.cols, a.data, lda,
            static_cast<void*>(pivots), Written{info}))
    return false;
  if (!blas.lapack()->wide_ints) widen_pivots(pivots, std::min(a.rows, a.cols));
  return true;
}

bool call_geqrf(CpuBlas& blas, Storage storage, const View& a, void* tau) {
  const std::int64_t lda = effective_ld(a);
  return has(blas, LapackRoutine::geqrf, storage) && fits(*blas.lapack(), {a.rows, a.cols, lda}) &&
         call_with_workspace(blas, LapackRoutine::geqrf, storage, a.cols, a.rows, a.cols, a.data,
                             lda, tau);
}

bool call_larft(CpuBlas& blas, Storage storage, const View& v, const void* tau, const View& t) {
  const std::int64_t ldv = effective_ld(v), ldt = effective_ld(t);
  return has(blas, LapackRoutine::larft, storage) &&
         fits(*blas.lapack(), {v.rows, v.cols, ldv, ldt}) &&
         call(blas, LapackRoutine::larft, storage, 'F', 'C', v.rows, v.cols, v.data, ldv, tau,
              t.data, ldt);
}

bool call_trtri(CpuBlas& blas, Storage storage, const View& a, Diag diag, std::int64_t& info) {
  const std::int64_t lda = effective_ld(a);
  return has(blas, LapackRoutine::trtri, storage) && fits(*blas.lapack(), {a.rows, lda}) &&
         call(blas, LapackRoutine::trtri, storage, uplo_of(a), diag == Diag::unit ? 'U' : 'N',
              a.rows, a.data, lda, Written{info});
}

bool call_lauum(CpuBlas& blas, Storage storage, const View& a) {
  std::int64_t info = 0;
  const std::int64_t lda = effective_ld(a);
  return has(blas, LapackRoutine::lauum, storage) && fits(*blas.lapack(), {a.rows, lda}) &&
         call(blas, LapackRoutine::lauum, storage, uplo_of(a), a.rows, a.data, lda, Written{info});
}

bool call_ormqr(CpuBlas& blas, Storage storage, Side side, Op op, const View& v, const void* tau,
                const View& c) {
  const std::int64_t ldv = effective_ld(v), ldc = effective_ld(c);
  const bool on_left = side == Side::left;
  const char trans = op == Op::none ? 'N' : is_complex(storage) ? 'C' : 'T';
  return has(blas, LapackRoutine::ormqr, storage) &&
         fits(*blas.lapack(), {v.rows, ldv, c.rows, c.cols, ldc}) &&
         call_with_workspace(blas, LapackRoutine::ormqr, storage, on_left ? c.cols : c.rows,
                             on_left ? 'L' : 'R', trans, c.rows, c.cols, v.cols, v.data, ldv, tau,
                             c.data, ldc);
}

}  // namespace fleet::lapack

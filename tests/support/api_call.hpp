// SPDX-License-Identifier: BSD-3-Clause
// api_call.hpp: calls of the C API on random operands at given homes, for any routine, and the
// oracle's verdict on C. It knows nothing below the C API, and makes no plans.
#pragma once
#include <array>
#include <complex>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/level3_trial.hpp"
#include "support/random_plans.hpp"
#include "support/reference.hpp"
#include "support/vector_trial.hpp"

namespace fleet::test {

class ApiCall {
 public:
  explicit ApiCall(const Problem& problem) : problem_(problem) {}
  virtual ~ApiCall() = default;
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

  const Problem& problem() const { return problem_; }
  int allocations() const {  ///< number of allocations in place()
    return static_cast<int>(std::ranges::count_if(
        pieces_, [](const Piece& piece) { return piece.bytes > 0 && piece.home != kPageable; }));
  }
  /// Whether the call reads or writes an operand at this location.
  bool uses(DeviceId location) const {
    for (const int x : {kA, kB, kC})
      if (given(x) && problem_.operands[at(x)].home == location) return true;
    return false;
  }
  bool is_on_host() const {
    for (const int x : {kA, kB, kC})
      if (given(x) && !on_host(problem_.operands[at(x)].home)) return false;
    return true;
  }

  /// Copies the operands to their homes in `context`, with the initial C.
  fleet_status place(fleet_context* context) {
    context_ = context;
    if (original_.empty()) original_.assign(c().host, c().host + c().bytes);
    std::memcpy(c().host, original_.data(), original_.size());
    for (Piece& piece : pieces_) {
      piece.there = piece.host;
      if (piece.bytes == 0 || piece.home == kPageable) continue;
      void* there = nullptr;
      const int location = piece.home == kHost ? FLEET_HOST : piece.home - kFirstDevice;
      fleet_status status = fleet_alloc(context, location, piece.bytes, &there);
      if (status != FLEET_OK) return status;
      piece.there = static_cast<char*>(there);
      status = fleet_copy(context, there, piece.host, piece.bytes);
      if (status != FLEET_OK) return status;
    }
    return FLEET_OK;
  }
  /// Makes the call. It allocates nothing of its own.
  virtual fleet_status run() const = 0;
  /// Copies C back, unless its device is lost, and frees the memory of place().
  void take_back() {
    for (Piece& piece : pieces_) {
      if (piece.there == piece.host) continue;
      if (&piece == &c()) fleet_copy(context_, piece.host, piece.there, piece.bytes);
      fleet_free(context_, piece.there);
      piece.there = piece.host;
    }
  }

  /// "" if C is right and nothing else was written.
  virtual std::string verdict() const = 0;
  /// "" if nothing but C was written, whatever C holds.
  virtual std::string broken_guard() const = 0;
  bool is_untouched() const {
    return std::memcmp(pieces_[kC].host, original_.data(), original_.size()) == 0;
  }

 protected:
  static std::size_t at(int operand) { return static_cast<std::size_t>(operand); }
  /// The test's copy of an operand with its gaps; 0 elements: the call has no such operand.
  template <typename T>
  void hold(int operand, const T* data, std::int64_t elements) {
    pieces_[at(operand)] = {
        .host = reinterpret_cast<char*>(const_cast<T*>(data)),
        .bytes = static_cast<std::size_t>(elements) * sizeof(T),
        .there = nullptr,
        .home = problem_.operands[at(operand)].home,
    };
  }
  template <typename T>
  T* there(int operand) const {
    return reinterpret_cast<T*>(pieces_[at(operand)].there);
  }
  fleet_context* context() const { return context_; }

 private:
  struct Piece {
    char* host = nullptr;
    std::size_t bytes = 0;
    char* there = nullptr;  ///< the operand at its home in the context
    DeviceId home = kPageable;
  };
  bool given(int operand) const { return pieces_[at(operand)].bytes > 0; }
  Piece& c() { return pieces_[kC]; }

  const Problem problem_;
  std::array<Piece, 3> pieces_{};
  std::vector<char> original_;
  fleet_context* context_ = nullptr;
};

inline fleet_op flag_of(Op op) { return static_cast<fleet_op>(letter_of(op)); }

/// A call of a routine without triangles, for one element type.
template <typename T>
struct Products;
template <>
struct Products<double> {
  static constexpr auto gemm = &fleet_dgemm;
  static constexpr auto batched = &fleet_dgemm_strided_batched;
  static constexpr auto gemv = &fleet_dgemv;
  static constexpr auto axpy = &fleet_daxpy;
  static constexpr auto dot = &fleet_ddot;
};
template <>
struct Products<std::complex<double>> {
  static constexpr auto gemm = &fleet_zgemm;
  static constexpr auto batched = &fleet_zgemm_strided_batched;
  static constexpr auto gemv = &fleet_zgemv;
  static constexpr auto axpy = &fleet_zaxpy;
  static constexpr auto dot = &fleet_zdotu;
};

/// gemm (also batched), gemv (not conjugated), axpy and dot; vectors are matrices of one row.
template <typename T>
class ProductCall final : public ApiCall {
 public:
  ProductCall(const Problem& problem, Random& random)
      : ApiCall(problem), alpha_(random_scalar<T>(random)), beta_(random_scalar<T>(random)) {
    if (problem.operands[kC].access == Access::write) beta_ = T(0);
    if (problem.routine == Routine::axpy) beta_ = T(1);
    if (problem.routine == Routine::dot) alpha_ = T(1);
    for (const Operand& operand : problem.operands)
      matrices_.emplace_back(operand.rows, operand.cols, operand.rows + random.between(0, 3),
                             operand.shared ? 1 : problem.batch);
    for (const int x : {kA, kB, kC}) {
      Guarded<T>& matrix = matrices_[at(x)];
      if (x != kC || beta_ != T(0)) matrix.fill_random(random);  // else it stays NaN
      const bool is_there = x != kB || problem.traits().has_b;
      hold(x, matrix.data(), is_there ? matrix.stride() * items(x) : 0);
    }
    for (std::int64_t item = 0; item < problem.batch; ++item)
      expected_.push_back(expect_gemm(as_gemm(item)));
  }

  fleet_status run() const override {
    using fleetblas::detail::given;
    const Problem& p = problem();
    const T *a = there<T>(kA), *b = there<T>(kB);
    T* c = there<T>(kC);
    const fleet_op op_a = flag_of(p.op_a), op_b = flag_of(p.op_b);
    using R = Products<T>;
    if (p.routine == Routine::gemv)
      return R::gemv(context(), op_a, p.operands[kA].rows, p.operands[kA].cols, given(alpha_), a,
                     ld(kA), b, ld(kB), given(beta_), c, ld(kC));
    if (p.routine == Routine::axpy)
      return R::axpy(context(), p.n, given(alpha_), a, ld(kA), c, ld(kC));
    if (p.routine == Routine::dot) return R::dot(context(), p.k, a, ld(kA), b, ld(kB), c);
    if (p.batch == 1)
      return R::gemm(context(), op_a, op_b, p.m, p.n, p.k, given(alpha_), a, ld(kA), b, ld(kB),
                     given(beta_), c, ld(kC));
    return R::batched(context(), op_a, op_b, p.m, p.n, p.k, given(alpha_), a, ld(kA), stride(kA), b,
                      ld(kB), stride(kB), given(beta_), c, ld(kC), stride(kC), p.batch);
  }

  std::string verdict() const override {
    Guarded<T> c = matrices_[kC];
    for (std::int64_t item = 0; item < problem().batch; ++item)
      if (std::string wrong =
              first_difference(expected_[static_cast<std::size_t>(item)], c.item(item), c.ld());
          !wrong.empty())
        return "item " + std::to_string(item) + ": " + wrong;
    return broken_guard();
  }
  std::string broken_guard() const override {
    for (const Guarded<T>& matrix : matrices_)
      if (std::string broken = matrix.broken_guard(); !broken.empty()) return broken;
    return "";
  }

 private:
  std::int64_t ld(int x) const { return matrices_[at(x)].ld(); }
  std::int64_t stride(int x) const {
    return problem().operands[at(x)].shared ? 0 : matrices_[at(x)].stride();
  }
  std::int64_t items(int x) const { return problem().operands[at(x)].shared ? 1 : problem().batch; }

  /// Vector routines as products of matrices with a C of one row.
  GemmCall<T> as_gemm(std::int64_t item) {
    const Problem& p = problem();
    const auto of = [&](int x) { return matrices_[at(x)].item(items(x) > 1 ? item : 0); };
    GemmCall<T> call{.op_a = p.op_a, .op_b = p.op_b, .m = p.m, .n = p.n, .k = p.k, .alpha = alpha_};
    call.a = of(kA);
    call.lda = ld(kA);
    call.b = of(kB);
    call.ldb = ld(kB);
    call.beta = beta_;
    call.c = of(kC);
    call.ldc = ld(kC);
    if (p.routine == Routine::gemm) return call;
    call.op_a = Op::none;
    call.op_b = p.routine == Routine::dot ? Op::transpose : Op::none;
    if (p.routine == Routine::gemv) {
      std::swap(call.a, call.b);
      std::swap(call.lda, call.ldb);
      call.op_b = p.op_a == Op::none ? Op::transpose : Op::none;
    } else if (p.routine == Routine::axpy) {
      call.b = call.a;
      call.ldb = call.lda;
      call.a = &one_;
      call.lda = 1;
    }
    return call;
  }

  const T one_{1};
  T alpha_, beta_;
  std::vector<Guarded<T>> matrices_;
  std::vector<Expected> expected_;
};

/// A call of a routine with triangles.
template <typename T>
class Level3ApiCall final : public ApiCall {
 public:
  Level3ApiCall(const Problem& problem, Random& random)
      : ApiCall(problem),
        operands_(call_of<T>(problem, random), random.between(0, 3), random),
        expected_(expect_level3(operands_.call())) {
    const Level3Call<T> call = operands_.call();
    hold(kA, call.a, call.lda * shape_of_a(call).cols);
    if (problem.traits().has_b) hold(kB, call.b, call.ldb * shape_of_b(call).cols);
    hold(kC, operands_.output(), operands_.output_ld() * shape_of_output(call).cols);
  }

  fleet_status run() const override {
    using fleetblas::detail::given;
    using R = fleetblas::detail::Routines<T>;
    const Level3Call<T> x = operands_.call();
    const auto side = static_cast<fleet_side>(letter_of(x.side));
    const auto uplo = static_cast<fleet_uplo>(letter_of(x.uplo));
    const auto diag = static_cast<fleet_diag>(letter_of(x.diag));
    const fleet_op op = flag_of(x.op_a);
    fleet_context* on = context();
    const T *a = there<T>(kA), *b = there<T>(kB);
    T* c = there<T>(kC);
    if (is_in_place(x.routine))
      return (x.routine == Level3::trmm ? R::trmm : R::trsm)(on, side, uplo, op, diag, x.m, x.n,
                                                             given(x.alpha), a, x.lda, c, x.ldb);
    if (x.routine == Level3::gemmt)
      return R::gemmt(on, uplo, op, flag_of(x.op_b), x.n, x.k, given(x.alpha), a, x.lda, b, x.ldb,
                      given(x.beta), c, x.ldc);
    if (x.routine == Level3::symm)
      return R::symm(on, side, uplo, x.m, x.n, given(x.alpha), a, x.lda, b, x.ldb, given(x.beta), c,
                     x.ldc);
    if (x.routine == Level3::syrk)
      return R::syrk(on, uplo, op, x.n, x.k, given(x.alpha), a, x.lda, given(x.beta), c, x.ldc);
    if (x.routine == Level3::syr2k)
      return R::syr2k(on, uplo, op, x.n, x.k, given(x.alpha), a, x.lda, b, x.ldb, given(x.beta), c,
                      x.ldc);
    if constexpr (Scalar<T>::kComplex) {
      if (x.routine == Level3::hemm)
        return R::hemm(on, side, uplo, x.m, x.n, &x.alpha, a, x.lda, b, x.ldb, &x.beta, c, x.ldc);
      if (x.routine == Level3::herk)
        return R::herk(on, uplo, op, x.n, x.k, x.alpha.real(), a, x.lda, x.beta.real(), c, x.ldc);
      return R::her2k(on, uplo, op, x.n, x.k, &x.alpha, a, x.lda, b, x.ldb, x.beta.real(), c,
                      x.ldc);
    }
    return FLEET_INTERNAL;
  }

  std::string verdict() const override {
    const std::string wrong =
        first_difference(expected_, operands_.output(), operands_.output_ld());
    return wrong.empty() ? broken_guard() : wrong;
  }
  std::string broken_guard() const override { return operands_.first_overwritten(); }

 private:
  Level3Operands<T> operands_;
  ExpectedLevel3<T> expected_;
};

/// A call of `routine`, real or complex, with its operands anywhere on `devices` devices.
inline std::unique_ptr<ApiCall> random_api_call(Generator& generator, Routine routine, int devices,
                                                std::int64_t most) {
  for (;;) {
    Problem problem = traits_of(routine).vectors ? random_vectors(generator, devices, most * 8)
                      : routine == Routine::gemm ? random_gemm(generator, devices, most)
                                                 : random_level3(generator, devices, most);
    if (problem.routine != routine || problem.m == 0 || problem.n == 0 || problem.k == 0) continue;
    if (problem.routine == Routine::gemv && problem.op_a == Op::conjugate) continue;
    if (problem.routine == Routine::dot) problem.op_a = Op::none;
    if (!problem.traits().has_b) problem.operands[kB].home = problem.operands[kA].home;
    const bool complex = is_complex(problem.type.storage);
    problem.type = complex ? DataType::c64 : DataType::f64;
    Random random(generator());
    const bool products = problem.routine == Routine::gemm || problem.traits().vectors;
    if (complex && products)
      return std::make_unique<ProductCall<std::complex<double>>>(problem, random);
    if (complex) return std::make_unique<Level3ApiCall<std::complex<double>>>(problem, random);
    if (products) return std::make_unique<ProductCall<double>>(problem, random);
    return std::make_unique<Level3ApiCall<double>>(problem, random);
  }
}

}  // namespace fleet::test

// SPDX-License-Identifier: BSD-3-Clause
//
// fleetblas.hpp: fleetblas.h for C++17: a context that destroys itself, one name for all element
// types, exceptions instead of statuses. It adds no concept: fleetblas.h is the
// manual.
#pragma once
#include <complex>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "fleetblas/fleetblas.h"

namespace fleetblas {

/// A status other than FLEET_OK, with its message.
class Error : public std::runtime_error {
 public:
  Error(fleet_status status, const char* message) : std::runtime_error(message), status_(status) {}
  fleet_status status() const noexcept { return status_; }

 private:
  fleet_status status_;
};

inline void check(fleet_status status) {
  if (status != FLEET_OK) throw Error(status, fleet_message());
}

class Event;

/// Owns a context. The one that `Context::standard()` gives stands for NULL and owns nothing.
class Context {
 public:
  /// "name=value" lines, as fleet_context_create takes them.
  explicit Context(const std::string& options = {}) {
    check(fleet_context_create(options.c_str(), &handle_));
  }
  static Context standard() noexcept { return Context(nullptr); }
  ~Context() {
    if (handle_ != nullptr) fleet_context_destroy(handle_);
  }
  Context(Context&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Context& operator=(Context&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  fleet_context* handle() const noexcept { return handle_; }

  void wait_stream(int device, void* stream) const {
    check(fleet_wait_stream(handle_, device, stream));
  }
  /// What is put into the stream from now on starts after the event.
  void stream_after(int device, void* stream, const Event& event) const;
  /// Of calls that are queued from now on.
  void set_priority(int priority) const { check(fleet_set_priority(handle_, priority)); }
  void set_objective(fleet_objective objective, void* user = nullptr) const {
    check(fleet_set_objective(handle_, objective, user));
  }
  void trim() const { check(fleet_trim(handle_)); }
  void copy(void* to, const void* from, std::size_t bytes) const {
    check(fleet_copy(handle_, to, from, bytes));
  }

  std::string plan_json(const std::string& problem) const {
    return text(fleet_plan_json, problem.c_str());
  }
  std::string simulate_json(const std::string& problem) const {
    return text(fleet_simulate_json, problem.c_str());
  }
  std::string plan_program_json(const std::string& program) const {
    return text(fleet_plan_program_json, program.c_str());
  }
  std::string simulate_program_json(const std::string& program) const {
    return text(fleet_simulate_program_json, program.c_str());
  }
  std::string bound_json(const std::string& problem) const {
    return text(fleet_bound_json, problem.c_str());
  }
  std::string trace_json() const { return text(fleet_trace_json); }
  std::string machine_json() const { return text(fleet_machine_json); }
  std::string config_json() const { return text(fleet_config_json); }
  std::string stats_json() const { return text(fleet_stats_json); }

 private:
  explicit Context(fleet_context* handle) noexcept : handle_(handle) {}

  template <typename Give, typename... Words>
  std::string text(Give give, Words... words) const {
    char* text = nullptr;
    check(give(handle_, words..., &text));
    const std::string copy = text;
    fleet_free_text(text);
    return copy;
  }

  fleet_context* handle_ = nullptr;
};

/// `count` elements at a location, freed with the Memory. The context must outlive it.
template <typename T>
class Memory {
 public:
  Memory(const Context& context, int location, std::size_t count) : context_(context.handle()) {
    void* data = nullptr;
    check(fleet_alloc(context_, location, count * sizeof(T), &data));
    data_ = static_cast<T*>(data);
  }
  ~Memory() { fleet_free(context_, data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* data() const noexcept { return data_; }

 private:
  fleet_context* context_;
  T* data_ = nullptr;
};

/// An event: of a queued call (`Event e; check(fleet_dgemm_async(..., e.receive()));`), or one of
/// those that the functions here make.
class Event {
 public:
  Event() = default;
  /// The program's own, finished by set().
  static Event create() {
    Event event;
    check(fleet_event_create(event.receive()));
    return event;
  }
  /// Done when the work that is now in the stream is.
  static Event record(const Context& context, int device, void* stream) {
    Event event;
    check(fleet_event_record(context.handle(), device, stream, event.receive()));
    return event;
  }
  Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Event() { fleet_event_destroy(handle_); }

  /// Where a function puts a new event, in place of the one that was here.
  fleet_event** receive() {
    fleet_event_destroy(std::exchange(handle_, nullptr));
    return &handle_;
  }
  /// Waits until it is done. Throws its error, which names the call.
  void wait() const { check(fleet_event_wait(handle_)); }
  bool done() const {
    int done = 0;
    check(fleet_event_query(handle_, &done));
    return done != 0;
  }
  void set(fleet_status status = FLEET_OK) const { check(fleet_event_set(handle_, status)); }
  fleet_event* handle() const noexcept { return handle_; }

 private:
  fleet_event* handle_ = nullptr;
};

inline void Context::stream_after(int device, void* stream, const Event& event) const {
  check(fleet_stream_after(handle_, device, stream, event.handle()));
}

/// The fleet_type of an element type.
template <typename T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr fleet_type value = FLEET_F32;
};
template <>
struct TypeOf<double> {
  static constexpr fleet_type value = FLEET_F64;
};
template <>
struct TypeOf<std::complex<float>> {
  static constexpr fleet_type value = FLEET_C32;
};
template <>
struct TypeOf<std::complex<double>> {
  static constexpr fleet_type value = FLEET_C64;
};

/// A matrix, or a view of one, for queued calls: fleet_dgemm_async and others take its handle().
/// The context must outlive it.
template <typename T>
class Matrix {
 public:
  /// The caller's memory.
  Matrix(const Context& context, std::int64_t rows, std::int64_t cols, T* data, std::int64_t ld)
      : rows_(rows), cols_(cols) {
    check(fleet_matrix_wrap(context.handle(), TypeOf<T>::value, rows, cols, data, ld, &handle_));
  }
  /// New memory at a place: "h", "p", a device, or block-cyclic over devices ("c2x2:1024", "c").
  Matrix(const Context& context, std::int64_t rows, std::int64_t cols, const std::string& place)
      : rows_(rows), cols_(cols) {
    check(fleet_matrix_create(context.handle(), TypeOf<T>::value, rows, cols, place.c_str(),
                              &handle_));
  }
  Matrix(Matrix&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), rows_(other.rows_), cols_(other.cols_) {}
  Matrix& operator=(Matrix&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(rows_, other.rows_);
    std::swap(cols_, other.cols_);
    return *this;
  }
  ~Matrix() { fleet_matrix_destroy(handle_); }

  Matrix view(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) const {
    fleet_matrix* part = nullptr;
    check(fleet_matrix_view(handle_, row, col, rows, cols, &part));
    return Matrix(part, rows, cols);
  }
  /// Waits until the program may use the memory.
  void read() const { check(fleet_matrix_read(handle_, 0, 0, rows_, cols_)); }
  /// Queues that.
  Event read_async() const {
    Event event;
    check(fleet_matrix_read_async(handle_, 0, 0, rows_, cols_, event.receive()));
    return event;
  }
  /// Fills it from memory of its shape, and the reverse.
  void scatter(const T* data, std::int64_t ld) const {
    check(fleet_matrix_scatter(handle_, data, ld));
  }
  void gather(T* data, std::int64_t ld) const { check(fleet_matrix_gather(handle_, data, ld)); }
  /// Queues that its tiles belong to the devices of a block-cyclic place, and go there.
  Event distribute(const std::string& place) const {
    Event event;
    check(fleet_matrix_distribute(handle_, place.c_str(), event.receive()));
    return event;
  }
  void wrote() const { check(fleet_matrix_wrote(handle_, 0, 0, rows_, cols_)); }
  /// Calls that are queued on it from now on start after the event.
  void after(const Event& event) const { check(fleet_matrix_after(handle_, event.handle())); }
  T* data() const {
    void* data = nullptr;
    check(fleet_matrix_data(handle_, &data, nullptr));
    return static_cast<T*>(data);
  }
  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t cols() const noexcept { return cols_; }
  fleet_matrix* handle() const noexcept { return handle_; }

 private:
  Matrix(fleet_matrix* handle, std::int64_t rows, std::int64_t cols) noexcept
      : handle_(handle), rows_(rows), cols_(cols) {}

  fleet_matrix* handle_ = nullptr;
  std::int64_t rows_ = 0, cols_ = 0;
};

/// fleet_sgemm, fleet_dgemm, fleet_cgemm and fleet_zgemm by the type of their arguments.
inline void gemm(const Context& context, fleet_op transa, fleet_op transb, std::int64_t m,
                 std::int64_t n, std::int64_t k, float alpha, const float* a, std::int64_t lda,
                 const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  check(
      fleet_sgemm(context.handle(), transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

inline void gemm(const Context& context, fleet_op transa, fleet_op transb, std::int64_t m,
                 std::int64_t n, std::int64_t k, double alpha, const double* a, std::int64_t lda,
                 const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  check(
      fleet_dgemm(context.handle(), transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

inline void gemm(const Context& context, fleet_op transa, fleet_op transb, std::int64_t m,
                 std::int64_t n, std::int64_t k, std::complex<float> alpha,
                 const std::complex<float>* a, std::int64_t lda, const std::complex<float>* b,
                 std::int64_t ldb, std::complex<float> beta, std::complex<float>* c,
                 std::int64_t ldc) {
  check(fleet_cgemm(context.handle(), transa, transb, m, n, k, &alpha, a, lda, b, ldb, &beta, c,
                    ldc));
}

inline void gemm(const Context& context, fleet_op transa, fleet_op transb, std::int64_t m,
                 std::int64_t n, std::int64_t k, std::complex<double> alpha,
                 const std::complex<double>* a, std::int64_t lda, const std::complex<double>* b,
                 std::int64_t ldb, std::complex<double> beta, std::complex<double>* c,
                 std::int64_t ldc) {
  check(fleet_zgemm(context.handle(), transa, transb, m, n, k, &alpha, a, lda, b, ldb, &beta, c,
                    ldc));
}

namespace detail {

/// The functions of fleetblas.h for one element type.
template <typename T>
struct Routines;
template <>
struct Routines<float> {
  using Real = float;
  static constexpr auto gemmt = &fleet_sgemmt;
  static constexpr auto symm = &fleet_ssymm;
  static constexpr auto syrk = &fleet_ssyrk;
  static constexpr auto syr2k = &fleet_ssyr2k;
  static constexpr auto trmm = &fleet_strmm;
  static constexpr auto trsm = &fleet_strsm;
};
template <>
struct Routines<double> {
  using Real = double;
  static constexpr auto gemmt = &fleet_dgemmt;
  static constexpr auto symm = &fleet_dsymm;
  static constexpr auto syrk = &fleet_dsyrk;
  static constexpr auto syr2k = &fleet_dsyr2k;
  static constexpr auto trmm = &fleet_dtrmm;
  static constexpr auto trsm = &fleet_dtrsm;
};
template <>
struct Routines<std::complex<float>> {
  using Real = float;
  static constexpr auto gemmt = &fleet_cgemmt;
  static constexpr auto symm = &fleet_csymm;
  static constexpr auto syrk = &fleet_csyrk;
  static constexpr auto syr2k = &fleet_csyr2k;
  static constexpr auto trmm = &fleet_ctrmm;
  static constexpr auto trsm = &fleet_ctrsm;
  static constexpr auto hemm = &fleet_chemm;
  static constexpr auto herk = &fleet_cherk;
  static constexpr auto her2k = &fleet_cher2k;
};
template <>
struct Routines<std::complex<double>> {
  using Real = double;
  static constexpr auto gemmt = &fleet_zgemmt;
  static constexpr auto symm = &fleet_zsymm;
  static constexpr auto syrk = &fleet_zsyrk;
  static constexpr auto syr2k = &fleet_zsyr2k;
  static constexpr auto trmm = &fleet_ztrmm;
  static constexpr auto trsm = &fleet_ztrsm;
  static constexpr auto hemm = &fleet_zhemm;
  static constexpr auto herk = &fleet_zherk;
  static constexpr auto her2k = &fleet_zher2k;
};

template <typename T>
struct Same {
  using type = T;
};
/// T comes from the matrices, so that any number may be a scalar.
template <typename T>
using Scalar = typename Same<T>::type;

/// As fleetblas.h takes scalars: complex ones by address.
inline float given(const float& x) { return x; }
inline double given(const double& x) { return x; }
template <typename Real>
const void* given(const std::complex<Real>& x) {
  return &x;
}

}  // namespace detail

/// The routines with triangles, by the element type of their matrices.
template <typename T>
void gemmt(const Context& context, fleet_uplo uplo, fleet_op transa, fleet_op transb,
           std::int64_t n, std::int64_t k, detail::Scalar<T> alpha, const T* a, std::int64_t lda,
           const T* b, std::int64_t ldb, detail::Scalar<T> beta, T* c, std::int64_t ldc) {
  check(detail::Routines<T>::gemmt(context.handle(), uplo, transa, transb, n, k,
                                   detail::given(alpha), a, lda, b, ldb, detail::given(beta), c,
                                   ldc));
}

template <typename T>
void symm(const Context& context, fleet_side side, fleet_uplo uplo, std::int64_t m, std::int64_t n,
          detail::Scalar<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
          detail::Scalar<T> beta, T* c, std::int64_t ldc) {
  check(detail::Routines<T>::symm(context.handle(), side, uplo, m, n, detail::given(alpha), a, lda,
                                  b, ldb, detail::given(beta), c, ldc));
}

template <typename T>
void hemm(const Context& context, fleet_side side, fleet_uplo uplo, std::int64_t m, std::int64_t n,
          detail::Scalar<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
          detail::Scalar<T> beta, T* c, std::int64_t ldc) {
  check(detail::Routines<T>::hemm(context.handle(), side, uplo, m, n, detail::given(alpha), a, lda,
                                  b, ldb, detail::given(beta), c, ldc));
}

template <typename T>
void syrk(const Context& context, fleet_uplo uplo, fleet_op trans, std::int64_t n, std::int64_t k,
          detail::Scalar<T> alpha, const T* a, std::int64_t lda, detail::Scalar<T> beta, T* c,
          std::int64_t ldc) {
  check(detail::Routines<T>::syrk(context.handle(), uplo, trans, n, k, detail::given(alpha), a, lda,
                                  detail::given(beta), c, ldc));
}

template <typename T>
void herk(const Context& context, fleet_uplo uplo, fleet_op trans, std::int64_t n, std::int64_t k,
          typename detail::Routines<T>::Real alpha, const T* a, std::int64_t lda,
          typename detail::Routines<T>::Real beta, T* c, std::int64_t ldc) {
  check(
      detail::Routines<T>::herk(context.handle(), uplo, trans, n, k, alpha, a, lda, beta, c, ldc));
}

template <typename T>
void syr2k(const Context& context, fleet_uplo uplo, fleet_op trans, std::int64_t n, std::int64_t k,
           detail::Scalar<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
           detail::Scalar<T> beta, T* c, std::int64_t ldc) {
  check(detail::Routines<T>::syr2k(context.handle(), uplo, trans, n, k, detail::given(alpha), a,
                                   lda, b, ldb, detail::given(beta), c, ldc));
}

template <typename T>
void her2k(const Context& context, fleet_uplo uplo, fleet_op trans, std::int64_t n, std::int64_t k,
           detail::Scalar<T> alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
           typename detail::Routines<T>::Real beta, T* c, std::int64_t ldc) {
  check(detail::Routines<T>::her2k(context.handle(), uplo, trans, n, k, detail::given(alpha), a,
                                   lda, b, ldb, beta, c, ldc));
}

template <typename T>
void trmm(const Context& context, fleet_side side, fleet_uplo uplo, fleet_op transa,
          fleet_diag diag, std::int64_t m, std::int64_t n, detail::Scalar<T> alpha, const T* a,
          std::int64_t lda, T* b, std::int64_t ldb) {
  check(detail::Routines<T>::trmm(context.handle(), side, uplo, transa, diag, m, n,
                                  detail::given(alpha), a, lda, b, ldb));
}

template <typename T>
void trsm(const Context& context, fleet_side side, fleet_uplo uplo, fleet_op transa,
          fleet_diag diag, std::int64_t m, std::int64_t n, detail::Scalar<T> alpha, const T* a,
          std::int64_t lda, T* b, std::int64_t ldb) {
  check(detail::Routines<T>::trsm(context.handle(), side, uplo, transa, diag, m, n,
                                  detail::given(alpha), a, lda, b, ldb));
}

}  // namespace fleetblas

// SPDX-License-Identifier: BSD-3-Clause
// panels.cpp: the times of panels' factorizations on one GPU, ours and cuSOLVER's, each verified,
// and ours beside products; those of Cholesky by kernels of ours ("fleetblas") and as plans have
// them where cuSOLVER is found ("fleetblas+cusolver"). It prints JSON for `fleetblas report`. It
// runs no calls.
//
// usage: measure_panels OUT.json [all | quick | TYPE ROWS COLS]   FLEETBLAS_BENCH_COMMIT names what
// is measured
#include "backend/cuda/panels.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "base/sizes.hpp"
#include "gpu/panels/panel_trial.hpp"

namespace fleet::test {
namespace {

using cuda::check;

constexpr int kWarmups = 1, kRepeats = 5;
constexpr const char* kSolverNames[] = {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"};

/// cuSOLVER's dense routines of one type, with matrices as plain addresses.
struct Solver {
  using Sized = int (*)(void*, int, int, void*, int, int*);
  using Getrf = int (*)(void*, int, int, void*, int, void*, int*, int*);
  using Geqrf = int (*)(void*, int, int, void*, int, void*, void*, int, int*);
  void* handle = nullptr;
  Sized getrf_size = nullptr, geqrf_size = nullptr;
  Getrf getrf = nullptr;
  Geqrf geqrf = nullptr;
};

void require(int status, const char* what) {
  if (status != 0)
    throw Error(Status::device_failed,
                std::string(what) + ": cuSOLVER status " + std::to_string(status));
}

Solver find_solver(char letter, cudaStream_t stream) {
  void* library = nullptr;
  for (const char* name : kSolverNames)
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(Status::unsupported, "cuSOLVER was not found");
  const auto find = [&](const std::string& name, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name.c_str()));
    if (function == nullptr) throw Error(Status::unsupported, "cuSOLVER lacks " + name);
  };
  Solver solver;
  int (*create)(void**) = nullptr;
  int (*set_stream)(void*, cudaStream_t) = nullptr;
  find("cusolverDnCreate", create);
  find("cusolverDnSetStream", set_stream);
  const std::string prefix = std::string("cusolverDn") + letter;
  find(prefix + "getrf_bufferSize", solver.getrf_size);
  find(prefix + "geqrf_bufferSize", solver.geqrf_size);
  find(prefix + "getrf", solver.getrf);
  find(prefix + "geqrf", solver.geqrf);
  require(create(&solver.handle), "cusolverDnCreate");
  require(set_stream(solver.handle, stream), "cusolverDnSetStream");
  return solver;
}

/// What is reported of one measurement.
struct Row {
  std::string engine, routine;
  char letter = 'd';
  std::int64_t rows = 0, cols = 0;
  double median_s = 0, min_s = 0, max_s = 0, first_s = 0, gflops = 0, error = 0;
  double issue_s = 0;  ///< the median time until the call has returned
  std::string beside = "nothing", graph = "no";
  int width = 0;
};

std::vector<Row> all_rows;

void report(const Row& row) {
  std::printf(
      "%-18s %c%s %6ld x %5ld  %9.1f us (issued in %7.1f)  %8.1f GFLOP/s  error %7.2f  beside %s "
      "graph %s width %d\n",
      row.engine.c_str(), row.letter, row.routine.c_str(), static_cast<long>(row.rows),
      static_cast<long>(row.cols), row.median_s * 1e6, row.issue_s * 1e6, row.gflops, row.error,
      row.beside.c_str(), row.graph.c_str(), row.width);
  std::fflush(stdout);
  all_rows.push_back(row);
}

double flops_of(const std::string& routine, double m, double n, bool is_complex) {
  const double one = routine == "getrf"   ? m * n * n - n * n * n / 3
                     : routine == "geqrf" ? 2 * (m * n * n - n * n * n / 3)
                                          : n * n * n / 3;
  return one * (is_complex ? 4 : 1);
}

class Events {
 public:
  Events() {
    check(cudaEventCreate(&start_), "an event");
    check(cudaEventCreate(&stop_), "an event");
  }
  double time_s(cudaStream_t stream, const std::function<void()>& work) {
    using Clock = std::chrono::steady_clock;
    check(cudaEventRecord(start_, stream), "an event");
    const auto begin = Clock::now();
    work();
    issue_s_ = std::chrono::duration<double>(Clock::now() - begin).count();
    check(cudaEventRecord(stop_, stream), "an event");
    check(cudaEventSynchronize(stop_), "what is measured");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start_, stop_), "a time");
    return ms * 1e-3;
  }
  /// How long the work that was timed last took to return.
  double issue_s() const { return issue_s_; }

 private:
  double issue_s_ = 0;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

template <typename T>
class Bench {
 public:
  Bench(char letter, bool with_beside) : letter_(letter), with_beside_(with_beside) {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "a stream");
    check(cudaStreamCreateWithPriority(&busy_, cudaStreamNonBlocking, least), "a stream");
    const auto library = cuda::CublasLibrary::load();
    blas_ = std::make_unique<cuda::CublasHandle>(library, stream_);
    busy_blas_ = std::make_unique<cuda::CublasHandle>(library, busy_);
    if (const auto cusolver = cuda::CusolverLibrary::load(library->version()))
      potrf_solver_ = cuda::CusolverHandle::make(cusolver, stream_);
    solver_ = find_solver(static_cast<char>(letter - 'a' + 'A'), stream_);
  }

  void measure(std::int64_t rows, std::int64_t cols, const std::vector<int>& widths) {
    const auto a = HostMatrix<T>::random(rows, cols, rows, 41);
    const DeviceArray<T> original(a.values), data(rows * cols);
    for (const int width : widths) measure_getrf(a, original.data(), data, width);
    solver_getrf(a, original.data(), data);
    for (const int width : widths) measure_geqrf(a, original.data(), data, width);
    solver_geqrf(a, original.data(), data);
  }

  void measure_potrf(std::int64_t order) {
    auto a = HostMatrix<T>::random(order, order, order, 42);
    for (std::int64_t col = 0; col < order; ++col) {
      a.at(col, col) = T(static_cast<typename ElementTraits<T>::Real>(order));
      for (std::int64_t row = 0; row < col; ++row) a.at(row, col) = turned(a.at(col, row));
    }
    const DeviceArray<T> original(a.values), data(order * order);
    const DeviceArray<std::int32_t> info(1);
    const View view = a.view(data.data(), Fill::lower);
    const auto verify = [&] {
      return cholesky_error<T>(a, {order, order, order, data.values()}, Fill::lower);
    };
    const auto by = [&](const std::string& engine, const cuda::CusolverHandle* solver) {
      const cuda::Panels panels({*blas_, stream_, solver});
      const DeviceArray<char> workspace(
          static_cast<std::int64_t>(panels.potrf_bytes(kStorage, view)));
      time_all(
          {.engine = engine, .routine = "potrf"}, order, order, original.data(), data.data(),
          [&] { panels.potrf(kStorage, view, info.data(), workspace.data()); }, verify);
    };
    by("fleetblas", nullptr);
    if (!potrf_solver_) return;
    by("fleetblas+cusolver", potrf_solver_.get());
    const DeviceArray<char> buffer(
        static_cast<std::int64_t>(potrf_solver_->potrf_bytes(kStorage, view)));
    time_one(
        {.engine = "cusolver", .routine = "potrf"}, order, order, original.data(), data.data(),
        [&] { potrf_solver_->potrf(kStorage, view, info.data(), buffer.data()); }, verify);
  }

  void measure_exchange(std::int64_t rows, std::int64_t cols, std::int64_t count) {
    const auto a = HostMatrix<T>::random(rows, cols, rows, 43);
    const DeviceArray<T> original(a.values), data(rows * cols);
    std::vector<std::int32_t> pivots(static_cast<std::size_t>(count));
    PanelRandom numbers(44);
    for (std::int32_t i = 0; i < count; ++i)
      pivots[static_cast<std::size_t>(i)] =
          i + static_cast<std::int32_t>(static_cast<double>(rows - i) * (numbers.next() + 1) / 2);
    const DeviceArray<std::int32_t> list(pivots);
    const DeviceArray<char> workspace(
        static_cast<std::int64_t>(cuda::Panels::exchange_bytes(count)));
    time_one(
        {.engine = "fleetblas", .routine = "laswp" + std::to_string(count)}, rows, cols,
        original.data(), data.data(),
        [&] {
          panels(0).exchange_rows(kStorage, a.view(data.data()), list.data(), count,
                                  cuda::ExchangeOrder::forward, workspace.data());
        },
        [] { return 0.0; });
  }

 private:
  static constexpr Storage kStorage = ElementTraits<T>::kStorage;

  cuda::Panels panels(int width) { return cuda::Panels({*blas_, stream_}, width); }

  void measure_getrf(const HostMatrix<T>& a, T* original, const DeviceArray<T>& data, int width) {
    const std::int64_t order = std::min(a.rows, a.cols);
    const DeviceArray<std::int32_t> pivots(order), info(1);
    const DeviceArray<char> workspace(
        static_cast<std::int64_t>(panels(width).getrf_bytes(kStorage, a.rows, a.cols)));
    time_all(
        {.engine = "fleetblas", .routine = "getrf", .width = width}, a.rows, a.cols, original,
        data.data(),
        [&] {
          panels(width).getrf(kStorage, a.view(data.data()), pivots.data(), info.data(),
                              workspace.data());
        },
        [&] {
          ours_ = pivots.values();
          return lu_error<T>(a, {a.rows, a.cols, a.ld, data.values()}, ours_);
        });
  }

  void solver_getrf(const HostMatrix<T>& a, T* original, const DeviceArray<T>& data) {
    const int m = static_cast<int>(a.rows), n = static_cast<int>(a.cols);
    int count = 0;
    require(solver_.getrf_size(solver_.handle, m, n, data.data(), m, &count), "getrf's size");
    const DeviceArray<T> buffer(count);
    const DeviceArray<std::int32_t> pivots(std::min(m, n)), info(1);
    time_one(
        {.engine = "cusolver", .routine = "getrf"}, a.rows, a.cols, original, data.data(),
        [&] {
          require(solver_.getrf(solver_.handle, m, n, data.data(), m, buffer.data(), pivots.data(),
                                info.data()),
                  "getrf");
        },
        [&] {
          auto theirs = pivots.values();
          for (std::int32_t& pivot : theirs) --pivot;
          if (theirs != ours_) std::printf("pivots differ from cuSOLVER's\n");
          return lu_error<T>(a, {a.rows, a.cols, a.ld, data.values()}, theirs);
        });
  }

  void measure_geqrf(const HostMatrix<T>& a, T* original, const DeviceArray<T>& data, int width) {
    const std::int64_t order = std::min(a.rows, a.cols);
    const DeviceArray<T> taus(order), t(order * order);
    const DeviceArray<char> workspace(
        static_cast<std::int64_t>(panels(width).geqrf_bytes(kStorage, a.rows, a.cols)));
    time_all(
        {.engine = "fleetblas", .routine = "geqrf", .width = width}, a.rows, a.cols, original,
        data.data(),
        [&] {
          panels(width).geqrf(kStorage, a.view(data.data()), taus.data(),
                              {.data = t.data(), .rows = order, .cols = order, .ld = order},
                              workspace.data());
        },
        [&] {
          return qr_errors<T>(a, {a.rows, a.cols, a.ld, data.values()}, taus.values(),
                              {order, order, order, t.values()})
              .largest();
        });
  }

  /// Without larft, which ours includes.
  void solver_geqrf(const HostMatrix<T>& a, T* original, const DeviceArray<T>& data) {
    const int m = static_cast<int>(a.rows), n = static_cast<int>(a.cols);
    int count = 0;
    require(solver_.geqrf_size(solver_.handle, m, n, data.data(), m, &count), "geqrf's size");
    const DeviceArray<T> buffer(count), taus(std::min(m, n));
    const DeviceArray<std::int32_t> info(1);
    time_one(
        {.engine = "cusolver", .routine = "geqrf"}, a.rows, a.cols, original, data.data(),
        [&] {
          require(solver_.geqrf(solver_.handle, m, n, data.data(), m, taus.data(), buffer.data(),
                                count, info.data()),
                  "geqrf");
        },
        [&] {
          return qr_errors<T>(a, {a.rows, a.cols, a.ld, data.values()}, taus.values(), {})
              .largest();
        });
  }

  /// Alone, as a graph if it can be one, and beside large products.
  void time_all(const Row& row, std::int64_t rows, std::int64_t cols, T* original, T* data,
                const std::function<void()>& work, const std::function<double()>& verify) {
    time_one(row, rows, cols, original, data, work, verify);
    if (const cudaGraphExec_t ready = captured(row, work)) {
      const auto replay = [&] { check(cudaGraphLaunch(ready, stream_), "a graph"); };
      Row replayed = row;
      replayed.graph = "yes";
      time_one(replayed, rows, cols, original, data, replay, verify);
      check(cudaGraphExecDestroy(ready), "a graph");
    }
    if (with_beside_ && cols == 512) {
      Row busy = row;
      busy.beside = "dgemm";
      time_one(busy, rows, cols, original, data, work, verify);
    }
  }

  /// nullptr, and a line that says so, where the work cannot be captured.
  cudaGraphExec_t captured(const Row& row, const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    std::string failure;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "a capture");
    try {
      work();
    } catch (const Error& error) {
      failure = error.what();
    }
    const cudaError_t code = cudaStreamEndCapture(stream_, &graph);
    if (!cuda::works(code)) failure += std::string(" ") + cudaGetErrorString(code);
    if (failure.empty() && !cuda::works(cudaGraphInstantiate(&ready, graph, 0)))
      failure = "no graph can be made of it";
    if (!failure.empty())
      std::printf("%s's %s cannot be captured: %s\n", row.engine.c_str(), row.routine.c_str(),
                  failure.c_str());
    if (graph != nullptr) check(cudaGraphDestroy(graph), "a graph");
    return ready;
  }

  void time_one(Row row, std::int64_t rows, std::int64_t cols, T* original, T* data,
                const std::function<void()>& work, const std::function<double()>& verify) {
    const bool busy = row.beside != "nothing";
    std::vector<double> times, issues;
    for (int i = 0; i < kWarmups + kRepeats; ++i) {
      check(cudaMemcpyAsync(data, original, static_cast<std::size_t>(rows * cols) * sizeof(T),
                            cudaMemcpyDeviceToDevice, stream_),
            "a copy");
      check(cudaStreamSynchronize(stream_), "a copy");
      if (busy) keep_busy();
      times.push_back(events_.time_s(stream_, work));
      issues.push_back(events_.issue_s());
      if (busy) check(cudaStreamSynchronize(busy_), "products");
    }
    row.letter = letter_;
    row.rows = rows;
    row.cols = cols;
    row.first_s = times.front();
    times.erase(times.begin(), times.begin() + kWarmups);
    std::ranges::sort(times);
    issues.erase(issues.begin(), issues.begin() + kWarmups);
    std::ranges::sort(issues);
    row.issue_s = issues[issues.size() / 2];
    row.median_s = times[times.size() / 2];
    row.min_s = times.front();
    row.max_s = times.back();
    row.gflops = flops_of(row.routine, static_cast<double>(rows), static_cast<double>(cols),
                          is_complex(kStorage)) /
                 row.median_s * 1e-9;
    row.error = verify();
    report(row);
  }

  /// Updates as they follow a panel, which keep all multiprocessors of an H100 busy for about 30
  /// ms.
  void keep_busy() {
    constexpr std::int64_t kEdge = 8192, kDepth = 512;
    constexpr int kProducts = 24;
    if (!products_) {
      products_ = std::make_unique<DeviceArray<double>>(kEdge * (kEdge + 2 * kDepth));
      check(cudaMemset(products_->data(), 0, kEdge * (kEdge + 2 * kDepth) * sizeof(double)),
            "operands");
    }
    double* c = products_->data();
    const View left{.data = c + kEdge * kEdge, .rows = kEdge, .cols = kDepth, .ld = kEdge};
    const View right{
        .data = c + kEdge * (kEdge + kDepth), .rows = kDepth, .cols = kEdge, .ld = kDepth};
    for (int i = 0; i < kProducts; ++i)
      busy_blas_->multiply({.kernel = Kernel::multiply,
                            .alpha = -1,
                            .beta = 1,
                            .a = left,
                            .b = right,
                            .c = {.data = c, .rows = kEdge, .cols = kEdge, .ld = kEdge}});
  }

  char letter_;
  bool with_beside_;
  cudaStream_t stream_ = nullptr, busy_ = nullptr;
  std::unique_ptr<cuda::CublasHandle> blas_, busy_blas_;
  std::unique_ptr<cuda::CusolverHandle> potrf_solver_;
  std::unique_ptr<DeviceArray<double>> products_;
  Solver solver_;
  Events events_;
  std::vector<std::int32_t> ours_;
};

std::string json_of(const Row& row) {
  // Readers of rows tell cases apart by where other operands are; here by what else is different.
  const std::string beside = row.graph == "yes"        ? "graph"
                             : row.beside == "nothing" ? "0"
                                                       : row.beside;
  char text[1024];
  std::snprintf(
      text, sizeof text,
      "  {\"engine\": \"%s\", \"routine\": \"%s\", \"type\": \"%c\", \"m\": %ld, \"n\": "
      "%ld, \"k\": 0, \"place\": \"0\", \"devices\": 1, \"width\": %d, \"first_s\": "
      "%.9g, \"median_s\": %.9g, \"min_s\": %.9g, \"max_s\": %.9g, \"issue_s\": %.9g, "
      "\"tflops\": %.6g, \"error\": %.4g, \"beside\": \"%s\", \"load\": \"%s\", \"graph\": \"%s\", "
      "\"repeat\": %d, "
      "\"warmup\": %d, \"measured\": \"measured\", \"status\": \"ok\"}",
      row.engine.c_str(), row.routine.c_str(), row.letter, static_cast<long>(row.rows),
      static_cast<long>(row.cols), row.width, row.first_s, row.median_s, row.min_s, row.max_s,
      row.issue_s, row.gflops * 1e-3, row.error, beside.c_str(), row.beside.c_str(),
      row.graph.c_str(), kRepeats, kWarmups);
  return text;
}

void write(const char* file) {
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "the GPU's name");
  const char* commit = std::getenv("FLEETBLAS_BENCH_COMMIT");
  char date[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::FILE* out = std::fopen(file, "w");
  if (out == nullptr) throw Error(Status::bad_argument, std::string("cannot write ") + file);
  std::fprintf(
      out,
      "{\n \"schema\": 1,\n \"dataset\": \"panels\",\n \"type\": \"d\",\n \"machine\": "
      "\"%s\",\n \"gpus\": 1,\n \"commit\": \"%s\",\n \"date\": \"%s\",\n \"results\": [\n",
      device.name, commit != nullptr ? commit : "", date);
  for (std::size_t i = 0; i < all_rows.size(); ++i)
    std::fprintf(out, "%s%s\n", json_of(all_rows[i]).c_str(), i + 1 < all_rows.size() ? "," : "");
  std::fprintf(out, " ]\n}\n");
  std::fclose(out);
}

template <typename T>
void measure_type(char letter, const std::vector<std::int64_t>& rows,
                  const std::vector<std::int64_t>& cols, const std::vector<int>& widths,
                  bool with_beside) {
  Bench<T> bench(letter, with_beside);
  for (const std::int64_t m : rows)
    for (const std::int64_t n : cols) bench.measure(m, n, widths);
  for (const std::int64_t n : cols) bench.measure_potrf(n);
}

void measure_only(char letter, std::int64_t rows, std::int64_t cols) {
  if (letter == 's') return measure_type<float>('s', {rows}, {cols}, {0}, false);
  if (letter == 'd') return measure_type<double>('d', {rows}, {cols}, {0}, false);
  if (letter == 'c') return measure_type<std::complex<float>>('c', {rows}, {cols}, {0}, false);
  if (letter == 'z') return measure_type<std::complex<double>>('z', {rows}, {cols}, {0}, false);
  throw Error(Status::bad_argument, "a type is one of s, d, c and z");
}

void measure(bool quick) {
  if (quick) {
    measure_type<double>('d', {1024, 8192, 16384, 65536}, {128, 512}, {32, 16}, true);
    Bench<double>('d', false).measure_exchange(32768, 16384, 512);
    measure_type<float>('s', {16384}, {256}, {0}, false);
    measure_type<std::complex<float>>('c', {16384}, {256}, {0}, false);
    measure_type<std::complex<double>>('z', {16384}, {256}, {0}, false);
    return;
  }
  measure_type<double>('d', {1024, 4096, 8192, 16384, 32768, 65536}, {128, 256, 512, 1024}, {0},
                       true);
  for (const std::int64_t count : {128, 256, 512, 1024})
    Bench<double>('d', false).measure_exchange(32768, 16384, count);
  measure_type<float>('s', {4096, 16384, 65536}, {256, 512}, {0}, false);
  measure_type<std::complex<float>>('c', {4096, 16384, 65536}, {256, 512}, {0}, false);
  measure_type<std::complex<double>>('z', {4096, 16384, 65536}, {256, 512}, {0}, false);
}

}  // namespace
}  // namespace fleet::test

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: measure_panels OUT.json [all | quick | TYPE ROWS COLS]\n");
    return 2;
  }
  try {
    if (count > 4)
      fleet::test::measure_only(arguments[2][0], std::atoll(arguments[3]),
                                std::atoll(arguments[4]));
    else
      fleet::test::measure(count > 2 && std::string(arguments[2]) == "quick");
    fleet::test::write(arguments[1]);
  } catch (const fleet::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

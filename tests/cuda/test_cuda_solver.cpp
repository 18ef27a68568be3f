// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_solver.cpp: how cuSOLVER is found and what it is told, by a library of its name that
// writes down what it is told. It needs the toolkit, and no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/cuda/library.hpp"
#include "backend/cuda/solver.hpp"
#include "base/error.hpp"

namespace fleet::cuda {
namespace {

/// Their cuSOLVERs have the names of fakes here: no CUDA has such numbers.
constexpr int kWhole = 910000, kOld = 920000, kNowhere = 930000;

struct Call {
  char letter;
  int uplo, n, lda, count;
  void *a, *work;
  int* info;
  void* stream;
};

/// A variable of the whole fake.
template <typename T>
T& fake(const char* name) {
  static void* const library = dlopen(FAKE_CUSOLVER, RTLD_NOW | RTLD_LOCAL);
  return *static_cast<T*>(dlsym(library, name));
}

class Cusolver : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(dlopen(FAKE_CUSOLVER, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    ASSERT_NE(dlopen(FAKE_OLD_CUSOLVER, RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    for (const char* status : {"fake_create_status", "fake_stream_status", "fake_potrf_status"})
      fake<int>(status) = 0;
  }
  static std::unique_ptr<CusolverHandle> handle(cudaStream_t stream = nullptr) {
    return CusolverHandle::make(CusolverLibrary::load(kWhole), stream);
  }
};

TEST_F(Cusolver, IsThatOfTheReleaseOfCublas) {
  const auto library = CusolverLibrary::load(kWhole);

  ASSERT_NE(library, nullptr);
  EXPECT_EQ(library->file(), FAKE_CUSOLVER);
  EXPECT_EQ(library->version(), 12101);
}

TEST_F(Cusolver, IsNoneWhereItIsMissingOrLacksARoutine) {
  EXPECT_EQ(CusolverLibrary::load(kNowhere), nullptr);
  EXPECT_EQ(CusolverLibrary::load(kOld), nullptr);
  EXPECT_EQ(CusolverLibrary::load(0), nullptr);
}

TEST_F(Cusolver, IsNoneForAStreamForWhichItMakesNoHandle) {
  fake<int>("fake_create_status") = 2;
  EXPECT_EQ(handle(), nullptr);

  fake<int>("fake_create_status") = 0;
  fake<int>("fake_stream_status") = 1;
  EXPECT_EQ(handle(), nullptr);
  EXPECT_EQ(fake<int>("fake_handles"), 0);
}

TEST_F(Cusolver, IsToldTheTypeTheTriangleAndAllPlaces) {
  double matrix[12], workspace[30];
  std::int32_t info = 0;
  int stream = 0;  // its address stands for a stream
  const auto made = handle(reinterpret_cast<cudaStream_t>(&stream));
  ASSERT_NE(made, nullptr);
  const View upper{.data = matrix, .rows = 3, .cols = 3, .ld = 4, .fill = Fill::upper};
  View lower = upper;
  lower.fill = Fill::lower;

  EXPECT_EQ(made->potrf_bytes(Storage::f32, lower), 30u * 4);
  EXPECT_EQ(made->potrf_bytes(Storage::c64, lower), 30u * 16);
  made->potrf(Storage::f64, upper, &info, workspace);

  const Call call = fake<Call>("fake_last");
  EXPECT_EQ(call.letter, 'D');
  EXPECT_EQ(call.uplo, 1);
  EXPECT_EQ(call.n, 3);
  EXPECT_EQ(call.lda, 4);
  EXPECT_EQ(call.count, 30);
  EXPECT_EQ(call.a, matrix);
  EXPECT_EQ(call.work, workspace);
  EXPECT_EQ(call.info, &info);
  EXPECT_EQ(call.stream, &stream);
  made->potrf(Storage::f32, lower, &info, workspace);
  EXPECT_EQ(fake<Call>("fake_last").letter, 'S');
  EXPECT_EQ(fake<Call>("fake_last").uplo, 0);
  made->potrf(Storage::c32, lower, &info, workspace);
  EXPECT_EQ(fake<Call>("fake_last").letter, 'C');
  made->potrf(Storage::c64, lower, &info, workspace);
  EXPECT_EQ(fake<Call>("fake_last").letter, 'Z');
}

TEST_F(Cusolver, HandlesAreGivenBack) {
  handle().reset();
  EXPECT_EQ(fake<int>("fake_handles"), 0);
}

TEST_F(Cusolver, FailuresAreErrors) {
  const auto made = handle();
  double matrix = 1;
  std::int32_t info = 0;
  const View one{.data = &matrix, .rows = 1, .cols = 1, .ld = 1, .fill = Fill::lower};
  const auto status = [&](int code) {
    fake<int>("fake_potrf_status") = code;
    try {
      made->potrf(Storage::f64, one, &info, &matrix);
    } catch (const Error& error) {
      return error.status();
    }
    return Status::ok;
  };

  EXPECT_EQ(status(0), Status::ok);
  EXPECT_EQ(status(2), Status::no_memory);
  EXPECT_EQ(status(7), Status::device_failed);
}

TEST_F(Cusolver, LibrariesAreFoundByTheirNamesAlone) {
  EXPECT_EQ(open_library({}, "cusolver"), nullptr);
  EXPECT_EQ(open_library({"libno_such_thing.so.1"}, "cusolver"), nullptr);
  EXPECT_NE(open_library({"libno_such_thing.so.1", "libcusolver.so.90"}, "cusolver"), nullptr);
  EXPECT_EQ(file_of(nullptr, "nowhere"), "nowhere");
}

}  // namespace
}  // namespace fleet::cuda

// SPDX-License-Identifier: BSD-3-Clause
// fake_cusolver.c: a libcusolver that writes down how its potrf is called. With -DFAKE_IS_OLD it
// lacks the routine of one type. It computes nothing.
#include <stddef.h>

struct fake_call {
  char letter;
  int uplo, n, lda, count;
  void *a, *work;
  int* info;
  void* stream;
};
// What the last call was told; statuses that the next ones return.
struct fake_call fake_last;
int fake_create_status, fake_stream_status, fake_potrf_status, fake_handles;
static int fake_handle;

int cusolverGetVersion(int* number) {
  *number = 12101;
  return 0;
}
int cusolverDnCreate(void** handle) {
  if (fake_create_status != 0) return fake_create_status;
  ++fake_handles;
  *handle = &fake_handle;
  return 0;
}
int cusolverDnDestroy(void* handle) {
  fake_handles -= handle == &fake_handle;
  return 0;
}
int cusolverDnSetStream(void* handle, void* stream) {
  if (handle == &fake_handle) fake_last.stream = stream;
  return fake_stream_status;
}

// A workspace of ten elements for each column.
#define POTRF(LETTER)                                                                        \
  int cusolverDn##LETTER##potrf_bufferSize(void* handle, int uplo, int n, void* a, int lda,  \
                                           int* count) {                                     \
    (void)a;                                                                                 \
    if (handle != &fake_handle || uplo < 0 || uplo > 1 || lda < n) return 3;                 \
    *count = 10 * n;                                                                         \
    return 0;                                                                                \
  }                                                                                          \
  int cusolverDn##LETTER##potrf(void* handle, int uplo, int n, void* a, int lda, void* work, \
                                int count, int* info) {                                      \
    void* const stream = fake_last.stream;                                                   \
    if (handle != &fake_handle) return 1;                                                    \
    fake_last = (struct fake_call){#LETTER[0], uplo, n, lda, count, a, work, info, stream};  \
    return fake_potrf_status;                                                                \
  }
POTRF(S)
POTRF(D)
POTRF(C)
#ifndef FAKE_IS_OLD
POTRF(Z)
#endif

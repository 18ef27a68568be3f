/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool_blocks.c: malloc and its kin keep their promises for large blocks, across sizes, threads and
 * forks. Prints the number of broken ones, and with an argument whether large blocks lie as the
 * pool has them. It knows nothing of the pool.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static int broken;

static void expect(int is_right, const char* what) {
  if (is_right) return;
  fprintf(stderr, "broken: %s\n", what);
  ++broken;
}

static void* volatile passed_on;

static void* free_there(void* nothing) {
  free(passed_on);
  passed_on = malloc(70 * MB);
  return nothing;
}

static void sizes(void) {
  char* data = malloc(40 * MB);
  memset(data, 1, 40 * MB);
  const size_t steps[] = {80, 100, 300, 310, 900, 200, 64, 3, 70};
  size_t before = 40;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    data = realloc(data, steps[i] * MB);
    expect(malloc_usable_size(data) >= steps[i] * MB, "usable size");
    expect(data[0] == 1, "contents after realloc");
    expect(before > steps[i] || data[before * MB - 1] == 1, "contents after growth");
    data[steps[i] * MB - 1] = 1;
    before = steps[i];
  }
  free(data);
  data = realloc(NULL, 65 * MB);
  data[65 * MB - 1] = 1;
  expect(realloc(data, 0) == NULL, "realloc to nothing");
}

static void zeros(void) {
  for (int round = 0; round < 3; ++round) {
    char* data = calloc(65, MB);
    expect(data[0] == 0 && data[33 * MB] == 0 && data[65 * MB - 1] == 0, "calloc");
    data[0] = data[33 * MB] = data[65 * MB - 1] = 1;
    free(data);
  }
  const volatile size_t half = SIZE_MAX / 2;
  errno = 0;
  expect(calloc(half, 4) == NULL && errno == ENOMEM, "calloc of more than there is");
  errno = 0;
  expect(malloc(half) == NULL && errno == ENOMEM, "malloc of more than there is");
}

static void alignments(void) {
  void* data = NULL;
  for (size_t alignment = 16; alignment <= 512 * MB; alignment *= 32) {
    expect(posix_memalign(&data, alignment, 64 * MB) == 0, "posix_memalign");
    expect((uintptr_t)data % alignment == 0, "alignment");
    free(data);
    data = aligned_alloc(alignment, 64 * MB);
    expect(data != NULL && (uintptr_t)data % alignment == 0, "aligned_alloc");
    free(data);
  }
  const volatile size_t odd = 24;
  expect(posix_memalign(&data, odd, 64 * MB) == EINVAL, "posix_memalign of no power of two");
  data = valloc(64 * MB);
  errno = 7;
  free(data);
  expect(errno == 7, "errno after free");
}

static void threads(void) {
  pthread_t thread;
  passed_on = malloc(64 * MB);
  pthread_create(&thread, NULL, free_there, NULL);
  pthread_join(thread, NULL);
  memset(passed_on, 1, 70 * MB);
  free(passed_on);
}

static void forks(void) {
  char* data = malloc(64 * MB);
  data[5] = 1;
  const pid_t child = fork();
  if (child == 0) {
    int wrong = data[5] != 1;
    data[5] = 2;
    free(data);
    char* own = calloc(64, MB);
    wrong += own == NULL || own[5] != 0;
    free(own);
    _exit(wrong);
  }
  int status = 1;
  waitpid(child, &status, 0);
  expect(status == 0, "in the child of a fork");
  expect(data[5] == 1, "in the parent of a fork");
  free(data);
}

/* Freed by an exit handler that runs after all others. */
static char* last;
static void free_last(void) { free(last); }
__attribute__((constructor)) static void register_last(void) { atexit(free_last); }

int main(int count, char** words) {
  (void)words;
  last = malloc(64 * MB);
  sizes();
  zeros();
  alignments();
  threads();
  forks();
  printf("%d broken\n", broken);
  /* malloc's own large blocks begin a few bytes into a page. */
  if (count > 1) printf("%s\n", (uintptr_t)last % (256 * MB) == 0 ? "pool" : "malloc");
  return 0;
}

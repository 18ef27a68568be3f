/* SPDX-License-Identifier: BSD-3-Clause
 *
 * threads.c: many threads with small stacks whose first calls race. It knows nothing of the preload
 * library.
 *
 * Usage: threads THREADS CALLS EDGE; prints the number of wrong elements, exits 0 if none.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "product.h"

enum { kStackBytes = 256 * 1024, kMostThreads = 64 };

static pthread_barrier_t start;
static int calls, edge;

static void* work(void* number) {
  intptr_t wrong = 0;
  pthread_barrier_wait(&start);
  for (int i = 0; i < calls; ++i) wrong += wrong_elements(edge + i, (int)(intptr_t)number) != 0;
  return (void*)wrong;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int threads = atoi(argv[1]);
  calls = atoi(argv[2]);
  edge = atoi(argv[3]);
  if (threads > kMostThreads) return 2;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  pthread_barrier_init(&start, NULL, (unsigned)threads);
  pthread_t thread[kMostThreads];
  for (int i = 0; i < threads; ++i)
    if (pthread_create(&thread[i], &small, work, (void*)(intptr_t)i)) return 3;
  intptr_t wrong = 0;
  for (int i = 0; i < threads; ++i) {
    void* result;
    pthread_join(thread[i], &result);
    wrong += (intptr_t)result;
  }
  printf("%d\n", (int)wrong);
  return wrong != 0;
}

// SPDX-License-Identifier: BSD-3-Clause
// test_context_queue.cpp: queued calls and events across forks and exits, each in a separate
// program. The test program itself never calls the library.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.h"
#include "support/host_context.hpp"
#include "support/processes.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kEdge = 64;

/// Ones, whose product has the edge as every element; never freed, as nothing is here.
struct Product {
  explicit Product(const std::string& inject) {
    const std::string options = test::host_options(2) + ";inject=" + inject;
    if (fleet_context_create(options.c_str(), &context) != FLEET_OK) std::abort();
    for (std::vector<double>* data : {&a, &c}) {
      data->assign(kEdge * kEdge, 1.0);
      fleet_matrix** matrix = data == &a ? &of_a : &of_c;
      if (fleet_matrix_wrap(context, FLEET_F64, kEdge, kEdge, data->data(), kEdge, matrix) !=
          FLEET_OK)
        std::abort();
    }
  }
  fleet_status queue(fleet_event** event) {
    return fleet_dgemm_async(context, FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0, of_a, of_a, 0.0, of_c,
                             event);
  }
  bool is_right() {
    return fleet_matrix_read(of_c, 0, 0, kEdge, kEdge) == FLEET_OK &&
           c == std::vector<double>(kEdge * kEdge, static_cast<double>(kEdge));
  }

  fleet_context* context = nullptr;
  std::vector<double> a, c;
  fleet_matrix *of_a = nullptr, *of_c = nullptr;
};

TEST(QueuedCalls, OfTheParentAreNotTheChilds) {
  EXPECT_TRUE(test::child_succeeds([] {
    static Product& product = *new Product("delay:host->0+0.1");
    fleet_event* event = nullptr;
    if (product.queue(&event) != FLEET_OK) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const bool child = test::child_succeeds([&] {
      int done = -1;
      if (fleet_event_query(event, &done) != FLEET_OK || done != 0) return false;
      if (fleet_event_wait(event) != FLEET_UNSUPPORTED) return false;
      fleet_event* own = nullptr;
      return product.queue(&own) == FLEET_OK && fleet_event_wait(own) == FLEET_OK &&
             product.is_right() && fleet_matrix_destroy(product.of_c) == FLEET_OK;
    });
    return child && fleet_event_wait(event) == FLEET_OK && product.is_right();
  }));
}

TEST(QueuedCalls, MayBeForkedInAnyState) {
  EXPECT_TRUE(test::child_succeeds([] {
    static Product& product = *new Product("poison");
    bool right = true;
    for (int round = 0; round < 30; ++round) {
      fleet_event* event = nullptr;
      right &= product.queue(&event) == FLEET_OK;
      std::this_thread::sleep_for(std::chrono::microseconds(40 * round));
      right &= test::child_succeeds([&] {
        std::vector<double> c(kEdge * kEdge, 2.0);
        const fleet_status status =
            fleet_dgemm(product.context, FLEET_NO_TRANS, FLEET_NO_TRANS, kEdge, kEdge, kEdge, 1.0,
                        product.a.data(), kEdge, product.a.data(), kEdge, 0.0, c.data(), kEdge);
        return status == FLEET_OK && c.front() == kEdge;
      });
      right &= fleet_event_wait(event) == FLEET_OK && product.is_right();
      fleet_event_destroy(event);
    }
    return right;
  }));
}

TEST(QueuedCalls, AreNotWaitedForByAnExit) {
  const test::Ended ended = test::run_program([] {
    static Product& product = *new Product("delay:host->0+5");
    const fleet_status status = product.queue(nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return status == FLEET_OK ? 0 : 1;
  });
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.output, "");
  EXPECT_LT(ended.seconds, 10);
}

TEST(QueuedCalls, OfAnExitHandlerAreComputed) {
  const test::Ended ended = test::run_program([] {
    static Product& product = *new Product("poison");
    fleet_event* event = nullptr;
    if (product.queue(&event) != FLEET_OK || fleet_event_wait(event) != FLEET_OK) return 1;
    fleet_event_destroy(event);
    std::atexit([] {
      product.c.assign(product.c.size(), 0.0);
      fleet_event* late = nullptr;
      if (product.queue(&late) != FLEET_OK || fleet_event_wait(late) != FLEET_OK ||
          !product.is_right())
        _exit(7);
      fleet_event_destroy(late);
    });
    return 0;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
}

TEST(Events, OfTheParentDoNotMakeTheChildWait) {
  EXPECT_TRUE(test::child_succeeds([] {
    static Product& product = *new Product("poison");
    fleet_event *arrived = nullptr, *held = nullptr;
    if (fleet_event_create(&arrived) != FLEET_OK ||
        fleet_matrix_after(product.of_c, arrived) != FLEET_OK || product.queue(&held) != FLEET_OK)
      return false;
    const bool child = test::child_succeeds([&] {
      if (fleet_event_wait(arrived) != FLEET_UNSUPPORTED) return false;
      if (fleet_matrix_after(product.of_c, arrived) != FLEET_UNSUPPORTED) return false;
      fleet_event* own = nullptr;
      if (product.queue(&own) != FLEET_OK || fleet_event_wait(own) != FLEET_OK ||
          !product.is_right())
        return false;
      // In the child alone; the call of the parent is not there to be started.
      return fleet_event_set(arrived, FLEET_OK) == FLEET_OK &&
             fleet_event_wait(arrived) == FLEET_OK &&
             fleet_matrix_after(product.of_c, arrived) == FLEET_OK &&
             fleet_event_wait(held) == FLEET_UNSUPPORTED &&
             fleet_event_destroy(arrived) == FLEET_OK;
    });
    int done = -1;
    if (fleet_event_query(held, &done) != FLEET_OK || done != 0) return false;
    return child && fleet_event_set(arrived, FLEET_OK) == FLEET_OK &&
           fleet_event_wait(held) == FLEET_OK && product.is_right();
  }));
}

TEST(Events, MayBeSetWhileTheProcessForks) {
  EXPECT_TRUE(test::child_succeeds([] {
    static Product& product = *new Product("poison");
    bool right = true;
    for (int round = 0; round < 20; ++round) {
      fleet_event *arrived = nullptr, *held = nullptr;
      right &= fleet_event_create(&arrived) == FLEET_OK &&
               fleet_matrix_after(product.of_c, arrived) == FLEET_OK &&
               product.queue(&held) == FLEET_OK;
      std::thread sets([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(30 * round));
        fleet_event_set(arrived, FLEET_OK);
      });
      right &= test::child_succeeds([&] {
        fleet_event* own = nullptr;
        return fleet_event_create(&own) == FLEET_OK && fleet_event_set(own, FLEET_OK) == FLEET_OK &&
               fleet_event_wait(own) == FLEET_OK;
      });
      sets.join();
      right &= fleet_event_wait(held) == FLEET_OK && product.is_right();
      fleet_event_destroy(held);
      fleet_event_destroy(arrived);
    }
    return right;
  }));
}

TEST(Events, ThatNobodySetDoNotKeepAnExit) {
  const test::Ended ended = test::run_program([] {
    static fleet_event *arrived = nullptr, *held = nullptr;
    std::atexit([] {  // runs after the handlers of the library, which begins later
      if (fleet_event_wait(held) != FLEET_UNSUPPORTED) _exit(7);
    });
    static Product& product = *new Product("poison");
    if (fleet_event_create(&arrived) != FLEET_OK ||
        fleet_matrix_after(product.of_c, arrived) != FLEET_OK || product.queue(&held) != FLEET_OK)
      return 1;
    std::thread([] { fleet_event_wait(held); }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return 0;
  });
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_LT(ended.seconds, 10);
}

}  // namespace
}  // namespace fleet

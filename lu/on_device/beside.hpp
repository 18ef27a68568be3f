// SPDX-License-Identifier: BSD-3-Clause
// beside.hpp: work that goes on while the thread that factors does something else. It knows no
// devices.
#pragma once
#include <functional>
#include <future>
#include <system_error>

namespace fleet::lu {

/// By a thread of its own or, where the system gives none, by whoever waits for it.
inline std::future<void> beside_this_thread(std::function<void()> work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, std::move(work));
  }
}

}  // namespace fleet::lu

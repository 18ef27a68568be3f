// SPDX-License-Identifier: BSD-3-Clause
// refusal.hpp: what is said of what is refused.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.hpp"

namespace fleet::test {

/// The message of the Error of this status that the act throws.
inline std::string refusal(Status status, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), status) << e.what();
    return e.what();
  }
  return "nothing was refused";
}

}  // namespace fleet::test

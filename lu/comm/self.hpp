// SPDX-License-Identifier: BSD-3-Clause
// self.hpp: a group of one rank, whose messages are copies. It knows no other ranks.
#pragma once
#include "comm/comm.hpp"

namespace fleet::lu {

std::unique_ptr<Comm> only_this_rank();

}  // namespace fleet::lu

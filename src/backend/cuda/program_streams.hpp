// SPDX-License-Identifier: BSD-3-Clause
// program_streams.hpp: streams that belong to the program, which may hold or capture them. It must
// not know calls.
#pragma once
#include <functional>

namespace fleet::cuda {

// Streams of the current device, by the handle that the program gives: nullptr is the default
// stream, as in CUDA. Each function throws Error(unsupported) if the program captures the stream,
// or another one that the default stream waits for: work of ours would become a part of its graph,
// and to wait would end the capture. Throws Error(device_failed) too.

void wait_for_program(void* stream);
/// `then` gets nullptr, or what has failed, in a thread of the driver.
void when_program_done(void* stream, const std::function<void(const char*)>& then);
/// As hold_stream.
std::function<void()> hold_program(void* stream);

/// May the default stream of the current device be waited for? Not while a stream is held or
/// captured that it waits for. Ask with a NoNewHold.
bool is_default_stream_free();

}  // namespace fleet::cuda

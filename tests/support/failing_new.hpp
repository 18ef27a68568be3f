// SPDX-License-Identifier: BSD-3-Clause
// failing_new.hpp: an operator new that fails on demand. It replaces the one of the whole program,
// so exactly one source file of a program includes it. It knows no library.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace fleet::test::detail {

inline std::atomic<bool> armed{false};
inline std::atomic<long> allocations_left{0};
inline std::atomic<long> failures{0};
inline std::atomic<bool> only_one{false};

inline bool fails_now() {
  if (!armed.load()) return false;
  const long left = allocations_left.fetch_sub(1);
  const bool fails = only_one ? left == 1 : left <= 1;
  if (fails) ++failures;
  return fails;
}

inline void* allocate(std::size_t bytes, std::size_t alignment) {
  if (fails_now()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

inline void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* data = allocate(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

/// Not inlined, since the compiler warns of a mismatch when it sees new and free together.
[[gnu::noinline]] inline void give_back(void* data) { std::free(data); }

}  // namespace fleet::test::detail

void* operator new(std::size_t bytes) { return fleet::test::detail::allocate_or_throw(bytes, 1); }
void* operator new[](std::size_t bytes) { return fleet::test::detail::allocate_or_throw(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return fleet::test::detail::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return fleet::test::detail::allocate(bytes, 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return fleet::test::detail::allocate(bytes, 1);
}
void operator delete(void* data) noexcept { fleet::test::detail::give_back(data); }
void operator delete[](void* data) noexcept { fleet::test::detail::give_back(data); }
void operator delete(void* data, std::size_t) noexcept { fleet::test::detail::give_back(data); }
void operator delete[](void* data, std::size_t) noexcept { fleet::test::detail::give_back(data); }
void operator delete(void* data, std::align_val_t) noexcept {
  fleet::test::detail::give_back(data);
}
void operator delete(void* data, std::size_t, std::align_val_t) noexcept {
  fleet::test::detail::give_back(data);
}
void operator delete(void* data, const std::nothrow_t&) noexcept {
  fleet::test::detail::give_back(data);
}
void operator delete[](void* data, const std::nothrow_t&) noexcept {
  fleet::test::detail::give_back(data);
}

namespace fleet::test {

/// Runs `work` while its n-th allocation fails (and all later ones, unless `one`). True if one
/// failed.
template <typename Work>
bool with_failure(long n, bool one, Work&& work) {
  detail::failures = 0;
  detail::allocations_left = n;
  detail::only_one = one;
  detail::armed = true;
  work();
  detail::armed = false;
  return detail::failures > 0;
}

/// The number of allocations in `work`.
template <typename Work>
long count_allocations(Work&& work) {
  constexpr long kNever = 1L << 40;
  with_failure(kNever, true, work);
  return kNever - detail::allocations_left;
}

}  // namespace fleet::test

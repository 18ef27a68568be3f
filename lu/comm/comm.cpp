// SPDX-License-Identifier: BSD-3-Clause
// comm.cpp: what every kind of group does by the messages that it has.
#include "comm/comm.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <new>
#include <sstream>
#include <utility>

namespace fleet::lu {

BrokenMessages no_answer(double seconds) {
  std::ostringstream text;
  text << "a rank has not answered for " << seconds << " s";
  return BrokenMessages(text.str());
}

void keep_for_ever(std::shared_ptr<const void> memory) noexcept {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  try {
    kept.push_back(memory);
  } catch (const std::bad_alloc&) {
    using Memory = std::shared_ptr<const void>;
    alignas(Memory) static unsigned char last[sizeof(Memory)];
    new (last) Memory(std::move(memory));
  }
}

std::vector<double> Comm::gathered(std::span<const double> mine) {
  struct Message {
    std::vector<double> mine, all;
    std::vector<std::int64_t> counts;
  };
  const auto ranks = static_cast<std::size_t>(size());
  const auto message =
      std::make_shared<Message>(Message{{mine.begin(), mine.end()},
                                        std::vector<double>(mine.size() * ranks),
                                        std::vector<std::int64_t>(ranks, std::ssize(mine))});
  try {
    gather(message->mine, message->counts, message->all)->wait();
  } catch (...) {
    keep_for_ever(message);
    throw;
  }
  return std::move(message->all);
}

void Comm::reduce(std::span<double> data, Reduction how) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::vector<double> all = gathered(data);
  std::copy_n(all.begin(), data.size(), data.begin());
  for (std::size_t rank = 1; rank < ranks; ++rank)
    for (std::size_t i = 0; i < data.size(); ++i) {
      const double other = all[rank * data.size() + i];
      if (how == Reduction::sum)
        data[i] += other;
      else if (other > data[i] || std::isnan(other))
        data[i] = other;
    }
}

std::string Comm::try_on_all(const std::function<void()>& work, const std::string& elsewhere) {
  std::string why;
  double fails[1] = {0};
  try {
    work();
  } catch (const std::exception& failure) {
    why = failure.what();
    fails[0] = 1;
  }
  reduce(fails, Reduction::largest);
  if (fails[0] != 0 && why.empty()) why = elsewhere;
  return why;
}

void Comm::barrier() {
  double nothing = 0;
  reduce({&nothing, 1}, Reduction::sum);
}

}  // namespace fleet::lu

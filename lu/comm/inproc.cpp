// SPDX-License-Identifier: BSD-3-Clause
// inproc.cpp: what ranks say is put on a board that all of them see. Whoever wants something takes
// it when it is there and its link has had the time.
#include "comm/inproc.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

namespace fleet::lu {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

/// One collective call: what each rank has said.
struct Entry {
  struct Part {
    std::vector<double> data;
    Clock::time_point said;
  };
  std::vector<std::optional<Part>> parts;
  int left = 0;  ///< ranks that still want something of it
};

/// The ranks of a group by their numbers in the process, the splits that it came from, and which
/// call of the group.
using EntryKey = std::tuple<std::vector<int>, std::vector<int>, std::int64_t>;

/// What all ranks of a run share.
class Board {
 public:
  explicit Board(const Pace& pace) : pace_(pace) {}

  void say(const EntryKey& key, int rank, std::span<const double> data) {
    {
      const std::lock_guard lock(mutex_);
      Entry& entry = entry_of(key);
      entry.parts[static_cast<std::size_t>(rank)] = {{data.begin(), data.end()}, Clock::now()};
    }
    heard_.notify_all();
  }

  /// When everything of `wanted` is with rank `to`; nothing as long as somebody has not spoken.
  /// Throws Failure.
  std::optional<Clock::time_point> arrival(const EntryKey& key, std::span<const int> wanted,
                                           int to) {
    const std::lock_guard lock(mutex_);
    return arrival_locked(key, wanted, to);
  }

  /// Waits for it. Throws Failure.
  void wait(const EntryKey& key, std::span<const int> wanted, int to, double patience_s) {
    std::unique_lock lock(mutex_);
    const auto limit = Clock::now() + seconds(patience_s);
    for (;;) {
      if (const auto there = arrival_locked(key, wanted, to)) {
        lock.unlock();
        std::this_thread::sleep_until(*there);
        return;
      }
      if (heard_.wait_until(lock, limit) == std::cv_status::timeout &&
          !arrival_locked(key, wanted, to))
        throw no_answer(patience_s);
    }
  }

  /// What a rank has said, from its element `first` on.
  void read(const EntryKey& key, int rank, std::int64_t first, std::span<double> to) {
    const std::lock_guard lock(mutex_);
    const auto& data = entry_of(key).parts[static_cast<std::size_t>(rank)]->data;
    const std::size_t end = static_cast<std::size_t>(first) + to.size();
    if (data.size() < end)
      throw Failure("a rank has sent " + std::to_string(data.size()) + " numbers where " +
                    std::to_string(end) + " were expected");
    std::copy_n(data.begin() + first, to.size(), to.begin());
  }

  /// A rank needs nothing more of it.
  void leave(const EntryKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && --found->second.left == 0) entries_.erase(found);
  }

  void fail(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::move(error);
    }
    heard_.notify_all();
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  Entry& entry_of(const EntryKey& key) {
    const auto [found, is_new] = entries_.try_emplace(key);
    if (is_new) {
      found->second.parts.resize(std::get<0>(key).size());
      found->second.left = static_cast<int>(std::get<0>(key).size());
    }
    return found->second;
  }

  std::optional<Clock::time_point> arrival_locked(const EntryKey& key, std::span<const int> wanted,
                                                  int to) {
    if (error_ != nullptr) throw Failure("another rank has failed");
    Clock::time_point there = Clock::time_point::min();
    const Entry& entry = entry_of(key);
    for (const int from : wanted) {
      const auto& part = entry.parts[static_cast<std::size_t>(from)];
      if (!part) return {};
      if (from == to) continue;
      double takes_s = pace_.latency_s;
      if (pace_.bytes_per_s > 0)
        takes_s += static_cast<double>(part->data.size() * sizeof(double)) / pace_.bytes_per_s;
      there = std::max(there, part->said + seconds(takes_s));
    }
    return there;
  }

  const Pace pace_;
  std::mutex mutex_;
  std::condition_variable heard_;
  std::map<EntryKey, Entry> entries_;
  std::exception_ptr error_;
};

/// Waits for the parts of some ranks, then takes them.
class BoardRequest final : public Request {
 public:
  BoardRequest(Board& board, EntryKey key, std::vector<int> wanted, int rank, double patience_s,
               std::function<void()> take)
      : board_(board),
        key_(std::move(key)),
        wanted_(std::move(wanted)),
        rank_(rank),
        patience_s_(patience_s),
        take_(std::move(take)) {}

  bool test() override {
    if (is_done_) return true;
    const auto there = board_.arrival(key_, wanted_, rank_);
    if (!there || *there > Clock::now()) return false;
    finish();
    return true;
  }
  void wait() override {
    if (is_done_) return;
    board_.wait(key_, wanted_, rank_, patience_s_);
    finish();
  }

 private:
  void finish() {
    take_();
    is_done_ = true;
    board_.leave(key_);
  }

  Board& board_;
  const EntryKey key_;
  const std::vector<int> wanted_;
  const int rank_;
  const double patience_s_;
  const std::function<void()> take_;
  bool is_done_ = false;
};

class InprocComm final : public Comm {
 public:
  InprocComm(Board& board, std::vector<int> group, std::vector<int> splits, int rank,
             double patience_s)
      : board_(board),
        group_(std::move(group)),
        origin_(std::move(splits)),
        rank_(rank),
        patience_s_(patience_s) {
    everybody_.resize(group_.size());
    std::iota(everybody_.begin(), everybody_.end(), 0);
  }

  void set_patience(double seconds) override { patience_s_ = seconds; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_.size()); }
  bool shares_memory() const override { return true; }

  std::unique_ptr<Request> broadcast(std::span<double> data, int root) override {
    const EntryKey key = next_key();
    if (rank_ == root) board_.say(key, rank_, data);
    return request(key, {root}, [this, key, data, root] {
      if (rank_ != root) board_.read(key, root, 0, data);
    });
  }

  std::unique_ptr<Request> scatter(std::span<const double> from,
                                   std::span<const std::int64_t> counts, std::span<double> to,
                                   int root) override {
    const EntryKey key = next_key();
    if (rank_ == root) board_.say(key, rank_, from);
    const std::int64_t first =
        std::accumulate(counts.begin(), counts.begin() + rank_, std::int64_t{0});
    return request(key, {root},
                   [this, key, to, first, root] { board_.read(key, root, first, to); });
  }

  std::unique_ptr<Request> gather(std::span<const double> from,
                                  std::span<const std::int64_t> counts,
                                  std::span<double> to) override {
    const EntryKey key = next_key();
    board_.say(key, rank_, from);
    return request(
        key, everybody_, [this, key, to, sizes = std::vector(counts.begin(), counts.end())] {
          std::int64_t at = 0;
          for (std::size_t r = 0; r < sizes.size(); ++r) {
            board_.read(
                key, static_cast<int>(r), 0,
                to.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(sizes[r])));
            at += sizes[r];
          }
        });
  }

  std::unique_ptr<Request> exchange(std::span<const double> from,
                                    std::span<const std::int64_t> from_counts, std::span<double> to,
                                    std::span<const std::int64_t> to_counts) override {
    const EntryKey key = next_key();
    // Each rank's part begins where the numbers at the front say.
    std::vector<double> said;
    std::int64_t offset = std::ssize(group_);
    for (const std::int64_t count : from_counts) {
      said.push_back(static_cast<double>(offset));
      offset += count;
    }
    said.insert(said.end(), from.begin(), from.end());
    board_.say(key, rank_, said);
    return request(
        key, everybody_, [this, key, to, sizes = std::vector(to_counts.begin(), to_counts.end())] {
          std::int64_t at = 0;
          for (std::size_t r = 0; r < sizes.size(); ++r) {
            double begin = 0;
            board_.read(key, static_cast<int>(r), rank_, {&begin, 1});
            board_.read(
                key, static_cast<int>(r), static_cast<std::int64_t>(begin),
                to.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(sizes[r])));
            at += sizes[r];
          }
        });
  }

  std::unique_ptr<Comm> split(int color, int key) override {
    const double mine[2] = {static_cast<double>(color), static_cast<double>(key)};
    std::vector<double> all(2 * group_.size());
    const std::vector<std::int64_t> counts(group_.size(), 2);
    gather(mine, counts, all)->wait();
    std::vector<std::pair<double, int>> members;
    for (std::size_t r = 0; r < group_.size(); ++r)
      if (all[2 * r] == mine[0]) members.emplace_back(all[2 * r + 1], static_cast<int>(r));
    std::ranges::sort(members);
    std::vector<int> group;
    int rank = 0;
    for (const auto& [at, member] : members) {
      if (member == rank_) rank = static_cast<int>(group.size());
      group.push_back(group_[static_cast<std::size_t>(member)]);
    }
    // All ranks have split as often as this one: the path is theirs too.
    std::vector<int> origin = origin_;
    origin.push_back(splits_++);
    return std::make_unique<InprocComm>(board_, std::move(group), std::move(origin), rank,
                                        patience_s_);
  }

 private:
  EntryKey next_key() { return {group_, origin_, calls_++}; }
  std::unique_ptr<Request> request(const EntryKey& key, std::vector<int> wanted,
                                   std::function<void()> take) {
    return std::make_unique<BoardRequest>(board_, key, std::move(wanted), rank_, patience_s_,
                                          std::move(take));
  }

  Board& board_;
  const std::vector<int> group_;
  const std::vector<int> origin_;
  const int rank_;
  double patience_s_;
  std::vector<int> everybody_;
  std::int64_t calls_ = 0;
  int splits_ = 0;
};

}  // namespace

void run_ranks(int ranks, const Pace& pace, const std::function<void(Comm&)>& rank_main) {
  Board board(pace);
  std::vector<int> group(static_cast<std::size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  std::vector<std::thread> threads;
  const auto run = [&](int rank) {
    try {
      InprocComm comm(board, group, {}, rank, pace.patience_s);
      rank_main(comm);
    } catch (...) {
      board.fail(std::current_exception());
    }
  };
  for (int rank = 1; rank < ranks; ++rank) try {
      threads.emplace_back(run, rank);
    } catch (const std::system_error&) {
      board.fail(std::make_exception_ptr(Failure("no thread for a rank could be started")));
      break;
    }
  run(0);
  for (std::thread& thread : threads) thread.join();
  board.rethrow();
}

}  // namespace fleet::lu

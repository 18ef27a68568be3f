// SPDX-License-Identifier: BSD-3-Clause
// inproc.cpp: what ranks say is put on a board that all of them see. Whoever wants something takes
// it when it is there and its link has had the time.
#include "comm/inproc.hpp"

#include <algorithm>
#include <atomic>
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

/// One collective call: what each rank says. It does not change after that, so that it is read
/// without a lock.
class Call {
 public:
  explicit Call(std::size_t ranks) : parts_(ranks) {}

  struct Part {
    std::vector<double> data;
    Clock::time_point said;
    std::atomic<bool> is_said = false;
  };
  Part& of(int rank) { return parts_[static_cast<std::size_t>(rank)]; }
  const Part& of(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }

  /// What a rank has said, from its element `first` on.
  void read(int rank, std::int64_t first, std::span<double> to) const {
    const std::vector<double>& data = of(rank).data;
    const std::size_t end = static_cast<std::size_t>(first) + to.size();
    if (data.size() < end)
      throw Failure("a rank has sent " + std::to_string(data.size()) + " numbers where " +
                    std::to_string(end) + " were expected");
    std::copy_n(data.begin() + first, to.size(), to.begin());
  }

 private:
  std::vector<Part> parts_;
};

/// The ranks of a group by their numbers in the process, the splits that it came from, and which
/// call of the group.
using CallKey = std::tuple<std::vector<int>, std::vector<int>, std::int64_t>;

/// What all ranks of a run share.
class Board {
 public:
  Board(const Pace& pace, int ranks)
      : pace_(pace),
        ranks_have_cores_(static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency()) {}

  /// The same for all ranks of the group, each of which asks once.
  std::shared_ptr<Call> call(const CallKey& key) {
    const std::size_t ranks = std::get<0>(key).size();
    const std::lock_guard lock(mutex_);
    Asked& asked = calls_[key];
    if (asked.call == nullptr) asked.call = std::make_shared<Call>(ranks);
    const std::shared_ptr<Call> call = asked.call;
    if (++asked.by == ranks) calls_.erase(key);
    return call;
  }

  void say(Call& call, int rank, std::span<const double> data) {
    Call::Part& part = call.of(rank);
    part.data.assign(data.begin(), data.end());
    part.said = Clock::now();
    {
      const std::lock_guard lock(mutex_);  // nobody begins to wait at this moment
      part.is_said.store(true, std::memory_order_release);
    }
    heard_.notify_all();
  }

  /// When everything of `wanted` is with rank `to`; nothing as long as somebody has not spoken.
  /// Throws Failure.
  std::optional<Clock::time_point> arrival(const Call& call, std::span<const int> wanted,
                                           int to) const {
    if (has_failed_.load(std::memory_order_acquire))
      throw BrokenMessages("another rank has failed");
    Clock::time_point there = Clock::time_point::min();
    for (const int from : wanted) {
      const Call::Part& part = call.of(from);
      if (!part.is_said.load(std::memory_order_acquire)) return {};
      if (from == to) continue;
      double takes_s = pace_.latency_s;
      if (pace_.bytes_per_s > 0)
        takes_s += static_cast<double>(part.data.size() * sizeof(double)) / pace_.bytes_per_s;
      there = std::max(there, part.said + seconds(takes_s));
    }
    return there;
  }

  /// Waits for it. Throws Failure.
  void wait(const Call& call, std::span<const int> wanted, int to, double patience_s) {
    // To be woken takes longer than most answers of ranks that are at the same work. Where they
    // share cores, whoever looks keeps others from answering.
    constexpr std::chrono::microseconds kSoon{50};
    const auto now = Clock::now(), limit = now + seconds(patience_s);
    const auto soon = ranks_have_cores_ ? now + kSoon : now;
    auto there = arrival(call, wanted, to);
    while (!there && Clock::now() < soon) there = arrival(call, wanted, to);
    if (!there) {
      std::unique_lock lock(mutex_);
      const auto is_there = [&] { return (there = arrival(call, wanted, to)).has_value(); };
      if (!heard_.wait_until(lock, limit, is_there)) throw no_answer(patience_s);
    }
    std::this_thread::sleep_until(*there);
  }

  void fail(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) error_ = std::move(error);
      has_failed_.store(true, std::memory_order_release);
    }
    heard_.notify_all();
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  struct Asked {
    std::shared_ptr<Call> call;
    std::size_t by = 0;  ///< so many ranks
  };

  const Pace pace_;
  const bool ranks_have_cores_;  ///< as many as there are ranks
  std::mutex mutex_;
  std::condition_variable heard_;
  std::map<CallKey, Asked> calls_;  // guarded by mutex_: what not all ranks have come to
  std::exception_ptr error_;        // guarded by mutex_ while ranks run
  std::atomic<bool> has_failed_ = false;
};

/// Waits for the parts of some ranks, then takes them.
class BoardRequest final : public Request {
 public:
  using Take = std::function<void(const Call&)>;

  BoardRequest(Board& board, std::shared_ptr<const Call> call, std::vector<int> wanted, int rank,
               double patience_s, Take take)
      : board_(board),
        call_(std::move(call)),
        wanted_(std::move(wanted)),
        rank_(rank),
        patience_s_(patience_s),
        take_(std::move(take)) {}

  bool test() override {
    if (is_done_) return true;
    const auto there = board_.arrival(*call_, wanted_, rank_);
    if (!there || *there > Clock::now()) return false;
    finish();
    return true;
  }
  void wait() override {
    if (is_done_) return;
    board_.wait(*call_, wanted_, rank_, patience_s_);
    finish();
  }

 private:
  void finish() {
    take_(*call_);
    is_done_ = true;
    call_.reset();
  }

  Board& board_;
  std::shared_ptr<const Call> call_;
  const std::vector<int> wanted_;
  const int rank_;
  const double patience_s_;
  const Take take_;
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
    const std::shared_ptr<Call> call = next_call();
    if (rank_ == root) board_.say(*call, rank_, data);
    return request(call, {root}, [this, data, root](const Call& said) {
      if (rank_ != root) said.read(root, 0, data);
    });
  }

  std::unique_ptr<Request> scatter(std::span<const double> from,
                                   std::span<const std::int64_t> counts, std::span<double> to,
                                   int root) override {
    const std::shared_ptr<Call> call = next_call();
    if (rank_ == root) board_.say(*call, rank_, from);
    const std::int64_t first =
        std::accumulate(counts.begin(), counts.begin() + rank_, std::int64_t{0});
    return request(call, {root},
                   [to, first, root](const Call& said) { said.read(root, first, to); });
  }

  std::unique_ptr<Request> gather(std::span<const double> from,
                                  std::span<const std::int64_t> counts,
                                  std::span<double> to) override {
    const std::shared_ptr<Call> call = next_call();
    board_.say(*call, rank_, from);
    return request(
        call, everybody_,
        [to, sizes = std::vector(counts.begin(), counts.end())](const Call& said) {
          std::int64_t at = 0;
          for (std::size_t r = 0; r < sizes.size(); ++r) {
            said.read(static_cast<int>(r), 0,
                      to.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(sizes[r])));
            at += sizes[r];
          }
        });
  }

  std::unique_ptr<Request> exchange(std::span<const double> from,
                                    std::span<const std::int64_t> from_counts, std::span<double> to,
                                    std::span<const std::int64_t> to_counts) override {
    const std::shared_ptr<Call> call = next_call();
    // Each rank's part begins where the numbers at the front say.
    std::vector<double> words;
    std::int64_t offset = std::ssize(group_);
    for (const std::int64_t count : from_counts) {
      words.push_back(static_cast<double>(offset));
      offset += count;
    }
    words.insert(words.end(), from.begin(), from.end());
    board_.say(*call, rank_, words);
    return request(
        call, everybody_,
        [this, to, sizes = std::vector(to_counts.begin(), to_counts.end())](const Call& said) {
          std::int64_t at = 0;
          for (std::size_t r = 0; r < sizes.size(); ++r) {
            double begin = 0;
            said.read(static_cast<int>(r), rank_, {&begin, 1});
            said.read(static_cast<int>(r), static_cast<std::int64_t>(begin),
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
  std::shared_ptr<Call> next_call() { return board_.call({group_, origin_, calls_++}); }
  std::unique_ptr<Request> request(std::shared_ptr<const Call> call, std::vector<int> wanted,
                                   BoardRequest::Take take) {
    return std::make_unique<BoardRequest>(board_, std::move(call), std::move(wanted), rank_,
                                          patience_s_, std::move(take));
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
  Board board(pace, ranks);
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

// SPDX-License-Identifier: BSD-3-Clause
// mpi.cpp: nonblocking collectives. Threads call MPI one at a time; what is called before an engine
// runs, and abandon(), need no turn.
#include "comm_mpi/mpi.hpp"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <vector>

#include "comm/backoff.hpp"
#include "comm/self.hpp"
#include "comm_mpi/abort.hpp"
#include "comm_mpi/over.hpp"

namespace fleet::lu {
namespace {

/// Of the process: MPI is one.
std::mutex mpi_mutex;

void check(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw BrokenMessages("MPI: " + std::string(text, static_cast<std::size_t>(length)));
}

constexpr std::int64_t kLongestMessage = std::numeric_limits<int>::max();

int count_of(std::int64_t elements) {
  if (elements > kLongestMessage)
    throw Failure("a message of " + std::to_string(elements) +
                  " numbers is longer than MPI allows: take a smaller NB or more ranks");
  return static_cast<int>(elements);
}

class MpiRequest;

/// The messages of the process that are under way. A call of MPI looks at all of them and takes
/// long beside the rest of a look (microseconds with sockets), so whoever asks for one asks for
/// all, and not again at once.
class UnderWay {
 public:
  void add(MpiRequest& request, MPI_Request handle);
  void remove(MpiRequest& request);
  void look();

 private:
  static constexpr std::chrono::microseconds kFresh{1};
  std::vector<MPI_Request> handles_;
  std::vector<MpiRequest*> requests_;  ///< of these
  std::vector<int> found_;
  std::chrono::steady_clock::time_point looked_;
};

/// Of the process, guarded by mpi_mutex.
UnderWay under_way;

/// One that is not done when it goes is of a rank that has failed: collectives cannot be cancelled,
/// so what MPI still reads stays.
class MpiRequest final : public Request {
 public:
  explicit MpiRequest(double patience_s) : patience_s_(patience_s) {}
  ~MpiRequest() override {
    const std::lock_guard lock(mpi_mutex);
    under_way.remove(*this);
    if (is_done) return;
    for (std::vector<int>* read : {&counts, &offsets, &from_counts, &from_offsets})
      new std::vector(std::move(*read));
  }

  bool test() override {
    const std::lock_guard lock(mpi_mutex);
    check(error);
    if (!is_done) under_way.look();
    return is_done;
  }
  void wait() override {
    Backoff backoff;
    const auto limit =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s_);
    while (!test()) {
      backoff.pause();
      if (std::chrono::steady_clock::now() > limit) throw no_answer(patience_s_);
    }
  }

  bool is_done = false;
  int error = MPI_SUCCESS;  ///< that another request's look found
  /// MPI reads them until the end. The last two are of what is sent, by an exchange.
  std::vector<int> counts, offsets, from_counts, from_offsets;

 private:
  const double patience_s_;
};

void UnderWay::add(MpiRequest& request, MPI_Request handle) {
  if (handle == MPI_REQUEST_NULL) {  // done already
    request.is_done = true;
    return;
  }
  handles_.push_back(handle);
  requests_.push_back(&request);
}

void UnderWay::remove(MpiRequest& request) {
  const auto at = std::ranges::find(requests_, &request) - requests_.begin();
  if (at == std::ssize(requests_)) return;
  requests_.erase(requests_.begin() + at);
  handles_.erase(handles_.begin() + at);
}

void UnderWay::look() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kFresh) return;
  looked_ = now;
  int count = 0;
  found_.resize(handles_.size());
  const int code = MPI_Testsome(static_cast<int>(handles_.size()), handles_.data(), &count,
                                found_.data(), MPI_STATUSES_IGNORE);
  if (code == MPI_SUCCESS && count <= 0) return;
  // With an error, too, MPI has let go of some. Which of these have failed it does not say here.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    if (handles_[i] == MPI_REQUEST_NULL) {
      requests_[i]->is_done = code == MPI_SUCCESS;
      requests_[i]->error = code;
      continue;
    }
    handles_[kept] = handles_[i];
    requests_[kept++] = requests_[i];
  }
  handles_.resize(kept);
  requests_.resize(kept);
  check(code);
}

class MpiComm final : public Comm {
 public:
  explicit MpiComm(MPI_Comm comm, double patience_s = kForever)
      : comm_(comm), patience_s_(patience_s) {
    check(MPI_Comm_rank(comm, &rank_));
    check(MPI_Comm_size(comm, &size_));
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  }
  ~MpiComm() override {
    if (std::uncaught_exceptions() > 0) return;  // the others do not come to free it
    const std::lock_guard lock(mpi_mutex);
    MPI_Comm_free(&comm_);
  }

  void set_patience(double seconds) override { patience_s_ = seconds; }
  /// MPI counts what is in a message by ints. One rank sends none.
  std::int64_t longest_message() const override { return size_ > 1 ? kLongestMessage : INT64_MAX; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Request> broadcast(std::span<double> data, int root) override {
    auto request = std::make_unique<MpiRequest>(patience_s_);
    const int count = count_of(std::ssize(data));
    const std::lock_guard lock(mpi_mutex);
    MPI_Request handle = MPI_REQUEST_NULL;
    check(MPI_Ibcast(data.data(), count, MPI_DOUBLE, root, comm_, &handle));
    under_way.add(*request, handle);
    return request;
  }

  std::unique_ptr<Request> scatter(std::span<const double> from,
                                   std::span<const std::int64_t> counts, std::span<double> to,
                                   int root) override {
    auto request = with_counts(counts);
    const int count = count_of(std::ssize(to));
    const std::lock_guard lock(mpi_mutex);
    MPI_Request handle = MPI_REQUEST_NULL;
    check(MPI_Iscatterv(from.data(), request->counts.data(), request->offsets.data(), MPI_DOUBLE,
                        to.data(), count, MPI_DOUBLE, root, comm_, &handle));
    under_way.add(*request, handle);
    return request;
  }

  std::unique_ptr<Request> gather(std::span<const double> from,
                                  std::span<const std::int64_t> counts,
                                  std::span<double> to) override {
    auto request = with_counts(counts);
    const int count = count_of(std::ssize(from));
    const std::lock_guard lock(mpi_mutex);
    MPI_Request handle = MPI_REQUEST_NULL;
    check(MPI_Iallgatherv(from.data(), count, MPI_DOUBLE, to.data(), request->counts.data(),
                          request->offsets.data(), MPI_DOUBLE, comm_, &handle));
    under_way.add(*request, handle);
    return request;
  }

  std::unique_ptr<Request> exchange(std::span<const double> from,
                                    std::span<const std::int64_t> from_counts, std::span<double> to,
                                    std::span<const std::int64_t> to_counts) override {
    auto request = with_counts(to_counts);
    lay_out(from_counts, request->from_counts, request->from_offsets);
    const std::lock_guard lock(mpi_mutex);
    MPI_Request handle = MPI_REQUEST_NULL;
    check(MPI_Ialltoallv(from.data(), request->from_counts.data(), request->from_offsets.data(),
                         MPI_DOUBLE, to.data(), request->counts.data(), request->offsets.data(),
                         MPI_DOUBLE, comm_, &handle));
    under_way.add(*request, handle);
    return request;
  }

  std::unique_ptr<Comm> split(int color, int key) override {
    MPI_Comm part = MPI_COMM_NULL;
    {
      const std::lock_guard lock(mpi_mutex);
      check(MPI_Comm_split(comm_, color, key, &part));
    }
    auto comm = std::make_unique<MpiComm>(part, patience_s_);
    if (comm->size() == 1) return only_this_rank();
    return comm;
  }

 private:
  std::unique_ptr<MpiRequest> with_counts(std::span<const std::int64_t> counts) const {
    auto request = std::make_unique<MpiRequest>(patience_s_);
    lay_out(counts, request->counts, request->offsets);
    return request;
  }
  /// Parts of a message as MPI wants them: one after another.
  static void lay_out(std::span<const std::int64_t> counts, std::vector<int>& sizes,
                      std::vector<int>& offsets) {
    std::int64_t offset = 0;
    for (const std::int64_t count : counts) {
      sizes.push_back(count_of(count));
      offsets.push_back(count_of(offset));
      offset += count;
    }
    count_of(offset);
  }

  MPI_Comm comm_;
  double patience_s_;
  int rank_ = 0, size_ = 1;
};

/// Which MPI a header or a library is: programs of one do not work with the other.
std::string family_of_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  return {text, static_cast<std::size_t>(length)};
}

constexpr const char* kFamilyOfHeader =
#if defined(OMPI_MAJOR_VERSION)
    "Open MPI";
#elif defined(I_MPI_VERSION)
    "Intel";
#elif defined(MPICH_VERSION)
    "MPICH";
#else
    "";
#endif

void check_family() {
  const std::string library = family_of_library();
  if (library.find(kFamilyOfHeader) == std::string::npos)
    throw Failure(std::string("this program was built for ") + kFamilyOfHeader +
                  ", and the MPI library that was loaded is " +
                  library.substr(0, library.find_first_of(",\n")));
}

/// What launchers tell the processes that they start, whatever library these have.
struct Launcher {
  const char *size, *rank;
};
constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   {"PMI_SIZE", "PMI_RANK"}};

/// A launcher of another MPI starts processes of which each is alone.
void check_launcher(int size, const std::string& library) {
  for (const Launcher& launcher : kLaunchers) {
    const char* const told = std::getenv(launcher.size);
    if (told == nullptr || std::atoi(told) <= 1 || size > 1) continue;
    const std::string why = "mpirun has started " + std::string(told) +
                            " processes, and each is alone: it is not that of " + library;
    const char* const rank = std::getenv(launcher.rank);
    if (rank != nullptr && std::atoi(rank) > 0) throw NothingToRun(why);
    throw Failure(why);
  }
}

}  // namespace

std::unique_ptr<Comm> over(MPI_Comm ranks) {
  check_family();
  MPI_Comm own = MPI_COMM_NULL;
  {
    const std::lock_guard lock(mpi_mutex);
    check(MPI_Comm_dup(ranks, &own));
  }
  return std::make_unique<MpiComm>(own);
}

Mpi::OnNode on_node(MPI_Comm ranks) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  Mpi::OnNode found{};
  MPI_Comm_size(node, &found.size);
  MPI_Comm_rank(node, &found.rank);
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  std::vector<cpu_set_t> all(static_cast<std::size_t>(found.size));
  const int bytes = sizeof mine;
  const int status = MPI_Allgather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, node);
  MPI_Comm_free(&node);
  check(status);
  for (const cpu_set_t& other : all) {
    cpu_set_t common;
    CPU_AND(&common, &mine, &other);
    if (CPU_COUNT(&common) > 0) ++found.on_its_cores;
  }
  found.on_its_cores = std::max(1, found.on_its_cores);
  return found;
}

Mpi::Mpi(int* argc, char*** argv) {
  // Of all functions, what it calls may be called before MPI_Init.
  check_family();
  int is_started = 0, provided = 0;
  MPI_Initialized(&is_started);
  if (is_started == 0) {
    check(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided));
    is_ours_ = true;
  } else {
    check(MPI_Query_thread(&provided));
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    if (is_ours_) MPI_Finalize();
    throw Failure("this MPI allows no calls of several threads (MPI_THREAD_SERIALIZED)");
  }
  if (is_ours_) try {
      check_launcher(size(), library());
    } catch (const Failure&) {
      MPI_Finalize();
      throw;
    }
}

Mpi::~Mpi() {
  if (is_ours_ && std::uncaught_exceptions() == 0) MPI_Finalize();
}

std::unique_ptr<Comm> Mpi::world() const { return over(MPI_COMM_WORLD); }

int Mpi::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int Mpi::size() const {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

Mpi::OnNode Mpi::on_node() const { return lu::on_node(MPI_COMM_WORLD); }

std::string Mpi::library() const {
  std::string text = family_of_library();
  return text.substr(0, text.find_first_of(",\n"));
}

void Mpi::abandon(int status) const noexcept { end_all_ranks(status); }

}  // namespace fleet::lu

// SPDX-License-Identifier: BSD-3-Clause
// fake_nccl.cpp: the functions of NCCL and of CUDA's driver that ranks use, between processes of
// one machine, in host memory. A message is a file in FAKE_NCCL_FOLDER. FAKE_NCCL=start, slow,
// later, never: it fails at its start, never ends it, reports an error after the first messages, or
// has messages that never come then; =shared: all ranks have the same GPU; =elsewhere: memory is
// not the device's.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

constexpr int kInternalError = 3, kRemoteError = 6, kNotReady = 600;
constexpr int kInProgress = 7;
/// Of which each rank of three sends one that is only tried.
constexpr int kGoodMessages = 6;

bool is_asked_for(const std::string& what) {
  const char* const asked = std::getenv("FAKE_NCCL");
  return asked != nullptr && what == asked;
}

std::string folder() {
  const char* const named = std::getenv("FAKE_NCCL_FOLDER");
  return named != nullptr ? named : "/tmp";
}

/// What its rank waits for.
struct Message {
  std::string file;
  void* to;
  std::size_t bytes;
  bool is_done = false;

  bool look() {
    if (is_done) return true;
    std::FILE* const in = std::fopen(file.c_str(), "rb");
    if (in == nullptr) return false;
    is_done = std::fread(to, 1, bytes, in) == bytes;
    std::fclose(in);
    return is_done;
  }
};

struct Rank {
  int rank = 0, messages = 0;
  std::string id;
  int questions = 0;  ///< since a call that goes on beside its thread
};

struct Id {
  char bytes[128];
};

struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

void* current_context = nullptr;

/// A process uses one.
int current_device() {
  return current_context == nullptr ? -1 : *static_cast<int*>(current_context);
}

/// One for all: a process has one stream, and asks after each message before the next.
std::shared_ptr<Message> last;

struct Event {
  std::shared_ptr<Message> message;
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int ncclGetVersion(int* version) { return *version = 22703, 0; }
EXPORTED const char* ncclGetErrorString(int) { return "failed on purpose"; }
EXPORTED int ncclGetUniqueId(Id* id) {
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "%ld", static_cast<long>(getpid()));
  return 0;
}
EXPORTED int ncclCommInitRankConfig(void** comm, int, Id id, int rank, Config* config) {
  if (config->size < sizeof(Config) || config->magic != 0xcafebeef || config->blocking != 0)
    return kInternalError;
  static int made = 0;
  *comm = new Rank{.rank = rank, .id = std::string(id.bytes) + "-" + std::to_string(made++)};
  return kInProgress;
}
EXPORTED int ncclCommCuDevice(void*, int* device) { return *device = current_device(), 0; }
EXPORTED int ncclCommFinalize(void* comm) {
  static_cast<Rank*>(comm)->questions = 0;
  return kInProgress;
}
EXPORTED int ncclCommDestroy(void* comm) { return delete static_cast<Rank*>(comm), 0; }
EXPORTED int ncclCommAbort(void* comm) { return ncclCommDestroy(comm); }
EXPORTED int ncclCommGetAsyncError(void* comm, int* error) {
  Rank& mine = *static_cast<Rank*>(comm);
  constexpr int kQuestions = 3;
  *error = ++mine.questions <= kQuestions || is_asked_for("slow") ? kInProgress : 0;
  // One rank alone.
  if (is_asked_for("start") && mine.rank == 1 && *error == 0) *error = kInternalError;
  if (is_asked_for("later") && mine.messages > kGoodMessages) *error = kRemoteError;
  return 0;
}
EXPORTED int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                           void* comm, void*) {
  Rank& mine = *static_cast<Rank*>(comm);
  constexpr int kDouble = 8;
  if (type != kDouble) return kInternalError;
  const std::size_t bytes = count * sizeof(double);
  const int number = mine.messages++;
  mine.questions = 0;
  last = std::make_shared<Message>(Message{
      .file = folder() + "/" + mine.id + "-" + std::to_string(number), .to = to, .bytes = bytes});
  const bool comes = !((is_asked_for("later") || is_asked_for("never")) && number >= kGoodMessages);
  // As the first one, which connects ranks.
  const int status = number == 0 ? kInProgress : 0;
  if (mine.rank != root || !comes) return status;
  const std::string part = last->file + ".part";
  std::FILE* const out = std::fopen(part.c_str(), "wb");
  if (out == nullptr || std::fwrite(from, 1, bytes, out) != bytes || std::fclose(out) != 0 ||
      std::rename(part.c_str(), last->file.c_str()) != 0)
    return kInternalError;
  last->is_done = true;
  return status;
}

/// Threads of the program have the context again that they had, none.
[[gnu::destructor]] void require_no_context() {
  if (current_context == nullptr) return;
  std::fputs("fake NCCL: a thread was left with a context\n", stderr);
  std::_Exit(1);
}

EXPORTED int cuInit(unsigned) { return 0; }
EXPORTED int cuDeviceGet(int* device, int number) { return *device = number, 0; }
EXPORTED int cuDeviceGetUuid(char* name, int) {
  std::snprintf(name, 16, "%ld", is_asked_for("shared") ? 1L : static_cast<long>(getpid()));
  return 0;
}
EXPORTED int cuDevicePrimaryCtxRetain(void** context, int device) {
  static int devices[8];
  devices[device] = device;
  return *context = &devices[device], 0;
}
EXPORTED int cuCtxGetCurrent(void** context) { return *context = current_context, 0; }
EXPORTED int cuCtxSetCurrent(void* context) { return current_context = context, 0; }
EXPORTED int cuPointerGetAttribute(void* value, int, unsigned long long) {
  *static_cast<int*>(value) = is_asked_for("elsewhere") ? -1 : current_device();
  return 0;
}
EXPORTED int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return *least = 0, *greatest = -5, 0;
}
EXPORTED int cuStreamCreateWithPriority(void** stream, unsigned, int priority) {
  constexpr int kGreatest = -5;
  return *stream = &last, priority == kGreatest ? 0 : 1;
}
EXPORTED int cuStreamDestroy_v2(void*) { return 0; }
EXPORTED int cuEventCreate(Event** event, unsigned) { return *event = new Event, 0; }
EXPORTED int cuEventRecord(Event* event, void*) { return event->message = last, 0; }
EXPORTED int cuEventQuery(Event* event) { return event->message->look() ? 0 : kNotReady; }
EXPORTED int cuEventDestroy_v2(Event* event) { return delete event, 0; }

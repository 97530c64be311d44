// The session of libmetac that the contexts of a process share, one for each set of weights, threads and processor. A thread
// of its own opens it when somebody first asks for it; the last context closes it.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <new>

#include "../files/prepared_weights.h"
#include "../files/weights.h"
#include "../process/fork_mark.h"
#include "carried_model.h"
#include "metac_library.h"

namespace METAC_RUNTIME_NAMESPACE {

// What a session is of. Equal ones are shared.
struct SessionWanted {
  const char* library = nullptr;  // path of libmetac; null: METAC_LIBRARY, or where it is found; "off": none
  const char* cpu = nullptr;      // the name of variant `variant`
  int32_t variant = 0, threads = 0;
  int32_t most_programs = 0;            // that the session holds; 0: libmetac's default
  const Weights* weights = nullptr;     // of the context, mapped or inside the library
  PreparedWeights* prepared = nullptr;  // what it made of them, where the file has parameters
};

class SharedSession {
 public:
  // The process's session of that kind, with one user more; null: no memory.
  static SharedSession* join(const SessionWanted& wanted);
  // The last user closes it: what is being compiled is broken off. In the child of a fork the parent's stays as it is.
  void leave();

  // Null: it is not open. The first call begins to open it and does not wait.
  MetacSession* session() {
    const int32_t state = state_.load(std::memory_order_acquire);
    if (state == untouched) begin();
    return state == open && !is_parents() ? session_ : nullptr;
  }
  bool is_open() const { return state_.load(std::memory_order_acquire) == open && !is_parents(); }
  const MetacLibrary& metac() const { return metac_; }
  // Why it is not open and will not be; "": nothing is in the way.
  const char* problem() const;
  bool report(MetacReport& report);

 private:
  enum State : int32_t { untouched, opening, open, failed };
  struct Registry {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    SharedSession* first = nullptr;
    bool watched = false;
    union {
      ForkMark opened;  // by this process; is asked for until its end
    };
    constexpr Registry() : opened() {}
    ~Registry() {}
  };
  static Registry registry;

  explicit SharedSession(const SessionWanted& wanted);
  bool is_of(const SessionWanted& wanted, const char* library) const {
    return variant_ == wanted.variant && threads_ == wanted.threads && most_programs_ == wanted.most_programs &&
           std::strcmp(library_, library) == 0 &&
           std::memcmp(content_, wanted.weights->header()->content, sizeof content_) == 0;
  }
  // Was it opened before this process was forked?
  bool is_parents() const { return state_.load(std::memory_order_acquire) != untouched && mark_.in_child(); }
  void begin();
  static void* open_behind(void* self);
  bool open_session();

  SharedSession* next_ = nullptr;
  int32_t users_ = 0;  // under the registry's lock
  std::atomic<int32_t> state_{untouched};
  const int32_t variant_, threads_, most_programs_;
  char cpu_[64], library_[PATH_MAX], content_[sizeof(WeightsHeader::content)];
  Weights weights_;
  Weights::PassingUse kept_;  // as the session reads the model's weights where they are
  Joined<PreparedWeights> prepared_;
  ForkMark mark_;  // who opened it; set before `state_` says so
  pthread_t thread_{};
  bool has_thread_ = false;
  MetacLibrary metac_;
  MetacSession* session_ = nullptr;
  Failure failure_;
};

inline SharedSession::Registry SharedSession::registry;

inline SharedSession* SharedSession::join(const SessionWanted& wanted) {
  const char* library = wanted.library != nullptr ? wanted.library : secure_getenv("METAC_LIBRARY");
  if (library == nullptr || std::strlen(library) >= sizeof library_) library = "";
  pthread_mutex_lock(&registry.mutex);
  if (!registry.watched)  // so that no child finds the lock taken
    registry.watched =
        pthread_atfork([] { pthread_mutex_lock(&registry.mutex); }, [] { pthread_mutex_unlock(&registry.mutex); },
                       [] { pthread_mutex_unlock(&registry.mutex); }) == 0;
  SharedSession* found = registry.first;
  while (found != nullptr && (!found->is_of(wanted, library) || found->mark_.in_child())) found = found->next_;
  if (found == nullptr) {
    void* const memory = std::aligned_alloc(alignof(SharedSession), (sizeof(SharedSession) + 63) / 64 * 64);
    if (memory != nullptr) {
      found = new (memory) SharedSession(wanted);
      std::snprintf(found->library_, sizeof library_, "%s", library);
      if (std::strcmp(library, "off") == 0) found->failure_.set(Status::unsupported, "specialisation is switched off");
      if (!found->failure_.ok()) found->state_ = failed;
      found->next_ = registry.first;
      registry.first = found;
    }
  }
  if (found != nullptr) ++found->users_;
  pthread_mutex_unlock(&registry.mutex);
  return found;
}

inline SharedSession::SharedSession(const SessionWanted& wanted)
    : variant_(wanted.variant), threads_(wanted.threads), most_programs_(wanted.most_programs) {
  std::snprintf(cpu_, sizeof cpu_, "%s", wanted.cpu);
  std::memcpy(content_, wanted.weights->header()->content, sizeof content_);
  if (registry.opened.in_child())
    failure_.set(Status::unsupported, "this process was forked from one that had libmetac at work");
  else if (weights_.open_again(*wanted.weights, failure_) && wanted.prepared != nullptr) {
    kept_.begin(weights_);
    prepared_.take(wanted.prepared->join_again());
  }
}

inline void SharedSession::leave() {
  pthread_mutex_lock(&registry.mutex);
  const bool last = --users_ == 0 && !mark_.in_child();
  for (SharedSession** place = &registry.first; last && *place != nullptr; place = &(*place)->next_)
    if (*place == this) {
      *place = next_;
      break;
    }
  pthread_mutex_unlock(&registry.mutex);
  if (!last) return;
  if (has_thread_) pthread_join(thread_, nullptr);
  if (session_ != nullptr) metac_.close_session(session_);
  this->~SharedSession();
  std::free(this);
}

inline const char* SharedSession::problem() const {
  if (is_parents()) return "this process was forked from one that had libmetac at work";
  return state_.load(std::memory_order_acquire) == failed ? failure_.message : "";
}

inline bool SharedSession::report(MetacReport& report) {
  if (state_.load(std::memory_order_acquire) != open || is_parents()) return false;
  report.size = sizeof report;
  return metac_.report(session_, &report) == MetacLibrary::ok;
}

inline void SharedSession::begin() {
  pthread_mutex_lock(&registry.mutex);
  if (state_.load(std::memory_order_relaxed) == untouched) {
    registry.opened.set();
    mark_.set();
    state_.store(opening, std::memory_order_release);
    has_thread_ = pthread_create(&thread_, nullptr, &SharedSession::open_behind, this) == 0;
    if (!has_thread_) {
      failure_.set(Status::out_of_memory, "no thread to open libmetac in");
      state_.store(failed, std::memory_order_release);
    }
  }
  pthread_mutex_unlock(&registry.mutex);
}

inline void* SharedSession::open_behind(void* self) {
  sigset_t all;
  sigfillset(&all);
  // Signals belong to the program's own threads.
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  SharedSession& shared = *static_cast<SharedSession*>(self);
  const bool good = shared.open_session();
  shared.state_.store(good ? open : failed, std::memory_order_release);
  return nullptr;
}

inline bool SharedSession::open_session() {
  const CarriedModel& carried = carried_model;
  ThreadPool alone;
  if (!weights_.ready(carried.from, carried.bytes, alone, failure_)) return false;
  if (!metac_.open(library_, reinterpret_cast<const void*>(&registry), carried.version, failure_)) return false;
  // The rest has time, and on Linux the priority is the thread's own. The loader has locks that others may wait for.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);

  const char* const block = static_cast<const char*>(weights_.block());
  Array<MetacTensor> weights;
  Array<MetacDim> dims;
  Array<MetacBlock> blocks;
  if (!weights.allocate(carried.weight_count) || !dims.allocate(carried.dim_count) || !blocks.allocate(carried.block_count))
    return failure_.set(Status::out_of_memory, "no memory to open a session");
  for (int32_t k = 0; k < carried.weight_count; ++k) {
    const CarriedWeight& weight = carried.weights[k];
    if (!weights_.ready(weight.offset, weight.bytes, alone, failure_)) return false;
    weights[k] = {weight.name, block + weight.offset, weight.bytes, weight.dims, weight.rank, weight.dtype};
  }
  for (int32_t k = 0; k < carried.dim_count; ++k)
    dims[k] = {carried.dims[k].name, carried.dims[k].min, carried.dims[k].max, carried.dims[k].divisor};
  int32_t own_blocks = 0;
  for (int32_t k = 0; k < carried.block_count; ++k)
    if (const CarriedBlock& one = carried.blocks[k]; one.variant == variant_) {
      if (prepared_.get() == nullptr && !weights_.ready(one.offset, one.bytes, alone, failure_)) return false;
      blocks[own_blocks++] = {(prepared_.get() != nullptr ? prepared_->data() : block) + one.offset, one.bytes};
    }

  MetacOptions options{};
  options.size = sizeof options;
  options.specialise = "background";
  options.threads = threads_;
  options.max_specialisations = most_programs_;
  options.cpu = cpu_;
  options.dims = dims.data();
  options.dim_count = carried.dim_count;
  options.weights = weights.data();
  options.weight_count = carried.weight_count;
  options.prepared = blocks.data();
  options.prepared_count = own_blocks;
  const int32_t status =
      metac_.open_session(block + carried.graph, static_cast<size_t>(carried.graph_bytes), &options, &session_);
  return status == MetacLibrary::ok || failure_.set(Status::unsupported, "libmetac: %.400s", metac_.last_error());
}

}  // namespace METAC_RUNTIME_NAMESPACE

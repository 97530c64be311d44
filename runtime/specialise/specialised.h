// What a library made with --jit adds to a context: runs of shapes that came before are offered to the process's session.
// docs/decisions/specialised_libraries.md has the whole.
#pragma once
#include "shared_session.h"

namespace METAC_RUNTIME_NAMESPACE {

class Specialised {
 public:
  Specialised() = default;
  Specialised(const Specialised&) = delete;
  Specialised& operator=(const Specialised&) = delete;
  ~Specialised() {
    free_result();
    if (shared_ != nullptr) shared_->leave();
  }

  // `own_code`: why the context runs its own code alone; null: it need not. Texts live for ever.
  void begin(const SessionWanted& wanted, int32_t inputs, const char* own_code) {
    if (own_code != nullptr) return stop(own_code);
    if (!tensors_.allocate(inputs)) return stop("there was no memory");
    shared_ = SharedSession::join(wanted);
    if (shared_ == nullptr) stop("there was no memory");
  }
  // From now on the library's own code answers.
  void stop(const char* why) { stopped_.store(why, std::memory_order_release); }

  // Offers a call to the session. True: it is answered, and the outputs are described. False: the library's own code has
  // to, which also tells what is wrong with the call. `ports` are the function's, `most_rank` a tensor's.
  template <class Ports, class Tensor>
  bool run(const Ports& ports, int32_t most_rank, const Tensor* inputs, int32_t input_count, Tensor* outputs,
           int32_t output_count) {
    free_result();
    runs_.store(runs_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    key_ = is_stopped() ? 0 : key_of(ports, most_rank, inputs, input_count, outputs, output_count);
    failed_ = false;
    if (key_ == 0 || !answered_before_.has(key_)) return false;
    MetacSession* const session = shared_->session();
    if (session == nullptr) return false;
    for (int32_t i = 0; i < input_count; ++i)
      tensors_[i] = {ports.inputs[i].name, inputs[i].data, inputs[i].bytes,
                     inputs[i].dims,       inputs[i].rank, static_cast<int32_t>(ports.inputs[i].dtype)};
    const int32_t status = shared_->metac().try_run(session, tensors_.data(), input_count, &result_);
    failed_ = status != MetacLibrary::ok && status != MetacLibrary::not_ready;
    if (status != MetacLibrary::ok || !describe(ports, most_rank, outputs, output_count)) return false;
    specialised_.store(specialised_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }
  // The library's own code has answered the call that was offered last.
  void answered() {
    if (key_ != 0) answered_before_.add(key_);
    // What fails again and again costs each call twice.
    if (failed_ && ++failures_ == most_failures) stop("libmetac failed on calls that the library's own code answers");
  }

  // Puts the model into a weights block that net_write_weights makes: `parameters` are the library's new ones.
  static bool add_model(const Weights& weights, ThreadPool& pool, const void* const* parameters, char* block,
                        Failure& failure) {
    const CarriedModel& carried = carried_model;
    if (!weights.ready(carried.from, carried.bytes, pool, failure)) return false;
    std::memcpy(block + carried.from, static_cast<const char*>(weights.block()) + carried.from,
                static_cast<size_t>(carried.bytes));
    for (int32_t k = 0; k < carried.weight_count; ++k)
      if (const CarriedWeight& one = carried.weights[k]; one.parameter >= 0 && one.bytes > 0)
        std::memcpy(block + one.offset, parameters[one.parameter], static_cast<size_t>(one.bytes));
    return true;
  }

  // Once: what became of libmetac.
  template <class Log>
  void tell(const Log& log) {
    if (told_ || !log.is_heard()) return;
    const char* const why = problem();
    if (why[0] != 0)
      log.warn("shapes that come again get no programs of their own: %s", why);
    else if (shared_ != nullptr && shared_->is_open())
      log.info("shapes that come again get programs of their own, by %s", shared_->metac().version());
    else
      return;
    told_ = true;
  }

  // ---- for any thread ----
  int64_t runs() const { return runs_.load(std::memory_order_relaxed); }
  int64_t specialised_runs() const { return specialised_.load(std::memory_order_relaxed); }
  bool report(MetacReport& report) const { return shared_ != nullptr && shared_->report(report); }
  // Why shapes are not specialised; "": nothing is in the way.
  const char* problem() const {
    const char* const stopped = stopped_.load(std::memory_order_acquire);
    return stopped != nullptr ? stopped : shared_ != nullptr ? shared_->problem() : "";
  }

 private:
  static constexpr int32_t most_failures = 8;

  // The dims that this context has answered, as far as they are remembered.
  class Answered {
   public:
    bool has(uint64_t key) const { return keys_[key % size] == key; }
    void add(uint64_t key) { keys_[key % size] = key; }

   private:
    static constexpr uint64_t size = 127;
    uint64_t keys_[size] = {};
  };

  // Of the inputs' dims; 0: not a call that can be offered.
  template <class Ports, class Tensor>
  static uint64_t key_of(const Ports& ports, int32_t most_rank, const Tensor* inputs, int32_t input_count,
                         const Tensor* outputs, int32_t output_count) {
    if (input_count != ports.input_count || output_count != ports.output_count || (inputs == nullptr && input_count > 0) ||
        (outputs == nullptr && output_count > 0))
      return 0;
    uint64_t key = 1469598103934665603u;
    const auto add = [&key](int64_t number) {
      key = (key ^ static_cast<uint64_t>(number)) * 1099511628211u, key ^= key >> 29;
    };
    for (int32_t i = 0; i < input_count; ++i) {
      if (inputs[i].rank < 0 || inputs[i].rank > most_rank || !is_type(inputs[i], ports.inputs[i])) return 0;
      add(inputs[i].rank);
      for (int32_t axis = 0; axis < inputs[i].rank; ++axis) add(inputs[i].dims[axis]);
    }
    for (int32_t i = 0; i < output_count; ++i)
      if (outputs[i].data == METAC_MODEL_UNWANTED || (outputs[i].data != nullptr && !is_type(outputs[i], ports.outputs[i])))
        return 0;
    return key;
  }
  template <class Tensor, class Port>
  static bool is_type(const Tensor& tensor, const Port& port) {
    return tensor.type == 0 || tensor.type == static_cast<int32_t>(port.dtype) + 1;
  }

  // Outputs with the caller's memory are copied there, the others stay in the result, which the next run frees.
  template <class Ports, class Tensor>
  bool describe(const Ports& ports, int32_t most_rank, Tensor* outputs, int32_t count) {
    static char nothing[1];
    for (int32_t i = 0; i < count; ++i) {
      const MetacTensor* const made = shared_->metac().output(result_, i);
      if (made == nullptr || made->rank > most_rank || made->dtype != static_cast<int32_t>(ports.outputs[i].dtype) ||
          (outputs[i].data != nullptr && outputs[i].bytes < made->bytes))
        return false;
    }
    for (int32_t i = 0; i < count; ++i) {
      const MetacTensor& made = *shared_->metac().output(result_, i);
      Tensor& output = outputs[i];
      if (output.data == nullptr)
        output.data = made.bytes > 0 ? const_cast<void*>(made.data) : nothing;
      else if (made.bytes > 0)
        std::memcpy(output.data, made.data, static_cast<size_t>(made.bytes));
      output.bytes = made.bytes;
      output.rank = made.rank;
      for (int32_t axis = 0; axis < made.rank; ++axis) output.dims[axis] = made.dims[axis];
      output.type = made.dtype + 1;
    }
    return true;
  }
  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed) != nullptr; }
  void free_result() {
    if (result_ != nullptr) shared_->metac().free_result(result_);
    result_ = nullptr;
  }

  SharedSession* shared_ = nullptr;
  MetacResult* result_ = nullptr;  // of the last run, if a specialised program answered it
  Array<MetacTensor> tensors_;
  Answered answered_before_;
  uint64_t key_ = 0;  // of the last call's dims
  bool failed_ = false, told_ = false;
  int32_t failures_ = 0;
  std::atomic<const char*> stopped_{nullptr};  // why the library's own code answers from now on
  std::atomic<int64_t> runs_{0}, specialised_{0};
};

}  // namespace METAC_RUNTIME_NAMESPACE

  // Without waiting: see @name@_run_async. Inputs and outputs are the caller's until wait() returns, which throws what run() would.
  void run_async(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, void (*done)(void*) = nullptr, void* user = nullptr) {
    check(@name@_run_async(context_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size()), nullptr, done, user));
  }
  void wait() { check(@name@_wait(context_)); }
  // Whether wait() would return at once.
  bool is_done() {
    const @name@_status status = @name@_poll(context_);
    return status != @NAME@_BUSY;
  }

  // Without waiting: see @name@_run_async. Results without memory of their own are on the device.
  void run_async(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, void* stream = nullptr, void (*done)(void*) = nullptr, void* user = nullptr) {
    check(@name@_run_async(context_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size()), stream, done, user));
  }

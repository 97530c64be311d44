  struct AsyncRun {               // of @name@_run_async: what the call was given, and what became of the last one
    const @name@_tensor* inputs = nullptr;
    @name@_tensor* outputs = nullptr;
    int32_t input_count = 0, output_count = 0;
    void (*done)(void* user) = nullptr;
    void* user = nullptr;
    Failure failure;
  } async_run;
  AsyncCall async_call;

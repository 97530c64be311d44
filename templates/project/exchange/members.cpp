  @name@_exchanger exchanger{};  // the caller's, and what executors know of it
  Exchanger exchanged{};

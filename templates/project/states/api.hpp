  // The states, which run() hands to its next call: @name@_state_get() and its like.
  void state_reset() { check(@name@_state_reset(context_)); }
  // The elements, whose dims come into *state (data: the vector's).
  std::vector<char> state_get(int32_t index, Tensor* state) {
    *state = Tensor{};
    check(@name@_state_get(context_, index, state));
    std::vector<char> elements(static_cast<size_t>(state->bytes) + 1);
    state->data = elements.data();
    check(@name@_state_get(context_, index, state));
    elements.resize(static_cast<size_t>(state->bytes));
    return elements;
  }
  void state_set(int32_t index, const Tensor& state) { check(@name@_state_set(context_, index, &state)); }
  void state_truncate(int64_t length) { check(@name@_state_truncate(context_, length)); }
  void state_fork(Model& from) { check(@name@_state_fork(context_, from.context_)); }


// What changes the states of one text is not for a context that has joined ones.
bool has_one_text(const @name@_context& context, Failure& failure) {
  return !context.generation.joined.any() || failure.set(Status::invalid_argument, "sequences have joined in this context: @name@_generate_leave() or @name@_state_reset() first");
}

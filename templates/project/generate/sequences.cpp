namespace {

struct SequenceOfContext : JoinedSequence {
  SequenceOfContext(@name@_context& context, const @name@_generation& given) : caller(context, given) {
    settings = settings_of(given);
    destroy = [](JoinedSequence* one) {
      static_cast<SequenceOfContext*>(one)->~SequenceOfContext();
      std::free(static_cast<SequenceOfContext*>(one));
    };
  }
  CallerOfGeneration caller;
};

// Whether texts can be rows of one run, each with its own beginning.
bool check_rows(@name@_context& held) {
  bool masked = held.states.length() < 0;  // nothing is in front of a shorter text
  for (int32_t i = 0; i < @NAME@_INPUTS; ++i) {
    const @name@_port& port = function_ports[run_function].inputs[i];
    const InputRole role = input_roles[i];
    const bool of_rows = is_of_sequences({role, static_cast<ScalarType>(port.dtype), port.rank, port.dims});
    const bool open = port.rank > 0 && port.dims[0] < 0;
    const bool wrong = length_of(role, DecoderRun{2, 2, nullptr, 1}) > 1 || role == InputRole::last_position ? !of_rows : open && !of_rows;
    if (wrong) return held.failure.set(Status::unsupported, "sequences cannot join: input \"%s\" (%s) has no open first axis, the batch, or none but that", port.name, name_of(role));
    masked |= role == InputRole::mask_of_all || role == InputRole::last_position;
  }
  if (!masked) return held.failure.set(Status::unsupported, "sequences cannot join: no input of the model says where each of them begins");
  return StateRows::check(*held.variant->programs[run_function].run, held.failure);
}

// Where the model takes one adapter for all rows of a run, those that join have the same.
bool check_adapter(@name@_context& held, int64_t adapter) {
  const JoinedSequence* const other = held.generation.joined.first_of_rows();
  for (int32_t i = 0; i < @NAME@_INPUTS; ++i)
    if (input_roles[i] == InputRole::adapter && function_ports[run_function].inputs[i].rank == 0 && other != nullptr && other->settings.adapter != adapter)
      return held.failure.set(Status::unsupported, "adapter %lld cannot join: the library takes one for all, and %lld has joined (metac compile --adapter-per-row)",
                              static_cast<long long>(adapter), static_cast<long long>(other->settings.adapter));
  return true;
}

bool begin_joining(@name@_context& held) {
  JoinedSequences& joined = held.generation.joined;
  const bool has_text = held.generation.sequence.tokens().size() > 0 || (held.states.count() > 0 && held.states.has_value(0));
  if (!joined.any() && has_text) return held.failure.set(Status::invalid_argument, "the context has a text: @name@_state_reset() first");
  if (!check_rows(held)) return false;
  if (joined.ready) return true;
  if (!joined.prompt.create(*held.variant->programs[run_function].run)) return held.failure.set(Status::out_of_memory, "no memory for the states of a prompt");
  joined.prompt.live_in(held.target.place_of_states(held.memory.allocator()));
  return joined.ready = true;
}

}  // namespace

@name@_status @name@_generate_join(@name@_context* context, const int64_t* prompt, int64_t count, const @name@_generation* settings, int64_t* sequence) {
  return use(context, [&](@name@_context& held) {
    @name@_generation given{};
    if (sequence == nullptr) return held.failure.set(Status::invalid_argument, "nowhere to write the sequence's number to");
    if (!take_generation(held, prompt, count, settings, given) || !begin_joining(held) || !check_adapter(held, given.adapter)) return false;
    void* const memory = std::aligned_alloc(alignof(SequenceOfContext), sizeof(SequenceOfContext));
    if (memory == nullptr) return held.failure.set(Status::out_of_memory, "no memory for a sequence");
    SequenceOfContext* const one = new (memory) SequenceOfContext(held, given);
    JoinedSequences& joined = held.generation.joined;
    joined.add(one);
    DecoderOfContext decoder(held, joined.prompt, one->text.read, given.adapter);
    if (!Together<DecoderOfContext, SequenceOfContext>(joined, held.states, decoder, held.generation.sampler).join(one, prompt, count)) return joined.remove(one), false;
    *sequence = one->id;
    return true;
  });
}

@name@_status @name@_generate_step(@name@_context* context, int64_t* running) {
  return use(context, [&](@name@_context& held) {
    JoinedSequences& joined = held.generation.joined;
    int64_t read = 0;
    DecoderOfContext decoder(held, held.states, read, 0);
    const bool good = Together<DecoderOfContext, SequenceOfContext>(joined, held.states, decoder, held.generation.sampler).step();
    if (running != nullptr) *running = joined.rows();
    return good;
  });
}

int64_t @name@_generate_ended(@name@_context* context) {
  int64_t id = 0;
  use(context, [&](@name@_context& held) {
    JoinedSequence* const one = held.generation.joined.next_ended();
    if (one != nullptr) one->told = true, id = one->id;
    return true;
  });
  return id;
}

@name@_status @name@_generate_leave(@name@_context* context, int64_t sequence, @name@_generated* result) {
  return use(context, [&](@name@_context& held) {
    if (result != nullptr && !check_size("result", result->size, sizeof *result, held.failure)) return false;
    JoinedSequences& joined = held.generation.joined;
    JoinedSequence* const one = joined.find(sequence);
    if (one == nullptr) return held.failure.set(Status::invalid_argument, "no sequence %lld is in the context", static_cast<long long>(sequence));
    if (result != nullptr) give_struct(generated_of(one->result), result);
    DecoderOfContext decoder(held, held.states, one->text.read, 0);
    if (!Together<DecoderOfContext, SequenceOfContext>(joined, held.states, decoder, held.generation.sampler).take_out(one)) return false;
    joined.remove(one);
    return true;
  });
}


// @name@_generate: the model as a program that continues a prompt. What it does is in runtime/generate/program, for all models the
// same text; here are this library's functions for it.
#define METAC_RUNTIME_NAMESPACE generate_program
#include "../include/@name@.h"
#include "runtime/generate/program/library.h"

namespace {

using generate_program::LibraryPort;
using generate_program::LibrarySettings;
using generate_program::Made;
using generate_program::Request;

static_assert(sizeof(LibraryPort) == sizeof(@name@_port) && sizeof(generate_program::Bias) == sizeof(@name@_token_bias), "they are what they are there");

@name@_context* context = nullptr;

bool create(const LibrarySettings& settings) {
  @name@_options options = @name@_options();
  options.size = sizeof options;
  options.weights = settings.weights;
  options.cpu = settings.cpu;
  options.threads = settings.threads;
  options.pin = settings.pin;
  options.weights_flags = (settings.copy_weights ? @NAME@_WEIGHTS_COPY : 0) | (settings.map_weights ? @NAME@_WEIGHTS_MAP : 0) | (settings.unchecked_weights ? @NAME@_WEIGHTS_UNCHECKED : 0);
  return @name@_create(&options, &context) == @NAME@_OK;
}

@name@_generation settings_of(const Request& r) {
  @name@_generation s = @name@_generation();
  s.size = sizeof s;
  s.most_tokens = r.most_tokens;
  s.repetition_penalty = r.repetition_penalty;
  s.presence_penalty = r.presence_penalty;
  s.frequency_penalty = r.frequency_penalty;
  s.biases = reinterpret_cast<const @name@_token_bias*>(r.biases);
  s.bias_count = r.bias_count;
  s.temperature = r.temperature;
  s.top_k = r.top_k;
  s.top_p = r.top_p;
  s.min_p = r.min_p;
  s.seed = r.seed;
  s.stop_tokens = r.stop_tokens;
  s.stop_token_count = r.stop_token_count;
  s.stop_texts = r.stop_texts;
  s.stop_text_count = r.stop_text_count;
  s.token = r.token;
  s.user = r.user;
  s.chunk = r.chunk;
  s.drafts = r.drafts;
  s.adapter = r.adapter;
  return s;
}

// What a call that tells of a generation answers.
template <class Call>
bool told(Made* made, Call call) {
  @name@_generated g = @name@_generated();
  g.size = sizeof g;
  const bool good = call(&g) == @NAME@_OK;
  *made = {g.prompt_tokens, g.tokens, g.stopped_by, g.stop, g.prompt_seconds, g.token_seconds, g.runs, g.drafted, g.accepted};
  return good;
}

const generate_program::Library library = {
    "@name@",
    @name@_version,
    @name@_model_hash,
    @name@_cpu,
    [](int32_t index) { return reinterpret_cast<const LibraryPort*>(@name@_input(index)); },
    @name@_generate_input,
    @name@_generate_adapter,
    create,
    [] { @name@_destroy(context); },
    @speaks@,
    [](const char* text, int64_t bytes, bool plain, int64_t* tokens, int64_t room, int64_t* count) {
      return @name@_encode(context, text, bytes, plain, tokens, room, count) == @NAME@_OK;
    },
    [](const int64_t* prompt, int64_t count, const Request& request, Made* made) {
      const @name@_generation s = settings_of(request);
      return told(made, [&](@name@_generated* g) { return @name@_generate(context, prompt, count, &s, g); });
    },
    [](const int64_t* prompt, int64_t count, const Request& request, int64_t* number) {
      const @name@_generation s = settings_of(request);
      return @name@_generate_join(context, prompt, count, &s, number) == @NAME@_OK;
    },
    [] { return @name@_generate_step(context, nullptr) == @NAME@_OK; },
    [] { return @name@_generate_ended(context); },
    [](int64_t number, Made* made) {
      return told(made, [&](@name@_generated* g) { return @name@_generate_leave(context, number, g); });
    },
    [](int64_t tokens, int64_t* states, int64_t* with_room, int64_t* working) {
      return @name@_generate_memory(context, tokens, states, with_room, working) == @NAME@_OK;
    },
    [] { return @name@_last_error(context); },
    [] { return @name@_cpu_of(context); }};

}  // namespace

int main(int count, char** values) { return generate_program::generate_main(library, count, values); }

// Memory that the caller's functions give: what a context holds is theirs, all of it comes back, and a function that has
// none left, throws or gives memory that is not aligned makes calls fail with OUT_OF_MEMORY. Of the library that this is
// linked with, and of others whose paths are given: their inputs are rows of floats, as many rows as they are asked for.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "first.h"

static int wrong = 0;
static void expect(bool good, const char* what, long long found = 0) {
  if (!good && ++wrong < 10) std::printf("%s: %lld\n", what, found);
}

struct Memory {
  std::map<void*, size_t> given;
  int64_t bytes = 0;
  long countdown = 0;  // the allocation that fails; 0: none
  enum Failing { answers_none, throws, not_aligned } failing = answers_none;

  static void* allocate(void* user, size_t bytes, size_t alignment) {
    Memory& self = *static_cast<Memory*>(user);
    const bool fails = self.countdown > 0 && --self.countdown == 0;
    if (fails && self.failing == answers_none) return nullptr;
    if (fails && self.failing == throws) throw std::runtime_error("no more");
    // One multiple more: memory that is aligned no better than was asked for.
    char* const memory = static_cast<char*>(std::aligned_alloc(2 * alignment, (bytes + 4 * alignment) / 128 * 128));
    void* const where = memory + alignment + (fails ? 8 : 0);
    self.given[where] = bytes;
    self.bytes += static_cast<int64_t>(bytes);
    return where;
  }
  static void release(void* user, void* memory, size_t bytes) {
    Memory& self = *static_cast<Memory*>(user);
    const auto found = self.given.find(memory);
    expect(found != self.given.end() && found->second == bytes, "memory that comes back", static_cast<long long>(bytes));
    if (found == self.given.end()) return;
    self.given.erase(found);
    self.bytes -= static_cast<int64_t>(bytes);
    std::free(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory) / 64 * 64 - 64));
  }
};

static metac_model_options from(Memory& memory) {
  metac_model_options options = {};
  options.threads = 2;
  options.allocate = Memory::allocate;
  options.release = Memory::release;
  options.memory_user = &memory;
  return options;
}

static metac_model_status run(const metac_model& model, metac_model_context* context, int64_t rows) {
  std::vector<std::vector<float>> data;
  std::vector<metac_model_tensor> inputs(static_cast<size_t>(model.inputs)),
      outputs(static_cast<size_t>(model.outputs), metac_model_tensor{});
  for (int32_t i = 0; i < model.inputs; ++i) {
    const metac_model_port& port = *model.input(i);
    metac_model_tensor& input = inputs[static_cast<size_t>(i)] = {};
    int64_t count = 1;
    input.rank = port.rank;
    for (int32_t axis = 0; axis < port.rank; ++axis)
      count *= input.dims[axis] = port.dims[axis] < 0 ? rows : port.dims[axis];
    data.emplace_back(static_cast<size_t>(count), 1.f);
    input.data = data.back().data();
  }
  return model.run(context, inputs.data(), model.inputs, outputs.data(), model.outputs);
}

static void what_is_held_is_the_callers(const metac_model& model) {
  Memory memory, other;
  const metac_model_options options = from(memory);
  metac_model_context *context = nullptr, *second = nullptr;
  expect(model.create(&options, &context) == METAC_MODEL_OK, "create");
  for (const int64_t rows : {1, 40, 3, 40, 41}) {
    const int64_t before = memory.bytes;
    expect(run(model, context, rows) == METAC_MODEL_OK, "run", rows);
    expect(memory.bytes == model.held_bytes(context), "bytes that are held", model.held_bytes(context));
    if (rows == 3) expect(memory.bytes == before || model.states > 0, "a smaller run took more", memory.bytes - before);
  }
  expect(memory.bytes > 0, "bytes");
  if (METAC_MODEL_HAS(&model, state_fork)) {
    const metac_model_options others = from(other);
    expect(model.create(&others, &second) == METAC_MODEL_OK && model.state_fork(second, context) == METAC_MODEL_OK, "fork");
    expect(other.bytes > 0, "a fork's bytes");
    expect(run(model, second, 2) == METAC_MODEL_OK && other.bytes == model.held_bytes(second), "a fork", other.bytes);
  }
  model.destroy(context);
  model.destroy(second);
  expect(memory.given.empty() && other.given.empty(), "did not come back", static_cast<long long>(memory.given.size()));
}

static void each_fails_once(const metac_model& model, Memory::Failing failing) {
  for (long n = 1;; ++n) {
    Memory memory;
    memory.failing = failing;
    const metac_model_options options = from(memory);
    metac_model_context* context = nullptr;
    metac_model_status status = model.create(&options, &context);
    memory.countdown = n;
    if (status == METAC_MODEL_OK) status = run(model, context, 7);
    const bool reached = memory.countdown == 0;
    memory.countdown = 0;
    expect(status == (reached ? METAC_MODEL_OUT_OF_MEMORY : METAC_MODEL_OK), "status", status);
    expect(!reached || model.last_error(context)[0] != 0, "no message");
    expect(run(model, context, 7) == METAC_MODEL_OK, "the run after", n);
    model.destroy(context);
    expect(memory.given.empty(), "did not come back", static_cast<long long>(memory.given.size()));
    if (!reached) return expect(n > 1, "no allocation failed");
  }
}

static void both_functions_or_none(const metac_model& model) {
  Memory memory;
  metac_model_options options = from(memory);
  options.release = nullptr;
  metac_model_context* context = nullptr;
  expect(model.create(&options, &context) == METAC_MODEL_INVALID_ARGUMENT, "allocate alone");
  model.destroy(context);
}

int main(int count, char** paths) {
  std::vector<const metac_model*> models = {first_model()};
  for (int k = 1; k < count; ++k) models.push_back(metac_model_open(paths[k], nullptr));
  for (const metac_model* model : models) {
    what_is_held_is_the_callers(*model);
    for (const Memory::Failing failing : {Memory::answers_none, Memory::throws, Memory::not_aligned})
      each_fails_once(*model, failing);
    both_functions_or_none(*model);
  }
  if (wrong == 0) std::printf("right\n");
  return wrong != 0;
}

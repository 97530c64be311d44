// Every function of the interface that takes a context, called by eight threads at once on one context, among rivals that
// call all the others: each call does its work and answers right, or is BUSY, and the message is always that of the caller's
// own call. run_project.py writes which functions the generated header has (context_functions.inc); one that is unknown here
// is a failure.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "rival.h"

namespace {

constexpr int batch = 24, threads = 8, rounds = 12;
const char busy_message[] = "the context is running in another thread";
std::atomic<int> wrong{0};

const char* const functions[] = {
#include "context_functions.inc"
};

void expect(bool good, const std::string& what) {
  if (!good && wrong++ < 10) std::printf("%s\n", what.c_str());
}

rival_tensor tensor(const void* data, std::vector<int64_t> dims) {
  rival_tensor t = {};
  t.data = const_cast<void*>(data);
  t.rank = static_cast<int32_t>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) t.dims[d] = dims[d];
  return t;
}

size_t count_of(const rival_port& port) {
  size_t count = 1;
  for (int d = 0; d < port.rank; ++d) count *= port.dims[d] < 0 ? batch : static_cast<size_t>(port.dims[d]);
  return count;
}

// The arguments of a call, whatever it is, with memory of the caller's for the results: the context's belongs to whoever
// runs next.
struct Call {
  std::vector<std::vector<float>> memory, results;
  std::vector<rival_tensor> inputs, outputs;

  Call(const rival_port* (*input)(int32_t), const rival_port* (*output)(int32_t)) {
    for (int i = 0; const rival_port* port = input(i); ++i) {
      memory.emplace_back(count_of(*port));
      for (size_t k = 0; k < memory.back().size(); ++k) memory.back()[k] = static_cast<float>((k * 7 + 13) % 17);
      inputs.push_back(tensor(memory.back().data(), {}));
      place(inputs.back(), *port, memory.back());
    }
    for (int o = 0; const rival_port* port = output(o); ++o) results.emplace_back(count_of(*port));
    for (int o = 0; const rival_port* port = output(o); ++o) {
      outputs.push_back(tensor(results[static_cast<size_t>(o)].data(), {}));
      place(outputs.back(), *port, results[static_cast<size_t>(o)]);
    }
  }
  static void place(rival_tensor& t, const rival_port& port, const std::vector<float>& values) {
    t.rank = port.rank;
    for (int d = 0; d < port.rank; ++d) t.dims[d] = port.dims[d] < 0 ? batch : port.dims[d];
    t.bytes = static_cast<int64_t>(values.size() * sizeof(float));
    t.type = RIVAL_TYPE(port.dtype);
  }
  int32_t ins() const { return static_cast<int32_t>(inputs.size()); }
  int32_t outs() const { return static_cast<int32_t>(outputs.size()); }
};

struct Weights {
  std::vector<std::vector<float>> values;
  std::vector<const void*> pointers;
  Weights() {
    for (int k = 0; const rival_port* port = rival_parameter(k); ++k) {
      values.emplace_back(count_of(*port));
      for (size_t i = 0; i < values.back().size(); ++i)
        values.back()[i] = static_cast<float>(1 + (i * 5 + static_cast<size_t>(k)) % 11) / 64;
    }
    for (const std::vector<float>& value : values) pointers.push_back(value.data());
  }
  int32_t count() const { return static_cast<int32_t>(pointers.size()); }
};

using Function = rival_status (*)(rival_context*, const rival_tensor*, int32_t, rival_tensor*, int32_t);
struct Derivative {
  const char* name;
  Function function;
  const rival_port* (*input)(int32_t);
  const rival_port* (*output)(int32_t);
};
const Derivative runs[] = {{"run", rival_run, rival_input, rival_output},
                           {"vjp", rival_vjp, rival_vjp_input, rival_vjp_output},
                           {"jvp", rival_jvp, rival_jvp_input, rival_jvp_output},
                           {"hvp", rival_hvp, rival_hvp_input, rival_hvp_output}};
std::map<std::string, std::vector<std::vector<float>>> right;  // by function

// What a function does for thread `me`; true: it answered OK.
using Use = std::function<bool(rival_context*, int me)>;

bool judged(rival_context* context, rival_status status, const char* name) {
  const std::string said = rival_last_error(context);
  if (status == RIVAL_OK)
    expect(said.empty(), std::string(name) + " succeeded, and the message is: " + said);
  else if (status == RIVAL_BUSY)
    expect(said == busy_message, std::string(name) + " was BUSY, and the message is: " + said);
  else if (status == RIVAL_CANCELLED)
    expect(said == "the run was cancelled", std::string(name) + " was cancelled, and the message is: " + said);
  else
    expect(false, std::string(name) + ": status " + std::to_string(status) + ": " + said);
  return status == RIVAL_OK;
}

// A call with a batch that no other thread has wrong in this way: a message with another's number is another's.
void fail_on_purpose(rival_context* context, int me) {
  Call call(rival_input, rival_output);
  call.inputs[0].dims[3] = 100 + me;
  call.inputs[0].bytes = 0;
  const rival_status status = rival_run(context, call.inputs.data(), 1, call.outputs.data(), 1);
  const std::string said = rival_last_error(context), own = "dim 3 is " + std::to_string(100 + me);
  expect(
      status == RIVAL_BUSY ? said == busy_message : status == RIVAL_INVALID_ARGUMENT && said.find(own) != std::string::npos,
      own + " expected in: " + said);
}

std::map<std::string, Use> all_uses() {
  static const Weights weights;
  std::map<std::string, Use> uses;
  for (const Derivative& d : runs)
    uses[d.name] = [&d](rival_context* context, int) {
      Call call(d.input, d.output);
      if (!judged(context, d.function(context, call.inputs.data(), call.ins(), call.outputs.data(), call.outs()), d.name))
        return false;
      if (right.count(d.name) == 0) right[d.name] = call.results;
      expect(call.results == right[d.name], std::string(d.name) + ": another answer");
      return true;
    };
  uses["find_non_finite"] = [](rival_context* context, int me) {
    Call call(rival_input, rival_output);
    const bool poisoned = me % 2 == 1;
    if (poisoned) call.memory[0][5] = __builtin_nanf("");
    char report[200] = "";
    const rival_status status =
        rival_find_non_finite(context, call.inputs.data(), 1, call.outputs.data(), 1, report, sizeof report);
    if (!judged(context, status, "find_non_finite")) return false;
    expect(poisoned ? std::strstr(report, "made the first NaN") != nullptr : report[0] == 0 && call.results == right["run"],
           std::string("find_non_finite: ") + report);
    return true;
  };
  uses["run_strided"] = [](rival_context* context, int me) {
    Call call(rival_input, rival_output);
    call.inputs[0].dims[0] = me + 1;
    call.inputs[0].bytes = 0;
    const int64_t same_row[] = {0, 64, 8, 1};
    const int64_t* const strides[] = {same_row};
    return judged(context, rival_run_strided(context, call.inputs.data(), 1, strides, call.outputs.data(), 1, nullptr),
                  "run_strided");
  };
  uses["output_shapes"] = [](rival_context* context, int me) {
    Call call(rival_input, rival_output);
    call.inputs[0].dims[0] = me + 1;
    call.inputs[0].bytes = 0;
    if (!judged(context, rival_output_shapes(context, call.inputs.data(), 1, call.outputs.data(), 1), "output_shapes"))
      return false;
    expect(call.outputs[0].dims[0] == me + 1 && call.outputs[0].bytes == (me + 1) * 40, "output_shapes: another's shape");
    return true;
  };
  uses["set_weights"] = [](rival_context* context, int) {
    return judged(context, rival_set_weights(context, weights.pointers.data(), weights.count()), "set_weights");
  };
  uses["write_weights"] = [](rival_context* context, int me) {
    const std::string path = "rival" + std::to_string(me) + ".weights";
    return judged(context, rival_write_weights(context, weights.pointers.data(), weights.count(), path.c_str()),
                  "write_weights");
  };
  uses["profile"] = [](rival_context* context, int me) {
    return judged(context, rival_profile(context, me % 2), "profile");
  };
  uses["profile_row"] = [](rival_context* context, int) {
    int64_t runs = 0, ns = 0;
    for (int row = 0; const char* name = rival_profile_row(context, row, &runs, &ns); ++row)
      expect(name[0] != 0 && runs >= 0 && ns >= 0, "a row of the profile");
    return true;
  };
  uses["profile_work"] = [](rival_context* context, int) {
    double operations = 0, bytes = 0;
    for (int row = 0; rival_profile_work(context, row, &operations, &bytes) == RIVAL_OK; ++row)
      expect(operations >= -1 && bytes >= -1, "the work of a row");
    return true;
  };
  uses["held_bytes"] = [](rival_context* context, int) {
    expect(rival_held_bytes(context) >= 0, "held_bytes");
    return true;
  };
  uses["arena_bytes"] = [](rival_context* context, int) {
    expect(rival_arena_bytes(context) >= 0, "arena_bytes");
    return true;
  };
  uses["cpu_of"] = [](rival_context* context, int) {
    expect(rival_cpu_of(context)[0] != 0, "cpu_of");
    return true;
  };
  uses["cancel"] = [](rival_context* context, int) {
    expect(rival_cancel(context) == RIVAL_OK, "cancel");
    return true;
  };
  uses["run_async"] = [](rival_context* context, int) {
    Call call(rival_input, rival_output);
    std::atomic<bool> done{false};
    const rival_status status = rival_run_async(
        context, call.inputs.data(), call.ins(), call.outputs.data(), call.outs(), nullptr,
        [](void* user) { static_cast<std::atomic<bool>*>(user)->store(true); }, &done);
    if (!judged(context, status, "run_async")) return false;
    while (!done) std::this_thread::yield();
    // What became of it is what others may have begun by now; where there is nobody else it is told.
    const rival_status said = rival_wait(context);
    return judged(context, said, "the wait for run_async") && call.results == right["run"];
  };
  // Of the last run that somebody began.
  uses["wait"] = [](rival_context* context, int) {
    const rival_status status = rival_wait(context);
    return judged(context, status, "wait") || status == RIVAL_CANCELLED;
  };
  uses["poll"] = [](rival_context* context, int) {
    const rival_status status = rival_poll(context);
    if (status == RIVAL_BUSY) return rival_last_error(context)[0] != 0;
    return judged(context, status, "poll") || status == RIVAL_CANCELLED;
  };
  uses["last_error"] = [](rival_context* context, int me) {
    fail_on_purpose(context, me);
    return true;
  };
  return uses;
}

}  // namespace

int main() {
  const std::map<std::string, Use> uses = all_uses();
  rival_options options = {};
  options.size = sizeof options;
  options.threads = 2;
  rival_context* context = nullptr;
  if (rival_create(&options, &context) != RIVAL_OK) return std::puts(rival_last_error(context)), 1;
  if (!uses.at("set_weights")(context, 0)) return 1;
  for (const Derivative& d : runs)
    if (!uses.at(d.name)(context, 0)) return 1;
  for (const char* name : functions) {
    if (std::strcmp(name, "create") == 0 || std::strcmp(name, "destroy") == 0)
      continue;  // they make and end it: one thread's affair
    const auto use = uses.find(name);
    if (use == uses.end()) {
      expect(false, std::string(name) + " takes a context and is not tried: add it to all_uses()");
      continue;
    }
    std::vector<std::thread> others;
    for (int me = 0; me < threads; ++me)
      others.emplace_back([&, me] {
        auto rival = uses.begin();
        for (int round = 0; round < rounds; ++round) {
          if (me % 2 == 0 || round % 3 == 0)
            use->second(context, me);
          else
            rival->second(context, me);
          if (++rival == uses.end()) rival = uses.begin();
          if (round % 4 == 3) fail_on_purpose(context, me);
        }
      });
    for (std::thread& t : others) t.join();
    expect(use->second(context, 0), std::string(name) + " does not work afterwards");
    expect(uses.at("run")(context, 0), std::string("no run after ") + name);
  }
  rival_destroy(context);
  if (wrong == 0) std::puts("right");
  return wrong == 0 ? 0 : 1;
}

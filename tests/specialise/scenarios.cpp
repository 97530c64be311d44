// What a library made with --jit does at run time, each scenario in a process of its own: run_specialise.py starts them and
// says what is around (libmetac, none, another version). Prints what went wrong; status 0: nothing did.
#include <digits.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}
void want(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

void want_ok(digits_status status, const digits_context* context, const std::string& what) {
  if (status != DIGITS_OK) fail(what + ": " + digits_last_error(context));
}

using Answer = std::vector<float>;

class Context {
 public:
  explicit Context(digits_options options = {}) {
    options.size = sizeof options;
    const digits_status status = digits_create(&options, &context_);
    want_ok(status, context_, "create");
  }
  ~Context() { digits_destroy(context_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Answer run(int64_t batch) { return run(batch, batch); }
  // Images that `seed` decides.
  Answer run(int64_t batch, int64_t seed) {
    std::vector<float> pixels(static_cast<size_t>(batch) * 64);
    for (size_t k = 0; k < pixels.size(); ++k)
      pixels[k] = static_cast<float>((k * 37 + static_cast<size_t>(seed) * 101) % 17);
    digits_tensor image{}, answer{};
    image.data = pixels.data();
    image.rank = 4;
    image.dims[0] = batch, image.dims[1] = 1, image.dims[2] = 8, image.dims[3] = 8;
    want_ok(digits_run(context_, &image, 1, &answer, 1), context_, "run");
    want(answer.rank == 2 && answer.dims[0] == batch && answer.dims[1] == 10 && answer.bytes == batch * 40 &&
             answer.type == DIGITS_TYPE(DIGITS_FLOAT32),
         "the output is not described as before");
    const float* const values = static_cast<const float*>(answer.data);
    return Answer(values, values + batch * 10);
  }
  digits_specialisation now() const {
    digits_specialisation result{};
    result.size = sizeof result;
    want(digits_specialised(context_, &result, nullptr) == DIGITS_OK, "digits_specialised");
    return result;
  }
  std::string problem() const {
    digits_specialisation unused{};
    unused.size = sizeof unused;
    const char* text = nullptr;
    want(digits_specialised(context_, &unused, &text) == DIGITS_OK, "digits_specialised");
    return text;
  }
  digits_context* get() const { return context_; }

 private:
  digits_context* context_ = nullptr;
};

void want_same(const Answer& a, const Answer& b, const std::string& what) {
  want(a.size() == b.size(), what + ": another size");
  for (size_t k = 0; k < a.size(); ++k)
    if (!(std::fabs(a[k] - b[k]) <= 2e-6f))
      fail(what + ": element " + std::to_string(k) + " is " + std::to_string(a[k]) + ", was " + std::to_string(b[k]));
}

// Runs until so many runs more went by a program for just this shape. Returns how many runs were answered while one was
// being made: a run that waits for the compiler ends when it is made.
int64_t heat(Context& context, int64_t batch, const Answer& before, int64_t wanted = 5) {
  const int64_t first = context.now().specialised_runs;
  int64_t while_compiled = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (context.now().specialised_runs < first + wanted) {
    const int64_t waiting = context.now().waiting;
    want_same(context.run(batch), before, "batch " + std::to_string(batch));
    if (waiting > 0 && context.now().waiting > 0) ++while_compiled;
    want(context.problem().empty(), "not specialised: " + context.problem());
    want(std::chrono::steady_clock::now() - begin < std::chrono::seconds(120), "not specialised in 120 s");
    usleep(500);
  }
  return while_compiled;
}

// Waits until a specialisation is being made. False: one was made meanwhile.
bool wait_for_compiler(Context& context, int64_t batch) {
  for (;;) {
    const digits_specialisation now = context.now();
    if (now.waiting > 0) return true;
    if (now.specialised_runs > 0) return false;
    context.run(batch);
  }
}

void hot_shapes() {
  Context context;
  int64_t while_compiled = 0;
  for (const int64_t batch : {5, 3, 1}) while_compiled += heat(context, batch, context.run(batch));
  want(while_compiled > 0, "no run was answered while a program was being made");
  const digits_specialisation now = context.now();
  want(now.programs == 3, "programs: " + std::to_string(now.programs));
  // Shapes that never came before, and those that did, by turns.
  for (int64_t batch = 6; batch < 40; ++batch) {
    context.run(batch);
    context.run(5);
  }
  want(context.now().specialised_runs >= now.specialised_runs + 34, "the hot shape is answered by the library's own code");
}

// No more programs than are wanted; a dim of more values than half of that stays open, and what is there stays in use.
void few_programs() {
  digits_options options{};
  options.most_specialisations = 4;
  Context context(options);
  for (const int64_t batch : {5, 3}) heat(context, batch, context.run(batch));
  for (int k = 0; k < 200; ++k) {
    context.run(6 + k % 5);
    usleep(500);
  }
  want(context.now().programs <= 4, "programs: " + std::to_string(context.now().programs));
  heat(context, 5, context.run(5));
}

// `expected`: a part of what the library says.
void alone(const std::string& expected) {
  Context context;
  const Answer before = context.run(4);
  for (int k = 0; k < 300; ++k) {
    want_same(context.run(4), before, "run");
    usleep(1000);
    if (k > 20 && !context.problem().empty()) break;
  }
  want(context.now().specialised_runs == 0, "runs were specialised");
  want(context.problem().find(expected) != std::string::npos, "said is \"" + context.problem() + "\"");
  want_same(context.run(4), before, "run");
}

void threads_share() {
  std::vector<Answer> before;
  {
    digits_options none{};
    none.size = sizeof none;
    none.metac = "off";
    Context context(none);
    for (int64_t batch = 0; batch < 7; ++batch) before.push_back(batch > 0 ? context.run(batch) : Answer());
    want(!context.problem().empty(), "it does not say that it is switched off");
  }
  std::vector<std::thread> threads;
  std::atomic<int64_t> programs{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      digits_options options{};
      options.threads = 1;
      Context context(options);
      const auto begin = std::chrono::steady_clock::now();
      for (int k = 0; k < 300 || context.now().specialised_runs < 50; ++k) {
        const int64_t batch = 1 + (k * 7 + t) % 6;
        want_same(context.run(batch), before[static_cast<size_t>(batch)], "thread");
        if (k > 300) usleep(200);
        want(std::chrono::steady_clock::now() - begin < std::chrono::seconds(120), "not specialised in 120 s");
      }
      programs = context.now().programs;
    });
  for (std::thread& thread : threads) thread.join();
  want(programs > 0 && programs <= 6, "programs: " + std::to_string(programs));
}

void destroyed_while_compiling() {
  int64_t broken_off = 0;
  for (int64_t batch = 10; batch < 16; ++batch) {
    Context context;
    context.run(batch);
    if (batch % 2 == 0 && wait_for_compiler(context, batch)) ++broken_off;
    context.run(batch);  // the others: while libmetac is opened
  }
  want(broken_off > 0, "nothing was broken off");
  Context context;
  heat(context, 2, context.run(2));
}

// A child of a process in which libmetac is at work runs its own code, in what it inherited and in what it makes.
void fork_behind() {
  Context context;
  const Answer before = context.run(3);
  wait_for_compiler(context, 3);
  for (int k = 0; k < 5; ++k) {
    const pid_t child = fork();
    if (child == 0) {
      for (int n = 0; n < 20; ++n) want_same(context.run(3), before, "child");
      want(context.problem().find("forked") != std::string::npos, "child: said is \"" + context.problem() + "\"");
      {
        Context own;
        for (int n = 0; n < 20; ++n) want_same(own.run(3), before, "child");
        want(own.problem().find("forked") != std::string::npos, "child: said is \"" + own.problem() + "\"");
      }
      digits_destroy(context.get());
      std::exit(0);
    }
    int status = -1;
    want(waitpid(child, &status, 0) == child && status == 0, "the child ended with " + std::to_string(status));
    context.run(3);
  }
  heat(context, 3, before);
}

// A child of one in which nothing has come twice specialises for itself.
void fork_before() {
  Context context;
  const Answer before = context.run(3);
  const pid_t child = fork();
  if (child == 0) {
    heat(context, 3, before);
    Context own;
    heat(own, 3, own.run(3));
    std::exit(0);
  }
  int status = -1;
  want(waitpid(child, &status, 0) == child && status == 0, "the child ended with " + std::to_string(status));
  heat(context, 3, before);
}

// The process ends while programs are made, and nobody destroyed the contexts.
void exit_while_compiling(const std::string& milliseconds) {
  Context* const context = new Context;
  wait_for_compiler(*context, 7);
  usleep(1000 * static_cast<useconds_t>(std::stoi(milliseconds)));
  std::exit(0);
}
void exit_while_opening() {
  Context* const context = new Context;
  context->run(7);
  context->run(7);
  std::exit(0);
}

// Mistakes are told in the library's words, and outputs go where they are wanted.
void errors_and_memory() {
  digits_options wrong{};
  wrong.size = sizeof wrong;
  wrong.most_specialisations = -1;
  digits_context* refused = nullptr;
  want(digits_create(&wrong, &refused) == DIGITS_INVALID_ARGUMENT, "most_specialisations of -1 is taken");
  digits_destroy(refused);
  Context context;
  const Answer before = context.run(2);
  heat(context, 2, before);
  std::vector<float> pixels(128, 1), room(64, -1);
  digits_tensor image{}, answer{};
  image.data = pixels.data(), image.rank = 4;
  image.dims[0] = 2, image.dims[1] = 1, image.dims[2] = 8, image.dims[3] = 8;
  answer.data = room.data(), answer.bytes = 79;
  want(digits_run(context.get(), &image, 1, &answer, 1) == DIGITS_INVALID_ARGUMENT, "an output that is too small is taken");
  const std::string small = digits_last_error(context.get());
  answer.data = room.data(), answer.bytes = 256;
  const int64_t specialised = context.now().specialised_runs;
  want(digits_run(context.get(), &image, 1, &answer, 1) == DIGITS_OK, "an output of the caller's");
  want(context.now().specialised_runs == specialised + 1, "not specialised with an output of the caller's");
  want(answer.data == room.data() && answer.bytes == 80 && room[19] != -1 && room[20] == -1, "the caller's memory");
  image.type = DIGITS_TYPE(DIGITS_INT32);
  want(digits_run(context.get(), &image, 1, &answer, 1) == DIGITS_INVALID_ARGUMENT, "another dtype is taken");
  const std::string dtype = digits_last_error(context.get());
  image.type = 0, image.bytes = 511;
  want(digits_run(context.get(), &image, 1, &answer, 1) == DIGITS_INVALID_ARGUMENT, "bytes that do not fit are taken");
  const std::string bytes = digits_last_error(context.get());
  digits_options none{};
  none.size = sizeof none;
  none.metac = "off";
  Context own(none);
  image.bytes = 0, answer.data = room.data(), answer.bytes = 79;
  digits_run(own.get(), &image, 1, &answer, 1);
  want(small == digits_last_error(own.get()), "said is \"" + small + "\", and without: " + digits_last_error(own.get()));
  answer.bytes = 256, image.type = DIGITS_TYPE(DIGITS_INT32);
  digits_run(own.get(), &image, 1, &answer, 1);
  want(dtype == digits_last_error(own.get()), "said is \"" + dtype + "\"");
  image.type = 0, image.bytes = 511;
  digits_run(own.get(), &image, 1, &answer, 1);
  want(bytes == digits_last_error(own.get()), "said is \"" + bytes + "\"");
}

// Weights that are set are the context's own: it goes on with its own code. Weights that were written are everybody's.
void other_weights(const char* folder) {
  std::vector<std::vector<float>> values;
  std::vector<const void*> parameters;
  for (int32_t k = 0; k < DIGITS_PARAMETERS; ++k) {
    const digits_port& port = *digits_parameter(k);
    int64_t count = 1;
    for (int32_t d = 0; d < port.rank; ++d) count *= port.dims[d];
    want(port.dtype == DIGITS_FLOAT32, "a parameter that is no float");
    values.emplace_back(static_cast<size_t>(count));
    for (size_t n = 0; n < values.back().size(); ++n) values.back()[n] = static_cast<float>((n * 31 + k) % 23) / 23 - 0.4f;
    parameters.push_back(nullptr);
    parameters.back() = values.back().data();
  }
  for (int32_t k = 0; k < DIGITS_PARAMETERS; ++k) parameters[static_cast<size_t>(k)] = values[static_cast<size_t>(k)].data();
  const std::string path = std::string(folder) + "/other.weights";
  Context context;
  const Answer first = context.run(2);
  heat(context, 2, first);
  want_ok(digits_write_weights(context.get(), parameters.data(), DIGITS_PARAMETERS, path.c_str()), context.get(), "write");
  want_ok(digits_set_weights(context.get(), parameters.data(), DIGITS_PARAMETERS), context.get(), "set");
  const int64_t specialised = context.now().specialised_runs;
  const Answer set = context.run(2);
  double difference = 0;
  for (size_t k = 0; k < set.size(); ++k) difference += std::fabs(set[k] - first[k]);
  want(difference > 1e-3, "other weights, and the same answer");
  want(context.now().specialised_runs == specialised, "weights were set, and a program with the old ones answers");
  digits_options options{};
  options.weights = path.c_str();
  Context written(options);
  want_same(written.run(2), set, "written weights");
  heat(written, 2, set);
  Context with_the_first;
  heat(with_the_first, 2, first);
}

}  // namespace

int main(int count, char** values) {
  const std::string scenario = count > 1 ? values[1] : "", argument = count > 2 ? values[2] : "";
  if (scenario == "hot_shapes")
    hot_shapes();
  else if (scenario == "few_programs")
    few_programs();
  else if (scenario == "alone")
    alone(argument);
  else if (scenario == "threads_share")
    threads_share();
  else if (scenario == "destroyed_while_compiling")
    destroyed_while_compiling();
  else if (scenario == "fork_behind")
    fork_behind();
  else if (scenario == "fork_before")
    fork_before();
  else if (scenario == "exit_while_compiling")
    exit_while_compiling(argument);
  else if (scenario == "exit_while_opening")
    exit_while_opening();
  else if (scenario == "errors_and_memory")
    errors_and_memory();
  else if (scenario == "other_weights")
    other_weights(argument.c_str());
  else
    fail("no scenario " + scenario);
  return 0;
}

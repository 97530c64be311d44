// Every function of metac.h with every argument that it must refuse: the status, and what the message names. A call that is
// refused changes nothing, and the next good one works. Ends with 'N passed, N failed'.
//
//   refused_calls DIGITS.onnx
#include <metac/metac.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "small_model.h"

namespace {

int passed = 0, failed = 0;

void expect(bool good, const std::string& what, const std::string& found = "") {
  ++(good ? passed : failed);
  if (!good) std::printf("FAIL  %s%s%s\n", what.c_str(), found.empty() ? "" : ": ", found.c_str());
}

// The call answers `status` with a message that has all of `parts`.
void refused(const std::string& what, metac_status answer, metac_status status, const std::vector<std::string>& parts) {
  const std::string message = metac_last_error();
  bool good = answer == status;
  for (const std::string& part : parts) good = good && message.find(part) != std::string::npos;
  expect(good, what, "status " + std::to_string(answer) + ", \"" + message + "\"");
}

metac_status open_small(const metac_session_options* options, metac_session** session) {
  return metac_session_open_memory(small_model, sizeof small_model - 1, options, session);
}

// Of metac_session_options in the first version.
constexpr size_t first_size = offsetof(metac_session_options, target) + sizeof(const char*);

void options_are_checked() {
  struct Row {
    const char* what;
    std::function<void(metac_session_options&)> change;
    metac_status status;
    std::vector<std::string> parts;
  };
  static metac_dim nameless{nullptr, 1, 2, 1}, empty_name{"", 1, 2, 1}, unknown{"m", 1, 2, 1}, empty{"n", 5, 4, 1};
  static metac_dim low{"n", -1, 4, 1}, high{"n", 1, -4, 1}, divisor{"n", 1, 4, -2}, no_multiple{"n", 5, 7, 8};
  static metac_dim twice[] = {{"n", 1, 4, 1}, {"n", 1, 4, 1}};
  const auto dim = [](metac_dim& one) { return [&one](metac_session_options& o) { o.dims = &one, o.dim_count = 1; }; };
  static const int64_t four[] = {4}, two[] = {2};
  alignas(64) static const float w[32] = {};
  static metac_tensor stranger{"v", w, 0, four, 1, METAC_FLOAT32}, other_dtype{"w", w, 0, four, 1, METAC_INT32},
      other_shape{"w", w, 0, two, 1, METAC_FLOAT32};
  static metac_block nothing{nullptr, 8}, no_bytes{w, 0}, crooked{w + 1, 8};
  const auto weight = [](metac_tensor& one) {
    return [&one](metac_session_options& o) { o.weights = &one, o.weight_count = 1; };
  };
  const auto block = [](metac_block& one) {
    return [&one](metac_session_options& o) { o.prepared = &one, o.prepared_count = 1; };
  };
  const metac_status wrong = METAC_INVALID_ARGUMENT;
  const Row rows[] = {
      {"weight_count < 0", [](auto& o) { o.weight_count = -1; }, wrong, {"weight_count is -1"}},
      {"weights NULL", [](auto& o) { o.weight_count = 1; }, wrong, {"weights are NULL", "1"}},
      {"unknown weight", weight(stranger), wrong, {"no initialiser \"v\""}},
      {"weight of another dtype", weight(other_dtype), wrong, {"\"w\"", "int32", "float32"}},
      {"weight of another shape", weight(other_shape), wrong, {"\"w\" is 2", "has 4"}},
      {"prepared_count < 0", [](auto& o) { o.prepared_count = -1; }, wrong, {"prepared_count is -1"}},
      {"prepared NULL", [](auto& o) { o.prepared_count = 3; }, wrong, {"prepared is NULL", "3"}},
      {"a block NULL", block(nothing), wrong, {"prepared[0]"}},
      {"a block without bytes", block(no_bytes), wrong, {"prepared[0]", "0 bytes"}},
      {"a block that is not aligned", block(crooked), wrong, {"prepared[0]", "64 bytes"}},
      {"size 0", [](auto& o) { o.size = 0; }, wrong, {"size is 0", "sizeof(metac_session_options)"}},
      {"size too small", [](auto& o) { o.size = first_size - 1; }, wrong, {std::to_string(first_size - 1)}},
      {"size never set", [](auto& o) { o.size = SIZE_MAX; }, wrong, {"size is"}},
      {"specialise", [](auto& o) { o.specialise = "sometimes"; }, wrong, {"\"sometimes\"", "background, eager or never"}},
      {"threads < 0", [](auto& o) { o.threads = -1; }, wrong, {"threads is -1"}},
      {"threads > 256", [](auto& o) { o.threads = 257; }, wrong, {"threads is 257", "256"}},
      {"max_contexts < 0", [](auto& o) { o.max_contexts = -3; }, wrong, {"max_contexts is -3"}},
      {"max_contexts > 256", [](auto& o) { o.max_contexts = 1000; }, wrong, {"max_contexts is 1000"}},
      {"max_specialisations < 0", [](auto& o) { o.max_specialisations = -1; }, wrong, {"max_specialisations is -1"}},
      {"max_memory < 0", [](auto& o) { o.max_memory = -7; }, wrong, {"max_memory is -7"}},
      {"dim_count < 0", [](auto& o) { o.dim_count = -1; }, wrong, {"dim_count is -1"}},
      {"dim_count too large", [](auto& o) { o.dim_count = INT32_MAX; }, wrong, {"dim_count is 2147483647"}},
      {"dims NULL", [](auto& o) { o.dim_count = 2; }, wrong, {"dims is NULL", "2"}},
      {"dim without a name", dim(nameless), wrong, {"dims[0]", "no name"}},
      {"dim with an empty name", dim(empty_name), wrong, {"dims[0]", "no name"}},
      {"unknown dim", dim(unknown), wrong, {"\"m\"", "no open dim"}},
      {"empty range", dim(empty), wrong, {"\"n\"", "5 to 4"}},
      {"min < 0", dim(low), wrong, {"\"n\"", "min is -1"}},
      {"max < 0", dim(high), wrong, {"\"n\"", "max is -4"}},
      {"divisor < 0", dim(divisor), wrong, {"\"n\"", "divisor is -2"}},
      {"no multiple in the range", dim(no_multiple), wrong, {"multiple of 8", "5 to 7"}},
      {"dim twice", [](auto& o) { o.dims = twice, o.dim_count = 2; }, wrong, {"\"n\"", "twice"}},
      {"cpu", [](auto& o) { o.cpu = "z80"; }, wrong, {"cpu", "z80"}},
      {"target", [](auto& o) { o.target = "abacus"; }, wrong, {"target", "\"abacus\"", "cpu"}},
  };
  for (const Row& row : rows) {
    metac_session_options options{};
    options.size = sizeof options;
    row.change(options);
    metac_session* session = nullptr;
    const metac_status status = open_small(&options, &session);
    refused(std::string("options: ") + row.what, status, row.status, row.parts);
    expect(session == nullptr, std::string("no session after ") + row.what);
    metac_session_close(session);
  }
}

// Structs of a newer header: a tail of zeros says nothing, any other byte sets what this library does not know.
void sizes_may_grow() {
  struct Newer {
    metac_session_options known;
    int64_t further;
  } newer{};
  newer.known.size = sizeof newer;
  metac_session* session = nullptr;
  expect(open_small(&newer.known, &session) == METAC_OK, "options with a tail of zeros", metac_last_error());
  metac_session_options older;
  std::memset(&older, 0x5a, sizeof older);  // what an older header does not have is not looked at
  std::memset(&older, 0, first_size);
  older.size = first_size;
  metac_session* of_older = nullptr;
  expect(open_small(&older, &of_older) == METAC_OK, "options of the first version", metac_last_error());
  metac_session_close(of_older);
  newer.further = 1;
  metac_session* none = nullptr;
  refused("options with a tail", open_small(&newer.known, &none), METAC_INVALID_ARGUMENT, {std::to_string(sizeof newer)});
  struct NewerReport {
    metac_session_report known;
    int64_t further;
  } report{};
  report.known.size = sizeof report, report.further = 5;
  expect(metac_session_get_report(session, &report.known) == METAC_OK && report.further == 0 &&
             report.known.size == sizeof report,
         "a report with a tail");
  report.known.size = offsetof(metac_session_report, working_bytes);  // the last field of the first version
  refused("a report too small", metac_session_get_report(session, &report.known), METAC_INVALID_ARGUMENT,
          {"metac_session_report", "size is"});
  metac_session_close(session);
}

void opening_is_checked(const char* digits) {
  metac_session* session = nullptr;
  const metac_status wrong = METAC_INVALID_ARGUMENT;
  refused("path NULL", metac_session_open(nullptr, nullptr, &session), wrong, {"path is NULL"});
  refused("session NULL", metac_session_open(digits, nullptr, nullptr), wrong, {"session is NULL"});
  refused("no such file", metac_session_open("no/such.onnx", nullptr, &session), METAC_MODEL, {"no/such.onnx"});
  refused("a folder", metac_session_open("/", nullptr, &session), METAC_MODEL, {"/"});
  refused("model NULL", metac_session_open_memory(nullptr, 5, nullptr, &session), wrong, {"model is NULL"});
  refused("no bytes", metac_session_open_memory("{}", 0, nullptr, &session), wrong, {"bytes is 0"});
  refused("memory, session NULL", open_small(nullptr, nullptr), wrong, {"session is NULL"});
  refused("no model", metac_session_open_memory("rubbish", 7, nullptr, &session), METAC_MODEL, {});
  const char beside[] = R"({"metac_ir": 1, "opset": 17, "inputs": [], "outputs": ["y"],
    "parameters": [{"name": "w", "dtype": "float32", "shape": [1], "file": "w.bin"}],
    "nodes": [{"op": "Neg", "inputs": ["w"], "outputs": ["y"]}]})";
  refused("a file beside no file", metac_session_open_memory(beside, sizeof beside - 1, nullptr, &session), METAC_MODEL,
          {"w.bin", "in memory"});
  const char strings[] = R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "s", "dtype": "string", "shape": [2]}],
    "outputs": ["y"], "nodes": [{"op": "Identity", "inputs": ["s"], "outputs": ["y"]}]})";
  refused("strings", metac_session_open_memory(strings, sizeof strings - 1, nullptr, &session), METAC_UNSUPPORTED,
          {"\"s\"", "strings"});
  expect(session == nullptr, "no session after an opening that failed");
  metac_session_close(nullptr);
}

void inputs_are_checked() {
  metac_session_options options{};
  const metac_dim range{"n", 2, 6, 2};
  options.size = sizeof options, options.dims = &range, options.dim_count = 1;
  metac_session* session = nullptr;
  expect(open_small(&options, &session) == METAC_OK, "a session with a range", metac_last_error());
  if (!session) return;
  alignas(8) static float memory[64];
  static const int64_t dims[] = {2, 4}, column[] = {2, 1}, three[] = {2, 4, 1}, negative[] = {-2, 4}, four[] = {4, 4},
                       wide[] = {2, 5}, odd[] = {3, 4}, large[] = {8, 4}, huge[] = {INT64_MAX, 4};
  struct Row {
    const char* what;
    std::function<void(metac_tensor&)> change;  // of "x"
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {"name NULL", [](auto& t) { t.name = nullptr; }, {"inputs[0]", "name is NULL"}},
      {"unknown name", [](auto& t) { t.name = "u"; }, {"no input \"u\"", "\"x\", \"z\""}},
      {"a name twice", [](auto& t) { t.name = "z"; }, {"input \"z\"", "twice"}},
      {"dtype < 0", [](auto& t) { t.dtype = -1; }, {"\"x\"", "dtype is -1"}},
      {"dtype unknown", [](auto& t) { t.dtype = 13; }, {"\"x\"", "dtype is 13"}},
      {"another dtype", [](auto& t) { t.dtype = METAC_INT32; }, {"\"x\"", "float32", "int32 2x4"}},
      {"rank < 0", [](auto& t) { t.rank = -1; }, {"\"x\"", "rank is -1"}},
      {"rank too large", [](auto& t) { t.rank = 65; }, {"\"x\"", "rank is 65"}},
      {"another rank", [](auto& t) { t.dims = three, t.rank = 3; }, {"\"x\"", "2x4x1"}},
      {"dims NULL", [](auto& t) { t.dims = nullptr; }, {"\"x\"", "dims is NULL"}},
      {"a dim < 0", [](auto& t) { t.dims = negative; }, {"\"x\"", "dims[0] is -2"}},
      {"another dim", [](auto& t) { t.dims = wide; }, {"\"x\"", "2x5"}},
      {"more bytes than there are", [](auto& t) { t.dims = huge; }, {"\"x\"", "2^63"}},
      {"not a multiple", [](auto& t) { t.dims = odd; }, {"\"x\"", "\"n\" is 3", "multiple of 2"}},
      {"beyond the range", [](auto& t) { t.dims = large; }, {"\"x\"", "\"n\" is 8", "2 to 6"}},
      {"a dim of two lengths", [](auto& t) { t.dims = four; }, {"\"n\"", "is 4", "is 2"}},
      {"bytes", [](auto& t) { t.bytes = 31; }, {"\"x\"", "bytes is 31", "32 bytes"}},
      {"bytes < 0", [](auto& t) { t.bytes = -1; }, {"\"x\"", "bytes is -1"}},
      {"data NULL", [](auto& t) { t.data = nullptr; }, {"\"x\"", "data is NULL", "32 bytes"}},
      {"data not aligned", [](auto& t) { t.data = reinterpret_cast<const char*>(memory) + 1; }, {"\"x\"", "aligned"}},
  };
  const metac_tensor good[] = {{"x", memory, 0, dims, 2, METAC_FLOAT32}, {"z", memory, 0, column, 2, METAC_FLOAT32}};
  metac_result* result = nullptr;
  for (const Row& row : rows) {
    metac_tensor inputs[] = {good[0], good[1]};
    row.change(inputs[0]);
    refused(std::string("run: ") + row.what, metac_session_run(session, inputs, 2, &result), METAC_INVALID_ARGUMENT,
            row.parts);
  }
  const metac_status wrong = METAC_INVALID_ARGUMENT;
  refused("run: session NULL", metac_session_run(nullptr, good, 2, &result), wrong, {"session is NULL"});
  refused("run: result NULL", metac_session_run(session, good, 2, nullptr), wrong, {"result is NULL"});
  refused("run: inputs NULL", metac_session_run(session, nullptr, 2, &result), wrong, {"inputs are NULL", "2"});
  refused("run: count < 0", metac_session_run(session, good, -1, &result), wrong, {"-1"});
  refused("run: one is missing", metac_session_run(session, good, 1, &result), wrong, {"\"z\"", "missing"});
  refused("try: session NULL", metac_session_try_run(nullptr, good, 2, &result), wrong, {"session is NULL"});
  refused("try: result NULL", metac_session_try_run(session, good, 2, nullptr), wrong, {"result is NULL"});
  refused("try: one is missing", metac_session_try_run(session, good, 1, &result), wrong, {"\"z\"", "missing"});
  expect(metac_session_try_run(session, good, 2, &result) == METAC_NOT_READY, "nothing is ready for what never came");
  expect(result == nullptr, "no result of a run that failed");
  expect(metac_session_run(session, good, 2, &result) == METAC_OK && result, "a good run after all that",
         metac_last_error());
  const metac_tensor* output = metac_result_output(result, 0);
  expect(output && std::strcmp(output->name, "y") == 0 && output->rank == 2 && output->bytes == 32, "its output");
  expect(!metac_result_output(result, 1) && !metac_result_output(result, -1) && !metac_result_output(nullptr, 0),
         "outputs that are not there");
  metac_result_free(result);
  metac_result_free(nullptr);
  metac_session_close(session);
}

// While it lives the process gets 2 GiB more address space and no further.
class LittleMemory {
 public:
  LittleMemory() {
    long pages = 0;
    std::FILE* file = std::fopen("/proc/self/statm", "r");
    if (!file || std::fscanf(file, "%ld", &pages) != 1) std::abort();
    std::fclose(file);
    getrlimit(RLIMIT_AS, &before_);
    rlimit less = before_;
    less.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{2} << 30);
    if (setrlimit(RLIMIT_AS, &less) != 0) std::abort();
  }
  ~LittleMemory() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// A condition that the model states, sizes that nothing can have, and memory that there is not.
void data_are_checked() {
  const char model[] = R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "length", "dtype": "int64", "shape": [1]}],
    "parameters": [{"name": "one", "dtype": "float32", "shape": [1], "data": [1]}],
    "nodes": [{"op": "Expand", "inputs": ["one", "length"], "outputs": ["y"]}], "outputs": ["y"]})";
  metac_session* session = nullptr;
  metac_session_options options{};
  options.size = sizeof options, options.specialise = "never";
  expect(metac_session_open_memory(model, sizeof model - 1, &options, &session) == METAC_OK, "a model", metac_last_error());
  int64_t length = 2;
  const int64_t one[] = {1};
  const metac_tensor input{"length", &length, 0, one, 1, METAC_INT64};
  metac_result* result = nullptr;
  expect(metac_session_run(session, &input, 1, &result) == METAC_OK, "a good run of it", metac_last_error());
  metac_result_free(result), result = nullptr;
  length = -5;
  refused("run: a length below 0", metac_session_run(session, &input, 1, &result), METAC_INVALID_ARGUMENT, {"-5"});
  length = int64_t{1} << 45;
  refused("run: beyond all limits", metac_session_run(session, &input, 1, &result), METAC_INVALID_ARGUMENT,
          {"140737488355328"});
  {
    const LittleMemory little;
    length = int64_t{1} << 31;  // 8 GiB
    refused("run: no memory", metac_session_run(session, &input, 1, &result), METAC_OUT_OF_MEMORY, {"memory"});
  }
  length = 3;
  expect(metac_session_run(session, &input, 1, &result) == METAC_OK, "a run after it", metac_last_error());
  metac_result_free(result), result = nullptr;
  metac_session_close(session), session = nullptr;

  const char sum[] = R"({"metac_ir": 1, "opset": 17, "outputs": ["y"],
    "inputs": [{"name": "a", "dtype": "float32", "shape": ["n"]}, {"name": "b", "dtype": "float32", "shape": ["m"]}],
    "nodes": [{"op": "Add", "inputs": ["a", "b"], "outputs": ["y"]}]})";
  metac_session_open_memory(sum, sizeof sum - 1, &options, &session);
  const float values[] = {1, 2, 3};
  const int64_t two[] = {2}, three[] = {3};
  const metac_tensor inputs[] = {{"a", values, 0, two, 1, METAC_FLOAT32}, {"b", values, 0, three, 1, METAC_FLOAT32}};
  refused("run: lengths that do not go together", metac_session_run(session, inputs, 2, &result), METAC_MODEL, {"2", "3"});
  expect(result == nullptr, "no result of a run that failed");
  metac_session_close(session);
}

void the_rest_is_checked() {
  metac_session* session = nullptr;
  open_small(nullptr, &session);
  if (!session) return;
  const metac_port *x = metac_session_input(session, 0), *z = metac_session_input(session, 1);
  expect(x && z && x->rank == 2 && x->dims[0] == -1 && x->dims[1] == 4 && std::strcmp(x->dim_names[0], "n") == 0 &&
             !x->dim_names[1] && x->dtype == METAC_FLOAT32,
         "what is told of an input");
  expect(!metac_session_input(session, 2) && !metac_session_input(session, -1) && !metac_session_input(nullptr, 0),
         "inputs that are not there");
  expect(metac_session_output(session, 0) && !metac_session_output(session, 1) && !metac_session_output(nullptr, 0),
         "outputs that are not there");
  const float w[] = {2, 2, 2, 2};
  const int64_t four[] = {4}, two[] = {2};
  const metac_tensor good{"w", w, 0, four, 1, METAC_FLOAT32}, shape{"w", w, 0, two, 1, METAC_FLOAT32},
      dtype{"w", w, 0, four, 1, METAC_INT32}, name{"v", w, 0, four, 1, METAC_FLOAT32};
  const metac_tensor mixed[] = {good, name}, twice[] = {good, good};
  const metac_status wrong = METAC_INVALID_ARGUMENT;
  refused("weights: session NULL", metac_session_set_weights(nullptr, &good, 1), wrong, {"session is NULL"});
  refused("weights: NULL", metac_session_set_weights(session, nullptr, 1), wrong, {"weights are NULL"});
  refused("weights: count < 0", metac_session_set_weights(session, &good, -1), wrong, {"-1"});
  refused("weights: shape", metac_session_set_weights(session, &shape, 1), wrong, {"\"w\"", "float32 4", "float32 2"});
  refused("weights: dtype", metac_session_set_weights(session, &dtype, 1), wrong, {"\"w\"", "int32"});
  refused("weights: name", metac_session_set_weights(session, &name, 1), wrong, {"\"v\""});
  refused("weights: twice", metac_session_set_weights(session, twice, 2), wrong, {"\"w\"", "twice"});
  refused("weights: one of two", metac_session_set_weights(session, mixed, 2), wrong, {"\"v\""});
  expect(metac_session_set_weights(session, nullptr, 0) == METAC_OK, "no weights at all");
  refused("wait: NULL", metac_session_wait(nullptr), wrong, {"session is NULL"});
  metac_session_report report{};
  report.size = sizeof report;
  refused("report: session NULL", metac_session_get_report(nullptr, &report), wrong, {"session is NULL"});
  refused("report: NULL", metac_session_get_report(session, nullptr), wrong, {"report is NULL"});
  const float x_values[] = {1, 2, 3, 4}, z_value[] = {10};
  const int64_t row[] = {1, 4}, one[] = {1, 1};
  const metac_tensor inputs[] = {{"z", z_value, 4, one, 2, METAC_FLOAT32}, {"x", x_values, 16, row, 2, METAC_FLOAT32}};
  const auto first_of_run = [&] {
    metac_result* result = nullptr;
    metac_session_run(session, inputs, 2, &result);
    const metac_tensor* output = metac_result_output(result, 0);
    const float first = output ? static_cast<const float*>(output->data)[1] : std::numeric_limits<float>::quiet_NaN();
    metac_result_free(result);
    return first;
  };
  expect(first_of_run() == 12, "weights that were refused are not taken, not even in part");
  expect(metac_session_set_weights(session, &good, 1) == METAC_OK && first_of_run() == 14, "weights that are taken");
  std::thread([] { expect(std::strcmp(metac_last_error(), "") == 0, "a thread without errors of its own"); }).join();
  expect(metac_session_wait(session) == METAC_OK, "waiting");
  expect(metac_session_get_report(session, &report) == METAC_OK && report.runs == 2, "the report");
  expect(std::strlen(metac_version()) >= 5, "the version");
  metac_session_close(session);
}

void streams_are_checked() {
  const metac_status wrong = METAC_INVALID_ARGUMENT;
  const metac_state half{"past", nullptr}, no_input{"passed", "present"}, no_output{"past", "presents"}, pair{"past", "present"};
  const metac_state twice[] = {pair, pair};
  const auto open = [&](const metac_state* states, int32_t count, int32_t known, metac_session** session) {
    metac_session_options options{};
    options.size = sizeof options;
    options.states = states, options.state_count = count, options.known_states = known;
    return metac_session_open_memory(keeping_model, sizeof keeping_model - 1, &options, session);
  };
  metac_session* session = nullptr;
  refused("states: half", open(&half, 1, 0, &session), wrong, {"states[0]", "no output"});
  refused("states: no input", open(&no_input, 1, 0, &session), wrong, {"no input \"passed\""});
  refused("states: no output", open(&no_output, 1, 0, &session), wrong, {"no output \"presents\""});
  refused("states: twice", open(twice, 2, 0, &session), wrong, {"one state alone"});
  refused("states: NULL", open(nullptr, 1, 0, &session), wrong, {"states is NULL"});
  refused("states: known", open(nullptr, 0, 2, &session), wrong, {"known_states is 2"});
  metac_session_options options{};
  options.size = sizeof options, options.known_states = 1;
  refused("states: none known", open_small(&options, &session), wrong, {"known as a state"});
  expect(open(&pair, 1, 0, &session) == METAC_OK, "a session with states", metac_last_error());
  expect(metac_session_input(session, 1) == nullptr && metac_session_output(session, 1) == nullptr, "states are no ports");
  expect(metac_session_state(session, 0) && !metac_session_state(session, 1), "the port of a state");

  metac_stream* stream = nullptr;
  metac_result* result = nullptr;
  refused("stream: session NULL", metac_stream_open(nullptr, &stream), wrong, {"session is NULL"});
  refused("stream: NULL", metac_stream_open(session, nullptr), wrong, {"stream is NULL"});
  expect(metac_stream_open(session, &stream) == METAC_OK, "a stream");
  const float values[8] = {};
  const int64_t dims[] = {1, 2, 2}, odd[] = {1, 2, 4}, flat[] = {8};
  const metac_tensor x{"x", values, 0, dims, 3, METAC_FLOAT32}, past{"past", values, 0, dims, 3, METAC_FLOAT32};
  const metac_tensor wide{"past", values, 0, odd, 3, METAC_FLOAT32}, rank{"past", values, 0, flat, 1, METAC_FLOAT32};
  const metac_tensor both[] = {x, past};
  refused("stream run: NULL", metac_stream_run(nullptr, &x, 1, &result), wrong, {"stream is NULL"});
  refused("stream run: result NULL", metac_stream_run(stream, &x, 1, nullptr), wrong, {"result is NULL"});
  refused("stream run: a state", metac_stream_run(stream, both, 2, &result), wrong, {"\"past\" is a state"});
  refused("session run: a state", metac_session_run(session, both, 2, &result), wrong, {"\"past\" is a state"});
  refused("get: NULL", metac_stream_get(stream, nullptr, &result), wrong, {"state is NULL"});
  refused("get: no state", metac_stream_get(stream, "x", &result), wrong, {"no state \"x\"", "\"past\""});
  refused("set: NULL", metac_stream_set(stream, nullptr, 1), wrong, {"states are NULL"});
  refused("set: no state", metac_stream_set(stream, &x, 1), wrong, {"no state \"x\""});
  refused("set: a dim", metac_stream_set(stream, &wide, 1), wrong, {"dim 2 is 4, expected 2"});
  refused("set: rank", metac_stream_set(stream, &rank, 1), wrong, {"float32 8"});
  refused("truncate: too long", metac_stream_truncate(stream, 1), wrong, {"has 0 steps"});
  refused("truncate: below 0", metac_stream_truncate(stream, -1), wrong, {"-1"});
  refused("fork: NULL", metac_stream_fork(nullptr, &stream), wrong, {"stream is NULL"});
  refused("fork: forked NULL", metac_stream_fork(stream, nullptr), wrong, {"forked is NULL"});
  refused("reset: NULL", metac_stream_reset(nullptr), wrong, {"stream is NULL"});
  expect(metac_stream_set(stream, &past, 1) == METAC_OK && metac_stream_run(stream, &x, 1, &result) == METAC_OK,
         "a run behind calls that were refused", metac_last_error());
  metac_result_free(result);
  expect(metac_stream_get(stream, "past", &result) == METAC_OK && metac_result_output(result, 0)->dims[1] == 4, "a state");
  metac_result_free(result);
  metac_stream_close(stream), metac_stream_close(nullptr);
  metac_session_close(session);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  options_are_checked();
  sizes_may_grow();
  opening_is_checked(argv[1]);
  inputs_are_checked();
  data_are_checked();
  the_rest_is_checked();
  streams_are_checked();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}

// The functions of metac.h.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "compiler/library/options.h"
#include "compiler/library/session_handle.h"
#include "compiler/library/status.h"
#include "compiler/library/tensors.h"
#include "frontends/read_model.h"

using namespace metac;
using namespace metac::library;

namespace {

void check_pointer(const void* pointer, const char* name) {
  if (!pointer) refuse(name, " is NULL");
}

}  // namespace

metac_status metac_session_open(const char* path, const metac_session_options* options, metac_session** session) {
  return answered([&] {
    check_pointer(path, "path");
    check_pointer(session, "session");
    SessionOptions checked = session_options(options);
    *session = opened_session(read_model(path), std::move(checked), options);
  });
}

metac_status metac_session_open_memory(const void* model, size_t bytes, const metac_session_options* options,
                                       metac_session** session) {
  return answered([&] {
    check_pointer(model, "model");
    check_pointer(session, "session");
    if (bytes == 0) refuse("bytes is 0: there is no model");
    SessionOptions checked = session_options(options);
    *session = opened_session(read_model_bytes({static_cast<const char*>(model), bytes}), std::move(checked), options);
  });
}

void metac_session_close(metac_session* session) {
  answered([&] { delete session; });
}

const metac_port* metac_session_input(const metac_session* session, int32_t index) {
  return session ? session->inputs.at(index) : nullptr;
}

const metac_port* metac_session_output(const metac_session* session, int32_t index) {
  return session ? session->outputs.at(index) : nullptr;
}

const metac_port* metac_session_state(const metac_session* session, int32_t index) {
  return session ? session->states.at(index) : nullptr;
}

metac_status metac_session_run(metac_session* session, const metac_tensor* inputs, int32_t input_count,
                               metac_result** result) {
  return answered([&] {
    check_pointer(session, "session");
    check_pointer(result, "result");
    *result = session->run(inputs, input_count);
  });
}

metac_status metac_session_try_run(metac_session* session, const metac_tensor* inputs, int32_t input_count,
                                   metac_result** result) {
  bool ready = true;
  const metac_status status = answered([&] {
    check_pointer(session, "session");
    check_pointer(result, "result");
    metac_result* const made = session->try_run(inputs, input_count);
    if (made)
      *result = made;
    else
      ready = false;
  });
  return ready ? status : METAC_NOT_READY;
}

const metac_tensor* metac_result_output(const metac_result* result, int32_t index) {
  return result && index >= 0 && static_cast<size_t>(index) < result->tensors.size() ? &result->tensors[index] : nullptr;
}

void metac_result_free(metac_result* result) { delete result; }

metac_status metac_session_set_weights(metac_session* session, const metac_tensor* weights, int32_t count) {
  return answered([&] {
    check_pointer(session, "session");
    session->set_weights(weights, count);
  });
}

metac_status metac_stream_open(metac_session* session, metac_stream** stream) {
  return answered([&] {
    check_pointer(session, "session");
    check_pointer(stream, "stream");
    *stream = new metac_stream(session, std::make_unique<Stream>(session->session));
  });
}

void metac_stream_close(metac_stream* stream) {
  answered([&] { delete stream; });
}

metac_status metac_stream_run(metac_stream* stream, const metac_tensor* inputs, int32_t input_count, metac_result** result) {
  return answered([&] {
    check_pointer(stream, "stream");
    check_pointer(result, "result");
    *result = stream->session->run(*stream->states, inputs, input_count);
  });
}

metac_status metac_stream_reset(metac_stream* stream) {
  return answered([&] {
    check_pointer(stream, "stream");
    stream->states->reset();
  });
}

metac_status metac_stream_get(metac_stream* stream, const char* state, metac_result** result) {
  return answered([&] {
    check_pointer(stream, "stream");
    check_pointer(state, "state");
    check_pointer(result, "result");
    std::vector<std::pair<std::string, Tensor>> value;
    value.emplace_back(state, stream->states->get(state));
    *result = new metac_result(std::move(value));
  });
}

metac_status metac_stream_set(metac_stream* stream, const metac_tensor* states, int32_t count) {
  return answered([&] {
    check_pointer(stream, "stream");
    stream->states->set(views_of(states, count, "state"));
  });
}

metac_status metac_stream_truncate(metac_stream* stream, int64_t length) {
  return answered([&] {
    check_pointer(stream, "stream");
    stream->states->truncate(length);
  });
}

metac_status metac_stream_fork(metac_stream* stream, metac_stream** forked) {
  return answered([&] {
    check_pointer(stream, "stream");
    check_pointer(forked, "forked");
    *forked = new metac_stream(stream->session, stream->states->fork());
  });
}

metac_status metac_session_wait(metac_session* session) {
  return answered([&] {
    check_pointer(session, "session");
    session->session.wait();
  });
}

metac_status metac_session_get_report(const metac_session* session, metac_session_report* report) {
  return answered([&] {
    check_pointer(session, "session");
    check_pointer(report, "report");
    const size_t first = offsetof(metac_session_report, working_bytes) + sizeof report->working_bytes;
    check_size("metac_session_report", report->size, first);
    const SessionReport now = session->session.report();
    metac_session_report told{};
    told.size = report->size;
    told.runs = now.runs, told.open_runs = now.open_runs;
    told.compiled = now.compiled, told.dropped = now.dropped;
    told.waiting = now.waiting;
    told.specialisations = now.specialisations;
    told.contexts = now.contexts, told.threads = now.threads;
    told.weight_bytes = now.weight_bytes, told.working_bytes = now.working_bytes;
    told.specialised_bytes = now.specialised_bytes;
    told.streams = now.streams, told.state_bytes = now.state_bytes;
    // A newer header's further fields are 0.
    const size_t known = std::min(told.size, sizeof told);
    std::memset(reinterpret_cast<char*>(report) + known, 0, told.size - known);
    std::memcpy(report, &told, known);
  });
}

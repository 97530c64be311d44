#include "python/extension/stream.h"

#include <utility>

#include "python/extension/failure.h"
#include "python/extension/process.h"

namespace metac_python {

Stream::Stream(std::shared_ptr<void> session, metac_stream* stream, const Ports& ports)
    : ports_(ports), generation_(process_generation()) {
  // The last call that holds the stream closes it, and then lets go of the session. In a child of fork it is left as it is.
  stream_ = Shared(stream, [session = std::move(session), generation = generation_](metac_stream* closed) {
    if (generation == process_generation()) metac_stream_close(closed);
  });
}

Stream::Shared Stream::usable() const {
  if (!stream_) throw Failure{METAC_INVALID_ARGUMENT, "the stream is closed"};
  if (generation_ != process_generation())
    throw Failure{METAC_UNSUPPORTED, "the stream was opened before this process was forked: open a session in this process"};
  return stream_;
}

py::list Stream::run(py::handle inputs) {
  const Shared stream = usable();
  const GivenArrays arrays = arrays_of(inputs, "input", &ports_);
  metac_result* answered = nullptr;
  {
    const py::gil_scoped_release unlocked;
    const std::vector<metac_tensor> tensors = gathered(arrays);
    check(metac_stream_run(stream.get(), tensors.data(), static_cast<int32_t>(tensors.size()), &answered));
  }
  return outputs_of(answered, ports_);
}

// Each may wait for a run of another thread.
void Stream::reset() {
  const Shared stream = usable();
  const py::gil_scoped_release unlocked;
  check(metac_stream_reset(stream.get()));
}

ResultArray Stream::get(py::handle state) const {
  const Shared stream = usable();
  const std::string name = bytes_of(state, "state");
  metac_result* answered = nullptr;
  {
    const py::gil_scoped_release unlocked;
    check(metac_stream_get(stream.get(), name.c_str(), &answered));
  }
  return ResultArray(owned(answered), metac_result_output(answered, 0));
}

void Stream::set(py::handle states) {
  const Shared stream = usable();
  const GivenArrays arrays = arrays_of(states, "state", &ports_);
  const py::gil_scoped_release unlocked;
  const std::vector<metac_tensor> tensors = gathered(arrays);
  check(metac_stream_set(stream.get(), tensors.data(), static_cast<int32_t>(tensors.size())));
}

void Stream::truncate(int64_t length) {
  const Shared stream = usable();
  const py::gil_scoped_release unlocked;
  check(metac_stream_truncate(stream.get(), length));
}

Stream Stream::fork() const {
  const Shared stream = usable();
  metac_stream* forked = nullptr;
  {
    const py::gil_scoped_release unlocked;
    check(metac_stream_fork(stream.get(), &forked));
  }
  return Stream(stream, forked, ports_);
}

void define_stream(py::module_& module) {
  py::class_<Stream>(module, "Stream")
      .def("run", &Stream::run)
      .def("reset", &Stream::reset)
      .def("get", &Stream::get)
      .def("set", &Stream::set)
      .def("truncate", &Stream::truncate)
      .def("fork", &Stream::fork)
      .def("close", &Stream::close)
      .def("closed", &Stream::closed);
}

}  // namespace metac_python

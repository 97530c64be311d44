#include "compiler/library/status.h"

#include <new>

#include "compiler/jit/run_error.h"
#include "compiler/support/host_process.h"
#include "runtime/train/fault.h"

namespace metac::library {
namespace {

// The library is in its host's process from the moment that it is loaded.
[[maybe_unused]] const bool guest = (become_guest(), true);

struct LastError {
  std::string text;
  const char* shown = "";  // `text`, or a constant where there was no memory for one
};
thread_local LastError last_error;

void keep(const char* text, const char* without_memory) noexcept {
  try {
    last_error.text = text;
    last_error.shown = last_error.text.c_str();
  } catch (...) {
    last_error.shown = without_memory;
  }
}

metac_status status_of(metac_runtime::Status status) {
  switch (status) {
    case metac_runtime::Status::invalid_argument:
      return METAC_INVALID_ARGUMENT;
    case metac_runtime::Status::out_of_memory:
      return METAC_OUT_OF_MEMORY;
    case metac_runtime::Status::unsupported:
      return METAC_UNSUPPORTED;
    default:
      return METAC_MODEL;
  }
}

}  // namespace

metac_status failed() noexcept {
  try {
    throw;
  } catch (const CallError& error) {
    keep(error.what(), "an argument was refused, and there is no memory to say why");
    return error.status;
  } catch (const RunError& error) {
    keep(error.what(), "the run failed, and there is no memory to say why");
    return status_of(error.status);
  } catch (const train::Fault& error) {  // files and data of a training
    keep(error.what(), "a training failed, and there is no memory to say why");
    return METAC_MODEL;
  } catch (const CompileError& error) {
    keep(error.what(), "the model was refused, and there is no memory to say why");
    return METAC_MODEL;
  } catch (const std::bad_alloc&) {
    keep("out of memory", "out of memory");
    return METAC_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    keep(error.what(), "an internal error, and there is no memory to say which");
    return METAC_INTERNAL;
  } catch (...) {
    keep("an unknown exception", "an unknown exception");
    return METAC_INTERNAL;
  }
}

}  // namespace metac::library

const char* metac_last_error(void) { return metac::library::last_error.shown; }
const char* metac_version(void) { return METAC_VERSION; }

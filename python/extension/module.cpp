// metac._metac: the C interface of libmetac for the Python package metac, which gives it its words.
#include <pybind11/pybind11.h>

#include "metac/metac.h"
#include "python/extension/definitions.h"
#include "python/extension/failure.h"
#include "python/extension/operators.h"
#include "python/extension/process.h"
#include "python/extension/result_array.h"
#include "python/extension/session.h"
#include "python/extension/stream.h"
#include "python/extension/training.h"
#include "python/extension/var_type.h"

PYBIND11_MODULE(_metac, module) {
  using namespace metac_python;
  watch_forks();
  register_failures();
  module.def("version", &metac_version);
  define_result_array(module);
  define_stream(module);
  define_session(module);
  define_var(module);
  define_operators(module);
  define_traced_model(module);
  define_optimiser(module);
  define_training(module);
  define_definitions(module);
}

// A library that runs its own code alone. What --jit puts in this place is in specialised.h.
#pragma once
#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

class Specialised {
 public:
  template <class... Settings>
  void begin(const Settings&...) {}
  void stop(const char*) {}
  template <class... Call>
  bool run(const Call&...) {
    return false;
  }
  void answered() {}
  template <class Log>
  void tell(const Log&) const {}
  template <class... Weights>
  bool add_model(const Weights&...) const {
    return true;
  }
};

}  // namespace METAC_RUNTIME_NAMESPACE

#include "frontends/given_operators.h"

#include <mutex>

namespace metac {
namespace {

std::mutex mutex;

std::vector<ModelFunction>& all() {
  static std::vector<ModelFunction> functions;
  return functions;
}

}  // namespace

void give_operators(const std::vector<ModelFunction>& functions) {
  const std::lock_guard lock(mutex);
  for (const ModelFunction& function : functions) {
    std::erase_if(all(), [&](const ModelFunction& f) { return f.name == function.name && f.domain == function.domain; });
    all().push_back(function);
  }
}

std::vector<ModelFunction> given_operators() {
  const std::lock_guard lock(mutex);
  return all();
}

}  // namespace metac

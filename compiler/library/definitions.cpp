// metac_define() and metac_define_file(): operators for the models of this process.
#include <cstddef>

#include "compiler/library/options.h"
#include "compiler/library/status.h"
#include "compiler/ops/defined/operator_definition.h"
#include "frontends/cpp/cpp_operators.h"
#include "frontends/given_operators.h"

using namespace metac;
using namespace metac::library;

metac_status metac_define(const metac_definition* definition) {
  return answered([&] {
    if (!definition) refuse("definition is NULL");
    check_size("metac_definition", definition->size, sizeof(metac_definition));
    if (!definition->signature || !definition->body) refuse("definition: signature or body is NULL");
    constexpr int32_t most = 4096;
    if (definition->gradient_count < 0 || definition->gradient_count > most)
      refuse("definition: gradient_count is ", definition->gradient_count, "; it must be 0 to ", most);
    if (definition->gradient_count > 0 && (!definition->operands || !definition->gradients))
      refuse("definition: operands or gradients is NULL, and gradient_count is ", definition->gradient_count);
    OperatorDefinition defined{definition->signature, definition->body, {}, definition->is_stored == 0};
    for (int32_t k = 0; k < definition->gradient_count; ++k) {
      if (!definition->operands[k] || !definition->gradients[k]) refuse("definition: gradient ", k, " is NULL");
      if (!defined.gradient.emplace(definition->operands[k], definition->gradients[k]).second)
        refuse("definition: two gradients by ", quoted(std::string(definition->operands[k])));
    }
    give_operators({function_of_definition(defined)});
  });
}

metac_status metac_define_file(const char* path) {
  return answered([&] {
    if (!path) refuse("path is NULL");
    give_operators(read_cpp_operators(path));
  });
}

// metac_session_options, checked, as the compiler's own.
#pragma once
#include "compiler/session/session.h"
#include "metac/metac.h"

namespace metac::library {

// null: all defaults.
SessionOptions session_options(const metac_session_options* given);

// The states that the options name, of this model. null: none.
std::vector<StateNames> states_of(const metac_session_options* given, const Model& model);

// The model with the initialisers that the options give, whose elements are the caller's.
Model with_weights(Model model, const metac_session_options* given);

// The model with the operators of the C++ files that the options name.
Model with_operators(Model model, const metac_session_options* given);

// Refuses the size of a struct that callers give: one smaller than the struct was in the first version that had it
// (`first`), and what cannot be one.
void check_size(const char* name, size_t size, size_t first);

}  // namespace metac::library

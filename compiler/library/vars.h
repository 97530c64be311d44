// What stands behind a metac_var*: a handle to a value of the lazy graph.
#pragma once
#include "compiler/lazy/lazy_graph.h"
#include "compiler/library/status.h"
#include "metac/var.h"

struct metac_var {
  metac::lazy::Value* value;   // one handle of it
  int64_t version = 0;         // how often it was assigned
  metac::lazy::Site assigned;  // where the last time
  int64_t holders = 1;         // the caller, and optimisers
};

struct metac_operator : metac::lazy::Operation {};

struct metac_traced {
  metac::Model model;
};

namespace metac::library {

inline void need(const void* pointer, const char* name) {
  if (!pointer) refuse(name, " is NULL");
}

inline lazy::Site site_of(const metac_site* site) { return site ? lazy::Site{site->file, site->line} : lazy::Site(); }

// One thread at a time is in the graph.
inline std::lock_guard<std::mutex> in_graph() { return std::lock_guard(lazy::LazyGraph::of_process().mutex); }

// The Var becomes its next version, of the same type; the caller is in the graph, as below.
void assign_value(metac_var* var, lazy::Value* value, lazy::Site site);
void release_var(metac_var* var);
bool no_gradients();  // of this thread: metac_no_grad()

// The tensor, checked, with memory that a value can have: aligned, its own.
Tensor checked_copy(const metac_tensor* given, const char* what);

}  // namespace metac::library

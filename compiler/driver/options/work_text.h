// Operations and bytes that depend on open dims, for people and as JSON.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compiler/program/program_work.h"

namespace metac {

// By `unit` where it is a number; "231.2 MFLOP x batch", "3.0 KiB + 1.5 KiB x batch" where it is a short sum over dims; "-"
// where it is not known, "by the dims" where it is too long.
std::string work_text(Expr amount, const CompiledProgram& program, const std::function<std::string(double)>& unit);
// A number, an expression over the names of dims, or null: not known.
nlohmann::ordered_json work_json(Expr amount, const CompiledProgram& program);

std::string show_operations(double operations);  // "4.1 GFLOP"
// "6.9 MiB", or that a run decides it.
// Of an arena that a run plans: "4.20 MiB for n = 1 (depends on n, h)".
std::string open_memory_text(int64_t typical_bytes, const std::string& assumed, const std::string& depends_on);
std::string arena_text(const CompiledProgram& program, const std::string& assumed);
std::string scratch_text(const CompiledProgram& program);  // of a worker

}  // namespace metac

// The functions of <cmath> and <algorithm> that operators may call: what Clang is told of them, and what they are.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// Headers by name ("cmath"), with declarations alone.
const std::vector<std::pair<std::string, std::string>>& mathematics_headers();

// The function of those headers for arguments of one dtype; empty where there is none of that name.
Expr call_mathematics(std::string_view name, const std::vector<Expr>& arguments);

}  // namespace metac

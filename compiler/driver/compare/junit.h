// Results of cases as JUnit's XML, which CI systems show.
#pragma once
#include <string>
#include <vector>

#include "compiler/api/verify/verify.h"

namespace metac {

std::string junit_text(const std::vector<CaseResult>& results);

}  // namespace metac

// The files that generated projects are made of, as they stood when metac was built, by their path in the repository:
// "templates/project/library/api.cpp", "runtime/executor/executor.h".
#pragma once
#include <map>
#include <string>

namespace metac {

const std::map<std::string, std::string>& embedded_files();

}  // namespace metac

// Numbers and shapes on the command line. All throw UsageError naming the option and what was given.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

int64_t parse_bytes(const std::string& option, const std::string& text);  // 4096, 512K, 4G (powers of 1024)
std::string show_bytes(int64_t bytes);                                    // "98 B", "1.5 MiB"
std::string show_seconds(double seconds);                                 // "812 us", "4.21 ms", "1.3 s"
std::string show_decibels(double decibels);                               // "47.6 dB", "exact" where infinite
double parse_age(const std::string& option, const std::string& text);     // seconds of 90s, 45m, 12h, 30d
std::string show_age(double seconds);                                     // "now", "45 s", "12 h", "30 d"

// name=1x3x224x224; "?" leaves a dim open (-1). A name may contain '=': the last one counts. "name=" is a scalar.
std::map<std::string, std::vector<int64_t>> parse_shapes(const std::vector<std::string>& texts);
// name=8, name=1..64, name=1..64@8, name=1.. ; name=1,8,32 goes to `lists`, or is refused where that is null.
using DimLists = std::map<std::string, std::vector<int64_t>>;
std::map<std::string, Symbol> parse_dims(const std::vector<std::string>& texts, DimLists* lists = nullptr);

}  // namespace metac

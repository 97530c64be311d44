// A model's message without the elements of its large initialisers: those are read from the file to where they stay, and
// never pass through the parser, which would copy them.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "compiler/support/file_system.h"

namespace metac {

struct LeanMessage {
  std::string bytes;                  // a Model whose large initialisers have an empty raw_data
  std::map<int, FileBytes> left_out;  // their elements, by position among the graph's initialisers
};

// Empty where the file is no message of this kind, or one that only protobuf's parser can judge. Throws what reading throws.
std::optional<LeanMessage> read_lean_message(const RegularFile& file);

}  // namespace metac

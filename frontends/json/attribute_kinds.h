// The names of attribute kinds in JSON documents: ONNX's own words.
#pragma once
#include <optional>
#include <string_view>

#include "compiler/ops/model.h"

namespace metac {

std::string_view name_of_kind(Attribute::Kind kind);
std::optional<Attribute::Kind> kind_named(std::string_view name);

}  // namespace metac

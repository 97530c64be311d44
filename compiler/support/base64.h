// Base64 (RFC 4648, with padding), for tensors inside JSON documents.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace metac {

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);  // nothing if the text is no base64

}  // namespace metac

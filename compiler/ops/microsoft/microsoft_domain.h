// Where the operators of this folder are from.
#pragma once

namespace metac {

constexpr const char* microsoft_domain = "com.microsoft";

}  // namespace metac

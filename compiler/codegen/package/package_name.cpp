#include "compiler/codegen/package/package_name.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include "compiler/support/diagnostic.h"

namespace metac {

void check_package_version(const std::string& version) {
  // PEP 440's canonical spelling alone: others (v1.0, 1.0-rc1, 01) are names of the same version that pip would change.
  const std::string number = "(0|[1-9][0-9]*)", local = "[a-z0-9]+";
  static const std::regex canonical(number + "([.]" + number + ")*((a|b|rc)" + number + ")?([.]post" + number + ")?([.]dev" +
                                    number + ")?([+]" + local + "([.]" + local + ")*)?");
  if (version.size() > 64 || !std::regex_match(version, canonical))
    fail(quoted(version), " is no version: expected numbers with points between them, as in 1.2.0, behind which may be a1, ",
         "b1 or rc1, .post1, .dev1 and +local");
}

std::string debian_version(const std::string& version) {
  const size_t local = std::min(version.find('+'), version.size());
  const std::string marked = std::regex_replace(version.substr(0, local), std::regex("(a|b|rc)([0-9])"), "~$1$2");
  return std::regex_replace(marked, std::regex("[.]dev"), "~~dev") + version.substr(local);
}

std::string distribution_name(const std::string& project) {
  std::string name;
  for (const char c : project) name += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  while (name.back() == '-') name.pop_back();
  return name;
}

std::string wheel_name(const std::string& project) {
  std::string name = distribution_name(project);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string package_summary(const std::string& project) {
  return project + ": a neural network as a library, compiled by metac " METAC_VERSION;
}

void check_debian_name(const std::string& project) {
  if (const std::string name = distribution_name(project); name.size() < 2)
    fail("--deb: Debian has no packages of one letter, as ", quoted(name), " would be; choose another name (--name)");
}

}  // namespace metac

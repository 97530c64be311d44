#include "compiler/codegen/package/wheel.h"

#include <algorithm>
#include <vector>

#include "compiler/codegen/package/package_file.h"
#include "compiler/codegen/package/package_name.h"
#include "compiler/codegen/package/system_needs.h"
#include "compiler/codegen/package/zip_file.h"
#include "compiler/support/base64.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"

namespace metac {
namespace {

// The oldest system that has what the library needs (PEP 600). All else than glibc may be lacking there.
std::string tag_of(const std::string& library) {
  const SystemNeeds needs = system_needs(library);
  for (const std::string& needed : needs.libraries)
    if (!is_of_glibc(needed)) fail("--wheel: the library needs ", needed, ", which not every Linux has");
  const SymbolVersion glibc = glibc_of(needs);
  return concat("py3-none-manylinux_", glibc.first, "_", glibc.second, "_x86_64");
}

// As RECORD has it: URL-safe Base64 without padding.
std::string record_hash(const PackageFile& file) {
  Sha256 hash;
  for_each_piece(file, [&](std::string_view piece) { hash.update(piece); });
  const std::string hex = hash.hex();
  std::string bytes;
  for (size_t k = 0; k < hex.size(); k += 2) bytes += static_cast<char>(std::stoi(hex.substr(k, 2), nullptr, 16));
  std::string text = to_base64(bytes);
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return "sha256=" + text.substr(0, text.find('='));
}

}  // namespace

std::string write_wheel(const Project& project, const std::string& folder, const std::string& version,
                        const std::string& into) {
  const std::string& name = project.name;
  const std::string library = concat(folder, "/lib/lib", name, ".so.1"), tag = tag_of(library);
  const std::string stem = wheel_name(name) + "-" + version, info = stem + ".dist-info/";
  std::vector<PackageFile> files = {
      {.path = name + "/__init__.py", .from = concat(folder, "/python/", name, "/__init__.py")},
      // Under the name that the module looks for: wheels have no links.
      {.path = concat(name, "/lib", name, ".so"), .from = library, .executable = true},
  };
  if (!project.embed_weights)
    files.push_back({.path = concat(name, "/", name, ".weights"), .from = concat(folder, "/", name, ".weights")});
  files.push_back(
      {.path = info + "METADATA",
       .text = concat("Metadata-Version: 2.1\nName: ", distribution_name(name), "\nVersion: ", version,
                      "\nSummary: ", package_summary(name), "\nRequires-Python: >=3.8\nRequires-Dist: numpy\n")});
  files.push_back(
      {.path = info + "WHEEL",
       .text = concat("Wheel-Version: 1.0\nGenerator: metac " METAC_VERSION "\nRoot-Is-Purelib: false\nTag: ", tag, "\n")});
  std::string record;
  for (const PackageFile& file : files) record += concat(file.path, ",", record_hash(file), ",", bytes_of(file), "\n");
  files.push_back({.path = info + "RECORD", .text = concat(record, info, "RECORD,,\n")});

  const std::string file_name = concat(stem, "-", tag, ".whl");
  ZipFile wheel(concat(into, "/", file_name));
  for (const PackageFile& file : files) wheel.add(file);
  wheel.close();
  return file_name;
}

}  // namespace metac

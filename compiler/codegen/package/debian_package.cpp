#include "compiler/codegen/package/debian_package.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "compiler/codegen/package/package_file.h"
#include "compiler/codegen/package/package_name.h"
#include "compiler/codegen/package/system_needs.h"
#include "compiler/codegen/package/tar_file.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/md5.h"

namespace metac {
namespace {

constexpr int64_t most_member_bytes = 9'999'999'999;  // ten decimal digits of ar

// The programs that were built.
std::vector<std::string> programs_of(const Project& project, const std::string& folder) {
  std::vector<std::string> programs;
  for (const ProjectProgram& program : project.programs)
    if (std::string path = "bin/" + project.name + "_" + program.name; std::filesystem::exists(folder + "/" + path))
      programs.push_back(std::move(path));
  return programs;
}

std::vector<PackageFile> files_of(const Project& project, const std::string& folder) {
  const std::string& name = project.name;
  const std::string library = concat("lib", name, ".so");
  std::vector<PackageFile> files;
  auto copy = [&](const std::string& path, const std::string& from, bool executable = false) {
    files.push_back({.path = "usr/" + path, .from = folder + "/" + from, .executable = executable});
  };
  for (const std::string& program : programs_of(project, folder)) copy(program, program, true);
  // In a folder of its own: every model's package has a metac_model.h.
  for (const std::string& header : {name + ".h", name + ".hpp", std::string("metac_model.h")})
    copy(concat("include/", name, "/", header), "include/" + header);
  copy(concat("lib/", library, ".1"), concat("lib/", library, ".1"));
  files.push_back({.path = "usr/lib/" + library, .link = library + ".1"});
  copy(concat("lib/lib", name, ".a"), concat("lib/lib", name, ".a"));
  for (const auto& [path, text] : project.files) {
    const auto shared = project.shared_prefix.find(path);
    if (path.starts_with("lib/"))
      files.push_back({.path = "usr/" + path, .text = shared == project.shared_prefix.end() ? text : shared->second});
  }
  const std::string module = concat(name, "/__init__.py");
  copy("lib/python3/dist-packages/" + module, "python/" + module);
  copy(concat("share/", name, "/", name, ".json"), name + ".json");
  if (!project.embed_weights) copy(concat("share/", name, "/", name, ".weights"), name + ".weights");
  std::sort(files.begin(), files.end(), [](const PackageFile& a, const PackageFile& b) { return a.path < b.path; });
  return files;
}

std::string depends_of(const Project& project, const std::string& folder) {
  SystemNeeds needs = system_needs(concat(folder, "/lib/lib", project.name, ".so.1"));
  for (const std::string& program : programs_of(project, folder)) needs.add(system_needs(folder + "/" + program));
  return debian_depends(needs);
}

// What dpkg is told about the package (deb-control(5)) and does with it.
std::vector<PackageFile> control_of(const Project& project, const std::string& folder, const std::string& version,
                                    const std::vector<PackageFile>& files) {
  const std::string package = distribution_name(project.name);
  std::string sums;
  int64_t kibibytes = 0;
  for (const PackageFile& file : files) {
    kibibytes += std::max<int64_t>(1, (bytes_of(file) + 1023) / 1024);
    if (!file.link.empty()) continue;
    Md5 sum;
    for_each_piece(file, [&](std::string_view piece) { sum.update(piece); });
    sums += concat(sum.hex(), "  ", file.path, "\n");
  }
  const std::string control =
      concat("Package: ", package, "\nVersion: ", version, "\nArchitecture: amd64\nMaintainer: the makers of ", package,
             " <", package, "@localhost>\nInstalled-Size: ", kibibytes, "\nDepends: ", depends_of(project, folder),
             "\nSuggests: python3-numpy\nSection: libs\nPriority: optional\nDescription: ", package_summary(project.name),
             "\n The library, shared and static, with its weights, its headers for C and C++, what CMake and\n",
             " pkg-config find, its module for Python and its programs.\n");
  return {{.path = "control", .text = control},
          {.path = "md5sums", .text = sums},
          {.path = "shlibs", .text = concat("lib", project.name, " 1 ", package, " (>= ", version, ")\n")},
          {.path = "triggers", .text = "activate-noawait ldconfig\n"}};
}

std::string padded(std::string text, size_t size) {
  METAC_ASSERT(text.size() <= size, "a field of an ar archive holds ", size, " characters: ", text);
  return text.append(size - text.size(), ' ');
}

// Of a member of an ar archive: name, date, owner, group, mode, size.
std::string member_header(const std::string& name, int64_t bytes) {
  return padded(name, 16) + padded(std::to_string(package_date), 12) + padded("0", 6) + padded("0", 6) +
         padded("100644", 8) + padded(std::to_string(bytes), 10) + "`\n";
}

// The size stands before the content and is known after it.
void add_member(OutputFile& deb, const std::string& name, const std::function<void()>& write) {
  const int64_t at = deb.size();
  deb.write(member_header(name, 0));
  const int64_t begin = deb.size();
  write();
  const int64_t bytes = deb.size() - begin;
  if (bytes > most_member_bytes)
    fail("--deb: the package would have ", bytes, " bytes, compressed; ", most_member_bytes, " are the most");
  deb.write_at(at, member_header(name, bytes));
  if (bytes % 2 != 0) deb.write("\n");
}

void add_archive(OutputFile& deb, const std::string& name, const std::vector<PackageFile>& files) {
  add_member(deb, name, [&] {
    TarFile archive(deb);
    for (const PackageFile& file : files) archive.add(file);
    archive.close();
  });
}

}  // namespace

std::string write_debian_package(const Project& project, const std::string& folder, const std::string& version,
                                 const std::string& into) {
  const std::string of_debian = debian_version(version);
  const std::vector<PackageFile> files = files_of(project, folder), control = control_of(project, folder, of_debian, files);
  const std::string file_name = concat(distribution_name(project.name), "_", of_debian, "_amd64.deb");
  OutputFile deb(concat(into, "/", file_name));
  deb.write("!<arch>\n");
  add_member(deb, "debian-binary", [&] { deb.write("2.0\n"); });
  add_archive(deb, "control.tar.gz", control);
  add_archive(deb, "data.tar.gz", files);
  deb.close();
  return file_name;
}

}  // namespace metac

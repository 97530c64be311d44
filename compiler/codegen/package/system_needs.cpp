#include "compiler/codegen/package/system_needs.h"

#include <elf.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

// What the file has is believed no further than it reaches: a struct that leaves its section is refused.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : path_(path), file_(path) {
    const auto header = at<Elf64_Ehdr>(file_.read(0, std::min(file_.size(), sizeof(Elf64_Ehdr))).view(), 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != EM_X86_64)
      fail(path_, " is no ELF file of x86-64");
    const FileBytes table = file_.read(header.e_shoff, size_t{header.e_shnum} * sizeof(Elf64_Shdr));
    for (size_t k = 0; k < header.e_shnum; ++k) sections_.push_back(at<Elf64_Shdr>(table.view(), k * sizeof(Elf64_Shdr)));
  }

  SystemNeeds needs() const {
    SystemNeeds needs;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_DYNAMIC) read_libraries(section, needs);
      if (section.sh_type == SHT_GNU_verneed) read_versions(section, needs);
    }
    return needs;
  }

 private:
  template <class T>
  T at(std::string_view bytes, size_t offset) const {
    T value;
    if (offset > bytes.size() || bytes.size() - offset < sizeof value) fail(path_, " is cut or damaged");
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }

  FileBytes content(const Elf64_Shdr& section) const { return file_.read(section.sh_offset, section.sh_size); }

  // The strings that belong to a section.
  FileBytes strings(const Elf64_Shdr& section) const {
    if (section.sh_link >= sections_.size()) fail(path_, " is damaged");
    return content(sections_[section.sh_link]);
  }

  std::string string(std::string_view strings, size_t offset) const {
    const size_t end = offset < strings.size() ? strings.find('\0', offset) : std::string_view::npos;
    if (end == std::string_view::npos) fail(path_, " is damaged");
    return std::string(strings.substr(offset, end - offset));
  }

  void read_libraries(const Elf64_Shdr& section, SystemNeeds& needs) const {
    const FileBytes entries = content(section), names = strings(section);
    for (size_t k = 0; k + sizeof(Elf64_Dyn) <= entries.size; k += sizeof(Elf64_Dyn)) {
      const auto entry = at<Elf64_Dyn>(entries.view(), k);
      if (entry.d_tag == DT_NEEDED) needs.libraries.insert(string(names.view(), entry.d_un.d_val));
    }
  }

  void read_versions(const Elf64_Shdr& section, SystemNeeds& needs) const {
    const FileBytes entries = content(section), names = strings(section);
    size_t offset = 0;
    for (unsigned k = 0; k < section.sh_info; ++k) {
      const auto library = at<Elf64_Verneed>(entries.view(), offset);
      size_t of_version = offset + library.vn_aux;
      for (unsigned v = 0; v < library.vn_cnt; ++v) {
        const auto version = at<Elf64_Vernaux>(entries.view(), of_version);
        needs.of[string(names.view(), library.vn_file)].insert(string(names.view(), version.vna_name));
        of_version += version.vna_next;
      }
      offset += library.vn_next;
    }
  }

  std::string path_;
  RegularFile file_;
  std::vector<Elf64_Shdr> sections_;
};

// {2, 34} of "2.34"; what follows (2.2.5) is left away. {0, 0}: no such numbers.
SymbolVersion numbers(std::string_view text) {
  SymbolVersion version = {0, 0};
  const char* const end = text.data() + text.size();
  auto [next, error] = std::from_chars(text.data(), end, version.first);
  if (error != std::errc() || next == end || *next != '.') return {0, 0};
  return std::from_chars(next + 1, end, version.second).ec == std::errc() ? version : SymbolVersion(0, 0);
}

// The versions of symbols that a release of GCC's C++ library was the first to have.
struct CppRelease {
  int glibcxx, cxxabi;  // GLIBCXX_3.4.N, CXXABI_1.3.N
  const char* gcc;
};
constexpr CppRelease cpp_releases[] = {{20, 8, "4.9"}, {21, 9, "5"},     {22, 10, "6"},  {24, 11, "7.2"},
                                       {25, 11, "8"},  {26, 12, "9"},    {28, 12, "10"}, {29, 13, "11"},
                                       {30, 13, "12"}, {32, 14, "13.2"}, {33, 15, "14"}, {34, 16, "15"}};

const char* gcc_of(const std::set<std::string>& versions) {
  const CppRelease* release = cpp_releases;
  for (const std::string& version : versions) {
    const bool plain = version.starts_with("GLIBCXX_3.4"), abi = version.starts_with("CXXABI_1.3");
    if (!plain && !abi) continue;
    const int number = version.size() > 11 ? numbers("0" + version.substr(abi ? 10 : 11)).second : 0;
    while ((plain ? release->glibcxx : release->cxxabi) < number)
      if (++release == std::end(cpp_releases)) fail("the program needs ", version, ", which is newer than this metac knows");
  }
  return release->gcc;
}

}  // namespace

void SystemNeeds::add(const SystemNeeds& more) {
  libraries.insert(more.libraries.begin(), more.libraries.end());
  for (const auto& [library, versions] : more.of) of[library].insert(versions.begin(), versions.end());
}

SystemNeeds system_needs(const std::string& path) { return ElfFile(path).needs(); }

bool is_of_glibc(const std::string& library) {
  for (const char* known : {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"})
    if (library == known) return true;
  return false;
}

SymbolVersion glibc_of(const SystemNeeds& needs) {
  SymbolVersion newest = {2, 5};  // the oldest of any wheel for Linux
  for (const auto& [library, versions] : needs.of) {
    if (!is_of_glibc(library)) continue;
    for (const std::string& version : versions) {
      SymbolVersion found = version == "GLIBC_ABI_DT_RELR" ? SymbolVersion(2, 36) : SymbolVersion(0, 0);
      if (version.starts_with("GLIBC_2")) found = numbers(std::string_view(version).substr(6));
      if (found.first == 0) fail("it needs ", version, " of ", library, ", and which glibc has that is not known");
      newest = std::max(newest, found);
    }
  }
  return newest;
}

std::string debian_depends(const SystemNeeds& needs) {
  const SymbolVersion glibc = glibc_of(needs);
  std::string depends = concat("libc6 (>= ", glibc.first, ".", glibc.second, ")");
  for (const std::string& library : needs.libraries) {
    const auto versions = needs.of.find(library);
    if (is_of_glibc(library)) continue;
    if (library == "libstdc++.so.6")
      depends += concat(", libstdc++6 (>= ", versions == needs.of.end() ? "4.9" : gcc_of(versions->second), ")");
    else if (library == "libgcc_s.so.1")
      depends += ", libgcc-s1";
    else
      fail("it needs ", library, ", and which package of Debian has that is not known");
  }
  return depends;
}

}  // namespace metac

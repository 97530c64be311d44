#include "compiler/support/build_id.h"

#include <link.h>

#include <cstdint>
#include <cstring>

namespace metac {
namespace {

constexpr char digits[] = "0123456789abcdef";

// The GNU build ID among the notes [at, end): each is its name's length, its content's, a type, and both, padded to 4 bytes.
std::string id_among_notes(const char* at, const char* end) {
  const auto padded = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (static_cast<size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const char* const name = at + sizeof note;
    if (static_cast<size_t>(end - name) < padded(note.n_namesz) + padded(note.n_descsz)) break;
    const char* const content = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string id;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        const auto byte = static_cast<unsigned char>(content[i]);
        id += digits[byte >> 4];
        id += digits[byte & 15];
      }
      return id;
    }
    at = content + padded(note.n_descsz);
  }
  return "";
}

struct Search {
  uintptr_t address;
  std::string id;
};

// Of the object that the address lies in; 1 ends the walk.
int look_at(dl_phdr_info* object, size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  bool is_here = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    is_here |= segment.p_type == PT_LOAD && search.address - begin < segment.p_memsz;
  }
  if (!is_here) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.id.empty(); ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* const notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    search.id = id_among_notes(notes, notes + segment.p_memsz);
  }
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string id = [] {
    Search search{reinterpret_cast<uintptr_t>(&build_id), {}};
    dl_iterate_phdr(look_at, &search);
    return search.id;
  }();
  return id;
}

}  // namespace metac

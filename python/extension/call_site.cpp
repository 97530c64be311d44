#include "python/extension/call_site.h"

#include <array>
#include <string>
#include <unordered_set>

namespace metac_python {
namespace {

std::string package_folder;

// Files' names, which metac_site points to: they stay.
const char* kept(const std::string& file) {
  static std::unordered_set<std::string>& files = *new std::unordered_set<std::string>();
  return files.insert(file).first->c_str();
}

// A place in code, found again by the address of its code object, which is held so that no other one gets it.
struct Known {
  PyCodeObject* code = nullptr;
  int instruction = -1;
  bool of_package = false;
  metac_site site{};
};

int instruction_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030b0000
  return PyFrame_GetLasti(frame);
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

const Known& known_place(PyFrameObject* frame) {
  static std::array<Known, 4096> places;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  const int instruction = instruction_of(frame);
  Known& place = places[(reinterpret_cast<uintptr_t>(code) / 16 + static_cast<unsigned>(instruction) * 31u) % places.size()];
  if (place.code == code && place.instruction == instruction) {
    Py_DECREF(code);
    return place;
  }
  Py_XDECREF(place.code);
  place = {code, instruction, false, {}};
  PyObject* const name = PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_filename");
  const char* const file = name ? PyUnicode_AsUTF8(name) : nullptr;
  if (file) {
    place.of_package = !package_folder.empty() && std::string_view(file).substr(0, package_folder.size()) == package_folder;
    place.site = {kept(file), PyFrame_GetLineNumber(frame)};
  } else {
    PyErr_Clear();
  }
  Py_XDECREF(name);
  return place;
}

}  // namespace

void set_package_folder(const char* folder) { package_folder = folder; }

metac_site call_site() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  metac_site site{};
  while (frame) {
    const Known& place = known_place(frame);
    const bool found = !place.of_package;
    if (found) site = place.site;
    PyFrameObject* const outer = found ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return site;
}

}  // namespace metac_python

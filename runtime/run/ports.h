// What the program of a library says of inputs and outputs.
#pragma once
#include <cctype>
#include <cstdio>
#include <string>

#include "../caller/shown_text.h"
#include "../files/tensor_files.h"
#include "library.h"

namespace METAC_RUNTIME_NAMESPACE {

inline Library library;  // whose program it is; set before anything else

inline int fault(const std::string& message, int status = 1) {
  std::fprintf(stderr, "%s_run: %s\n", library->name, message.c_str());
  return status;
}

// A file name for an output: its own name where that is plain, else its number.
inline std::string output_file(const char* name, int index) {
  const std::string text = name;
  bool plain = !text.empty() && text.size() <= 80 && text[0] != '.';
  for (const char c : text)
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.');
  return (plain ? text : "output_" + std::to_string(index)) + ".npy";
}

inline std::string dims_text(const int64_t* dims, int32_t rank) {
  std::string text;
  for (int32_t d = 0; d < rank; ++d) text += (d > 0 ? "x" : "") + (dims[d] < 0 ? std::string("?") : std::to_string(dims[d]));
  return rank == 0 ? "scalar" : text;
}

// As the model declares it, open dims by their names.
inline std::string dims_text(const LibraryPort* port) {
  std::string text;
  for (int32_t d = 0; d < port->rank; ++d) text += (d > 0 ? "x" : "") + shown(port->dim_names[d]);
  return port->rank == 0 ? "scalar" : text;
}

// Dims for --shape: the open ones are 1.
inline std::string example_of(const LibraryPort* port) {
  std::string text;
  for (int32_t d = 0; d < port->rank; ++d)
    text += (d > 0 ? "x" : "") + std::to_string(port->dims[d] < 0 ? 1 : port->dims[d]);
  return text;
}

inline ScalarType type_of(const LibraryPort* port) { return static_cast<ScalarType>(port->dtype); }

}  // namespace METAC_RUNTIME_NAMESPACE

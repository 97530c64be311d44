// NumPy's .npz files: zip archives of .npy arrays, stored or deflated. Source: PKWARE's APPNOTE 6.3 and numpy.savez.
// zlib inflates; the archive around it is read here, as files are not trusted and few of the format's ways are needed.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "compiler/ir/tensor.h"

namespace metac {

// The arrays by the names they were saved under. `path` serves messages. Throws CompileError.
std::map<std::string, Tensor> read_npz(std::string_view bytes, const std::string& path);

// The same arrays as a file, stored one after the other; the same arrays give the same bytes. Throws CompileError where one
// takes 4 GiB or more.
std::string npz_bytes(const std::map<std::string, Tensor>& arrays);

}  // namespace metac

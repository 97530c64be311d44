#include "frontends/json/npy.h"

#include <charconv>
#include <cstring>

#include "compiler/support/checked.h"

namespace metac {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

// The header is a Python dictionary of three known keys; exactly that is read, nothing is evaluated.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {
    expect('{');
    while (!take('}')) {
      std::string key = quoted_word();
      expect(':');
      if (key == "descr")
        descr = quoted_word();
      else if (key == "fortran_order")
        fortran = truth();
      else if (key == "shape")
        shape_of_tuple();
      else
        fail("npy header: unknown key ", quoted(key));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (descr.empty() || !has_shape_) fail("npy header: descr or shape is missing");
  }

  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail("npy header: expected '", c, "' at position ", at_);
  }
  std::string quoted_word() {
    expect('\'');
    size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail("npy header: a string does not end");
    std::string word(text_.substr(at_, end - at_));
    at_ = end + 1;
    return word;
  }
  bool truth() {
    skip_blanks();
    for (std::string_view word : {"True", "False"})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    fail("npy header: fortran_order is neither True nor False");
  }
  void shape_of_tuple() {
    has_shape_ = true;
    expect('(');
    while (!take(')')) {
      skip_blanks();
      int64_t dim = 0;
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) fail("npy header: a dim is no number at position ", at_);
      at_ = static_cast<size_t>(end - text_.data());
      shape.push_back(dim);
      if (shape.size() > 32) fail("npy header: rank above 32");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool has_shape_ = false;
};

// Element (i0, i1, ...) of a Fortran-order array stands where the reversed shape has (..., i1, i0).
Tensor from_fortran_order(const Tensor& stored) {
  std::byte* data = nullptr;
  Tensor out = make_tensor(stored.dtype, stored.shape, &data);
  size_t width = size_of(stored.dtype);
  std::vector<int64_t> index(stored.shape.size(), 0);
  for (int64_t n = 0; n < out.element_count(); ++n) {
    int64_t from = 0;
    for (size_t k = index.size(); k-- > 0;) from = from * stored.shape[k] + index[k];
    std::memcpy(data + n * width, stored.bytes.get() + from * width, width);
    for (size_t k = index.size(); k-- > 0 && ++index[k] == stored.shape[k];) index[k] = 0;
  }
  return out;
}

}  // namespace

Tensor tensor_of_npy(const FileBytes& bytes) {
  std::string_view view = bytes.view();
  if (!view.starts_with(magic) || view.size() < 10) fail("not a .npy file");
  int version = view[6];
  if (version < 1 || version > 3) fail("npy format version ", version, " is not known");
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(view[i])); };
  size_t lead = version == 1 ? 10 : 12;
  if (view.size() < lead) fail("the npy header is cut off");
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > view.size() - lead) fail("the npy header says ", length, " bytes but only ", view.size() - lead, " follow");
  Header header(view.substr(lead, length));
  Tensor tensor;
  std::optional<DType> dtype;
  for (const DTypeInfo& row : dtypes())  // bfloat16, whose code is that of its bits, stands before uint16
    if (header.descr == row.npy_code && is_numeric(row.dtype)) dtype = row.dtype;
  if (!dtype) fail("npy descr ", quoted(header.descr), " is not supported");
  tensor.dtype = *dtype;
  tensor.shape = header.shape;
  int64_t needed = static_cast<int64_t>(size_of(tensor.dtype));
  for (int64_t dim : header.shape) {
    std::optional<int64_t> product = checked_mul(needed, std::max<int64_t>(dim, 1));
    if (!product) fail("npy dims overflow: ", to_string(header.shape));
    needed = *product;
  }
  size_t found = view.size() - lead - length;
  if (tensor.byte_count() != found)
    fail("npy dims ", to_string(header.shape), " of ", name_of(tensor.dtype), " need ", tensor.byte_count(),
         " bytes, found ", found);
  const std::byte* data = bytes.data.get() + lead + length;
  bool aligned = reinterpret_cast<uintptr_t>(data) % size_of(tensor.dtype) == 0;
  if (aligned && tensor.dtype != DType::boolean) {
    tensor.bytes = std::shared_ptr<const std::byte>(bytes.data, data);
  } else {
    std::byte* copy = nullptr;
    Tensor own = make_tensor(tensor.dtype, tensor.shape, &copy);
    for (size_t i = 0; i < found; ++i)
      copy[i] = tensor.dtype == DType::boolean ? std::byte{data[i] != std::byte{0}} : data[i];
    tensor = std::move(own);
  }
  return header.fortran && tensor.shape.size() > 1 ? from_fortran_order(tensor) : tensor;
}

Tensor read_npy(const std::string& path) {
  try {
    return tensor_of_npy(read_file(path));
  } catch (CompileError& error) {
    Diagnostic d = error.diagnostic;
    if (d.file.empty()) d.file = path;
    throw CompileError(std::move(d));
  }
}

std::string to_npy_bytes(const Tensor& tensor) {
  if (tensor.dtype == DType::string) fail("strings cannot be written to a .npy file");
  std::string header = "{'descr': '" + std::string(info(tensor.dtype).npy_code) + "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : tensor.shape) header += std::to_string(dim) + (tensor.shape.size() == 1 ? "," : ", ");
  if (tensor.shape.size() > 1) header.resize(header.size() - 2);
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // the data starts at a multiple of 64
  header += '\n';
  std::string out(magic);
  out += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  out += header;
  out.append(reinterpret_cast<const char*>(tensor.bytes.get()), tensor.byte_count());
  return out;
}

}  // namespace metac

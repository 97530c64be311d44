#include "compiler/codegen/package/compressor.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "compiler/support/diagnostic.h"

namespace metac {

struct Compressor::Stream {
  z_stream z = {};
  std::vector<unsigned char> out = std::vector<unsigned char>(1 << 16);
};

Compressor::Compressor(Form form, std::function<void(std::string_view)> sink)
    : stream_(std::make_unique<Stream>()), sink_(std::move(sink)) {
  // zlib's header of a .gz has neither a name nor a date.
  const int window = form == Form::gzip ? MAX_WBITS + 16 : -MAX_WBITS;
  if (deflateInit2(&stream_->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    fail("zlib cannot begin: out of memory");
}

Compressor::~Compressor() { deflateEnd(&stream_->z); }

void Compressor::deflate(int flush) {
  z_stream& z = stream_->z;
  do {
    z.next_out = stream_->out.data();
    z.avail_out = static_cast<uInt>(stream_->out.size());
    METAC_ASSERT(::deflate(&z, flush) != Z_STREAM_ERROR, "zlib's state is broken");
    sink_({reinterpret_cast<const char*>(stream_->out.data()), stream_->out.size() - z.avail_out});
  } while (z.avail_out == 0);
}

void Compressor::write(std::string_view bytes) {
  constexpr size_t most = 1 << 30;  // zlib counts in 32 bits
  for (; !bytes.empty(); bytes.remove_prefix(std::min(most, bytes.size()))) {
    stream_->z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_->z.avail_in = static_cast<uInt>(std::min(most, bytes.size()));
    deflate(Z_NO_FLUSH);
  }
}

void Compressor::finish() { deflate(Z_FINISH); }

}  // namespace metac

#include "runtime/generate/tokenizer/encode.h"
#include "runtime/generate/tokenizer/text_stream.h"
extern "C" __attribute__((visibility("hidden"))) const char @name@_tokenizer_table[];  // tokenizer.cpp

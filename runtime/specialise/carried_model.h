// The model that a library made with --jit carries in its file's block: the graph as an ONNX file whose initialisers are
// empty, and where their elements are.
#pragma once
#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

// An initialiser of the model. Where it is a parameter of the library, net_write_weights puts the new values here.
struct CarriedWeight {
  const char* name;
  int32_t dtype, rank;
  const int64_t* dims;
  int32_t parameter;  // of the library; -1: none
  int64_t offset, bytes;
};

// What was declared of an open dim when the library was made.
struct CarriedDim {
  const char* name;
  int64_t min, max, divisor;
};

// A weight that the programs of variant `variant` read as it is prepared, in the block that they read.
struct CarriedBlock {
  int32_t variant;
  int64_t offset, bytes;
};

struct CarriedModel {
  const char* version;  // of the metac that made the library
  const CarriedWeight* weights;
  const CarriedDim* dims;
  const CarriedBlock* blocks;
  int32_t weight_count, dim_count, block_count;
  int64_t graph, graph_bytes;  // where the graph is in the file's block
  int64_t from, bytes;         // the end of that block, which no program of the library reads
};

extern const CarriedModel carried_model;

}  // namespace METAC_RUNTIME_NAMESPACE

// Tables that Gather takes rows of, embeddings above all, in 8 or 4 bits.
#pragma once
#include "compiler/quantize/quantization_plan.h"

namespace metac {

struct RowTables {
  int count = 0;
  // Rows that are taken: the value's name. Their errors are measured with those of other values.
  std::vector<std::string> values;
};

// Tables of float32 numbers that are large enough to matter, unless --keep names who reads them. 8 bits: int8 with a scale
// for each row, in operators of ONNX. 4 bits: GatherBlockQuantized of domain com.microsoft, where blocks divide the rows.
RowTables write_row_tables(Model& model, const NodePatterns& keep, int bits, int64_t block);

}  // namespace metac

// A model for tests: y = x * w + z, float32, of n rows; w has 4 columns, z one.
#pragma once
constexpr char small_model[] = R"({
  "metac_ir": 1, "opset": 17, "ir_version": 8,
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 4]}, {"name": "z", "dtype": "float32", "shape": ["n", 1]}],
  "parameters": [{"name": "w", "dtype": "float32", "shape": [4], "data": [1, 1, 1, 1]}],
  "nodes": [{"op": "Mul", "inputs": ["x", "w"], "outputs": ["xw"]}, {"op": "Add", "inputs": ["xw", "z"], "outputs": ["y"]}],
  "outputs": [{"name": "y", "dtype": "float32", "shape": ["n", 4]}]
})";

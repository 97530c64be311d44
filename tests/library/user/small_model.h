// Models for tests: y = x * w + z, float32, of n rows; w has 4 columns, z one.
#pragma once
constexpr char small_model[] = R"({
  "metac_ir": 1, "opset": 17, "ir_version": 8,
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 4]}, {"name": "z", "dtype": "float32", "shape": ["n", 1]}],
  "parameters": [{"name": "w", "dtype": "float32", "shape": [4], "data": [1, 1, 1, 1]}],
  "nodes": [{"op": "Mul", "inputs": ["x", "w"], "outputs": ["xw"]}, {"op": "Add", "inputs": ["xw", "z"], "outputs": ["y"]}],
  "outputs": [{"name": "y", "dtype": "float32", "shape": ["n", 4]}]
})";

// A cache [b, kept, 2] of all rows so far, and y, their sum by b.
constexpr char keeping_model[] = R"({
  "metac_ir": 1, "opset": 17, "ir_version": 8,
  "inputs": [{"name": "past", "dtype": "float32", "shape": ["b", "kept", 2]},
             {"name": "x", "dtype": "float32", "shape": ["b", "steps", 2]}],
  "parameters": [{"name": "axes", "dtype": "int64", "shape": [2], "data": [1, 2]}],
  "nodes": [{"op": "Concat", "inputs": ["past", "x"], "outputs": ["present"], "attributes": {"axis": 1}},
            {"op": "ReduceSum", "inputs": ["present", "axes"], "outputs": ["y"], "attributes": {"keepdims": 0}}],
  "outputs": [{"name": "present", "dtype": "float32", "shape": ["b", "all", 2]},
              {"name": "y", "dtype": "float32", "shape": ["b"]}]
})";

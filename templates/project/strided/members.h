  struct StridedCall {            // of @name@_run_strided: the tensors as the program has them, inputs gathered
    Array<@name@_tensor> inputs, outputs;
    Array<Block> gathered;
  } strided;

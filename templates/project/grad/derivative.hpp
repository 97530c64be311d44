  std::vector<Tensor> @function@(const std::vector<Tensor>& inputs) { return derivative(&@name@_@function@, inputs, @NAME@_@FUNCTION@_OUTPUTS); }

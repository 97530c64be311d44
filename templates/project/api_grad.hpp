  // Derivatives: what goes in and comes out, in which order, is said at @name@_vjp in @name@.h. Results are valid until the next
  // call of the same function.
  std::vector<Tensor> vjp(const std::vector<Tensor>& inputs) { return derivative(&@name@_vjp, inputs, @NAME@_VJP_OUTPUTS); }
  std::vector<Tensor> jvp(const std::vector<Tensor>& inputs) { return derivative(&@name@_jvp, inputs, @NAME@_JVP_OUTPUTS); }
  std::vector<Tensor> hvp(const std::vector<Tensor>& inputs) { return derivative(&@name@_hvp, inputs, @NAME@_HVP_OUTPUTS); }
  std::vector<Tensor> derivative(decltype(&@name@_vjp) function, const std::vector<Tensor>& inputs, size_t count) {
    std::vector<Tensor> outputs(count, Tensor{});
    check(function(context_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(count)));
    return outputs;
  }

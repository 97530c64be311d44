  // Derivatives: what goes in and comes out, in which order, is said in @name@.h. Results are valid until the next
  // call of the same function.
@derivatives@  std::vector<Tensor> derivative(decltype(&@name@_run) function, const std::vector<Tensor>& inputs, size_t count) {
    std::vector<Tensor> outputs(count, Tensor{});
    check(function(context_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(count)));
    return outputs;
  }

  // As run(), of elements that lie so many elements apart along each axis; an empty list, for all or for one: contiguous. Every output needs
  // memory where it has strides. See @name@_run_strided.
  using Strides = std::vector<std::vector<int64_t>>;
  void run_strided(const std::vector<Tensor>& inputs, const Strides& input_strides, std::vector<Tensor>& outputs, const Strides& output_strides) {
    const auto pointers = [](const Strides& strides, size_t count, auto rank_of) {
      std::vector<const int64_t*> all;
      if (!strides.empty() && strides.size() != count) throw Error(@NAME@_INVALID_ARGUMENT, "as many lists of strides as tensors are expected, or none");
      for (const std::vector<int64_t>& list : strides) {
        if (!list.empty() && static_cast<int32_t>(list.size()) != rank_of(all.size())) throw Error(@NAME@_INVALID_ARGUMENT, "a list of strides is not as long as its tensor has dims");
        all.push_back(list.empty() ? nullptr : list.data());
      }
      return all;
    };
    const auto in = pointers(input_strides, inputs.size(), [&](size_t k) { return inputs[k].rank; });
    const auto out = pointers(output_strides, outputs.size(), [](size_t k) { const @name@_port* port = @name@_output(static_cast<int32_t>(k)); return port == nullptr ? -1 : port->rank; });
    check(@name@_run_strided(context_, inputs.data(), static_cast<int32_t>(inputs.size()), input_strides.empty() ? nullptr : in.data(), outputs.data(), static_cast<int32_t>(outputs.size()),
                         output_strides.empty() ? nullptr : out.data()));
  }

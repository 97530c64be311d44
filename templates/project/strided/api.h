/* Runs as @name@_run does, of tensors whose elements lie strides apart: input_strides[k][a] is how many elements are from one along axis a of
 * input k to the next. Those of inputs may be 0 or negative (`data` is the element whose indices are all 0). Those of outputs are positive,
 * each beyond all that smaller ones reach, so that no two elements meet; their memory must be given, and `bytes`, before and after, is
 * from `data` to the end of the last element. NULL, for all or for one tensor: contiguous. Tensors that are contiguous are used where they
 * are, others are copied from and to memory of the context. `bytes` of an input, if not 0, is what its elements need without gaps. */
@NAME@_API @name@_status @name@_run_strided(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, const int64_t* const* input_strides,
                             @name@_tensor* outputs, int32_t output_count, const int64_t* const* output_strides);


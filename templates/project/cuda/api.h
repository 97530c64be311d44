/* On a GPU. The data of a tensor may be memory of the host or of the context's device: the library finds out. Device memory aligned to
 * 16 bytes is read and written where it is, all else is copied.
 *
 * Puts a run onto a stream and returns without waiting for it. `stream` is a cudaStream_t of the context's device; NULL: the
 * context's own, which takes turns with the legacy default stream, as @name@_run does. Outputs without memory get memory of the
 * context on the device, valid until its next run. Runs of a context happen in the order of the calls, whatever their streams; inputs
 * must stay as they are until theirs is done; the stream must not be capturing a graph. The call does wait for outputs in the host's memory, and where the host must see a
 * value to go on (sizes that data decides, branches, routines of the host).
 * When all is done `done(user)` is called, unless done is NULL, in a thread of CUDA's; it must not call CUDA or this library. Faults
 * of the device while running are told by the next call that waits. */
@NAME@_API @name@_status @name@_run_async(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                           int32_t output_count, void* stream, void (*done)(void* user), void* user);

/* DLPack: `dl_tensor` is a DLTensor of dlpack.h, of the port's dtype, contiguous, on the host (kDLCPU, kDLCUDAHost) or the context's
 * device (kDLCUDA, kDLCUDAManaged). From it: a tensor for @name@_run or @name@_run_async, as an input or as an output. To it: what a
 * tensor holds now; shape points into *tensor, which must outlive it, as must the memory. */
@NAME@_API @name@_status @name@_from_dlpack(@name@_context* context, const @name@_port* port, const void* dl_tensor, @name@_tensor* tensor);
@NAME@_API @name@_status @name@_to_dlpack(@name@_context* context, const @name@_port* port, @name@_tensor* tensor, void* dl_tensor);


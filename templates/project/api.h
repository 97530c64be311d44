/* @name@: a neural network as a library, compiled by metac @version@.
 *
 * One context runs one inference at a time; contexts are independent and share nothing that changes, so any number of
 * them may run at once. Any thread may call any function but @name@_destroy() at any time: a call that comes while another thread runs
 * the context returns BUSY and changes nothing. No function throws or aborts: each returns a status, and @name@_last_error() says more.
 *
 * After fork() a context works in the child too, and may be destroyed there: it starts threads of its own. One that a thread of the parent
 * was running stays BUSY. CUDA does not survive a fork: there, make contexts in the child.
 *
 *   @name@_context* context = NULL;
 *   if (@name@_create(NULL, &context) != @NAME@_OK) { puts(@name@_last_error(context)); ... }
 *   @name@_tensor inputs[@NAME@_INPUTS] = {...}, outputs[@NAME@_OUTPUTS] = {{0}};
 *   if (@name@_run(context, inputs, @NAME@_INPUTS, outputs, @NAME@_OUTPUTS) != @NAME@_OK) ...
 *   @name@_destroy(context);
 *
@port_comment@
 */
#ifndef @NAME@_H
#define @NAME@_H
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define @NAME@_API __attribute__((visibility("default")))
#else
#define @NAME@_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define @NAME@_INPUTS @input_count@
#define @NAME@_OUTPUTS @output_count@
#define @NAME@_PARAMETERS @parameter_count@
#define @NAME@_MAX_RANK @max_rank@

typedef struct @name@_context @name@_context;

typedef enum @name@_status {
  @NAME@_OK = 0,
  @NAME@_INVALID_ARGUMENT = 1, /* a shape, count or pointer that the caller gave */
  @NAME@_REQUIREMENT = 2,      /* a condition on the data that the model states */
  @NAME@_OUT_OF_MEMORY = 3,
  @NAME@_UNSUPPORTED = 4,      /* this machine's CPU lacks the instructions, or this build a routine */
  @NAME@_IO = 5,               /* the weights are missing or damaged */
  @NAME@_BUSY = 6,             /* the context is running in another thread */
  @NAME@_INTERNAL = 7,
  @NAME@_CALLBACK = 8          /* a function that the caller gave threw an exception; the call's work was done all the same */
} @name@_status;

typedef enum @name@_dtype {
@dtype_constants@
} @name@_dtype;

/* What an input, output or parameter is. Elements are contiguous and row-major; strides count elements. */
typedef struct @name@_port {
  const char* name;             /* the model's, UTF-8 as far as the model's is */
  @name@_dtype dtype;
  int32_t rank;
  const int64_t* dims;          /* -1: open, see dim_names */
  const int64_t* strides;       /* -1: depends on an open dim */
  const char* const* dim_names; /* "1", "batch", "batch*2": for people */
} @name@_port;

/* Elements to read or to write. Inputs: data and dims; they are not changed. Outputs: data of `bytes` bytes, or NULL for
 * memory of the context that is valid until its next run; the run sets data, bytes, rank, dims and type.
 * Two fields let a call find mistakes: `bytes` of an input, if not 0, must be what its dims need; `type`, if not 0, must be
 * @NAME@_TYPE(dtype of the port). */
typedef struct @name@_tensor {
  void* data;
  int64_t bytes;
  int32_t rank;
  int64_t dims[@NAME@_MAX_RANK];
  int32_t type;
} @name@_tensor;
#define @NAME@_TYPE(dtype) ((int32_t)(dtype) + 1)

/* A thread pool of the caller's: calls task(state, 0) ... task(state, count - 1), each once, and returns when all are done. What it leaves
 * out is done by the calling thread; a task that comes twice, or late, finds nothing to do, but none may come after @name@_destroy().
 * An exception makes the call end with CALLBACK. The pool must not call this library with the same context. */
typedef void (*@name@_parallel)(void* pool, int32_t count, void (*task)(void* state, int32_t index), void* state);

typedef struct @name@_options {
  const char* weights;     /* path of the weights file; NULL: beside the library (or inside it) */
  int32_t threads;         /* 0: one per CPU that this process may use */
  int32_t pin;             /* not 0: threads stay on their CPU */
  int32_t fixed_split;     /* not 0: threads never take over each other's part */
  @name@_parallel parallel; /* the caller's pool; NULL: own threads */
  void* pool;              /* its first argument */
  const char* cpu;         /* which of @name@_cpu(0), @name@_cpu(1), ... to run; NULL: the first that this machine can */
  int32_t weights_flags;   /* @NAME@_WEIGHTS_..., any of them together */
@jit_option@} @name@_options;

/* Weights are mapped: processes share the pages. While a context uses the file it may be replaced (by a rename, as @name@_write_weights does it)
 * or removed, but a program that writes into it changes answers, and one that cuts it ends the process. COPY reads it into memory of the
 * context instead, and the file is free. Damage is found when a context is made, UNCHECKED does not look for it. */
#define @NAME@_WEIGHTS_COPY 1
#define @NAME@_WEIGHTS_UNCHECKED 2

/* "metac 0.1.0" and the model's SHA-256. */
@NAME@_API const char* @name@_version(void);
@NAME@_API const char* @name@_model_hash(void);

/* The instruction sets that this library has code for, the one to be preferred first; NULL beyond the last. And which of
 * them a context runs: "" where @name@_create found none that it may. */
@NAME@_API const char* @name@_cpu(int32_t index);
@NAME@_API const char* @name@_cpu_of(const @name@_context* context);

/* Makes a context. options may be NULL. On failure *context still holds the reason for @name@_last_error() and must be
 * destroyed; it is NULL only where there was no memory for it. */
@NAME@_API @name@_status @name@_create(const @name@_options* options, @name@_context** context);
@NAME@_API void @name@_destroy(@name@_context* context);

/* One inference. Dims that are open take the inputs' values; everything is checked before the work begins. */
@NAME@_API @name@_status @name@_run(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                     int32_t output_count);

@state_declarations@@derivative_declarations@@exchange_declarations@@device_declarations@@jit_declarations@/* Runs as @name@_run does, slowly, and looks at what every kernel wrote. `report` (report_bytes of text, cut where it is longer) says
 * which made the first NaN and the first infinity, "" where none did; the names are those of @name@_profile_row. Infinities may be
 * meant, as masks are. On a GPU it reports nothing. */
@NAME@_API @name@_status @name@_find_non_finite(@name@_context* context, const @name@_tensor* inputs, int32_t input_count,
                                 @name@_tensor* outputs, int32_t output_count, char* report, int64_t report_bytes);

/* The dims of the outputs for inputs of these dims (data is ignored), without running. A dim that only the data decides
 * is -1. Sets rank, dims and bytes (-1 where not known) of every output. */
@NAME@_API @name@_status @name@_output_shapes(@name@_context* context, const @name@_tensor* inputs, int32_t input_count,
                               @name@_tensor* outputs, int32_t output_count);

/* The message of the calling thread's last call with this context, "" after success; never NULL. Like errno it is each thread's own: what
 * others do meanwhile does not touch it, and they cannot read it. It is valid until the thread's next call with the context. */
@NAME@_API const char* @name@_last_error(const @name@_context* context);

/* Inputs, outputs and parameters by position; NULL beyond the last. */
@NAME@_API const @name@_port* @name@_input(int32_t index);
@NAME@_API const @name@_port* @name@_output(int32_t index);
@NAME@_API const @name@_port* @name@_parameter(int32_t index);

/* New values for all parameters of the model (not the prepared block): `parameters[k]` has the shape and dtype of
 * @name@_parameter(k). They are prepared (folded, packed) into memory of the context; the caller's are not kept. */
@NAME@_API @name@_status @name@_set_weights(@name@_context* context, const void* const* parameters, int32_t count);

/* Prepares parameters, given as to @name@_set_weights, and writes them as a weights file: what @name@_create() of this library takes as
 * options->weights, in any program. The context stays as it is; the file is there whole or not at all. */
@NAME@_API @name@_status @name@_write_weights(@name@_context* context, const void* const* parameters, int32_t count, const char* path);

/* Working memory: what is planned ahead (values of open dims excluded), and the arenas as planned for the last run's shapes. */
@NAME@_API int64_t @name@_static_arena_bytes(void);
@NAME@_API int64_t @name@_arena_bytes(const @name@_context* context);
/* All memory that the context holds for values: arenas, scratch, values whose size the data decide, outputs that callers gave none for. */
@NAME@_API int64_t @name@_held_bytes(const @name@_context* context);

/* Time per step, measured from the first call with enable != 0. A row: the kernel's name, how often, nanoseconds in all;
 * NULL beyond the last. What a branch or loop does is in the rows of its steps. Slices of a batch that workers do side by side
 * share the time that all of them took. Rows may be read while another thread runs the context. */
@NAME@_API @name@_status @name@_profile(@name@_context* context, int32_t enable);
@NAME@_API const char* @name@_profile_row(const @name@_context* context, int32_t index, int64_t* runs, int64_t* nanoseconds);
/* What the step of that row has done meanwhile, at the shapes it had: operations of sums of products (a multiply-add is two; other
 * work counts none), bytes read and written, each element once a launch. -1: not known. INVALID_ARGUMENT beyond the last. */
@NAME@_API @name@_status @name@_profile_work(const @name@_context* context, int32_t index, double* operations, double* bytes);

#ifdef __cplusplus
}
#endif
#endif

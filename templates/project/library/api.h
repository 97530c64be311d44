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
#include "metac_model.h"

#if METAC_MODEL_INTERFACE != 1 || METAC_MODEL_REVISION < 6
#error "metac_model.h is older than @name@.h: take the one that stands beside it"
#endif

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
#define @NAME@_MAX_RANK METAC_MODEL_MAX_RANK

typedef struct @name@_context @name@_context;

/* The types of all models' libraries (metac_model.h) under this one's name. Options begin with their size, which C programs set:
 *   @name@_options options = {0};
 *   options.size = sizeof options; */
typedef metac_model_status @name@_status;
typedef metac_model_dtype @name@_dtype;
typedef metac_model_port @name@_port;
typedef metac_model_tensor @name@_tensor;
typedef metac_model_parallel @name@_parallel;
typedef metac_model_options @name@_options;
typedef metac_model_arena @name@_arena;

#define @NAME@_OK METAC_MODEL_OK
#define @NAME@_INVALID_ARGUMENT METAC_MODEL_INVALID_ARGUMENT
#define @NAME@_REQUIREMENT METAC_MODEL_REQUIREMENT
#define @NAME@_OUT_OF_MEMORY METAC_MODEL_OUT_OF_MEMORY
#define @NAME@_UNSUPPORTED METAC_MODEL_UNSUPPORTED
#define @NAME@_IO METAC_MODEL_IO
#define @NAME@_BUSY METAC_MODEL_BUSY
#define @NAME@_INTERNAL METAC_MODEL_INTERNAL
#define @NAME@_CALLBACK METAC_MODEL_CALLBACK
#define @NAME@_CANCELLED METAC_MODEL_CANCELLED
#define @NAME@_FULL METAC_MODEL_FULL
@dtype_constants@
#define @NAME@_TYPE(dtype) METAC_MODEL_TYPE(dtype)
#define @NAME@_UNWANTED METAC_MODEL_UNWANTED
#define @NAME@_WEIGHTS_COPY METAC_MODEL_WEIGHTS_COPY
#define @NAME@_WEIGHTS_UNCHECKED METAC_MODEL_WEIGHTS_UNCHECKED
#define @NAME@_WEIGHTS_MAP METAC_MODEL_WEIGHTS_MAP
#define @NAME@_BACKGROUND METAC_MODEL_BACKGROUND
#define @NAME@_USUAL METAC_MODEL_USUAL
#define @NAME@_URGENT METAC_MODEL_URGENT
#define @NAME@_LOG_ERROR METAC_MODEL_LOG_ERROR
#define @NAME@_LOG_WARNING METAC_MODEL_LOG_WARNING
#define @NAME@_LOG_INFO METAC_MODEL_LOG_INFO

/* The same functions as a table, for code that serves several models. A program that loads this library with metac_model_open() gets it. */
@NAME@_API const metac_model* @name@_model(void);

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

/* Working memory (arenas and scratch) for contexts that never run at once, of this library and of others of the process with the same
 * version of metac: options.arena. A run of one while another runs in it is BUSY. allocate and release, as in the options, are for its
 * memory; both may be NULL. It lasts until it is destroyed and so is the last of its contexts. OUT_OF_MEMORY, or INVALID_ARGUMENT where
 * one of both is NULL. The library that made it stays loaded as long. Not with --target cuda: a context is UNSUPPORTED then. */
@NAME@_API @name@_status @name@_arena_create(metac_model_allocate allocate, metac_model_release release, void* memory_user, @name@_arena** arena);
@NAME@_API void @name@_arena_destroy(@name@_arena* arena);

/* One inference. Dims that are open take the inputs' values; everything is checked before the work begins. */
@NAME@_API @name@_status @name@_run(@name@_context* context, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs,
                     int32_t output_count);

/* From any thread: the run that the context is in, if it is in one, ends before its next kernel and answers CANCELLED; so does a
 * derivative, and find_non_finite. Calls that begin later are not touched, and the context goes on as after any run that failed. A kernel
 * that has begun is finished, and so are runs of a model that writes a state over where it stands, and those by a program for just
 * their shapes (--jit). */
@NAME@_API @name@_status @name@_cancel(@name@_context* context);

@state_declarations@@generate_declarations@@derivative_declarations@@exchange_declarations@@device_declarations@@jit_declarations@@queue_declarations@/* Runs as @name@_run does, slowly, and looks at what every kernel wrote. `report` (report_bytes of text, cut where it is longer) says
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

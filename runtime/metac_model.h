/* What all libraries that metac compiles have in common, whatever the model: the types of their interface, and a table of
 * their functions, so that one program can load any of them at run time. A library's own header (net.h of one that is called
 * net) gives these types the library's name and declares its functions.
 *
 *   const char* why = NULL;
 *   const metac_model* model = metac_model_open("lib/libnet.so.1", &why);
 *   if (model == NULL) { puts(why); ... }
 *   metac_model_context* context = NULL;
 *   if (model->create(NULL, &context) != METAC_MODEL_OK) { puts(model->last_error(context)); ... }
 *   metac_model_tensor inputs[1] = {...}, outputs[1] = {{0}};
 *   if (model->run(context, inputs, 1, outputs, 1) != METAC_MODEL_OK) ...
 *   model->destroy(context);
 *
 * What a program built with this header may rely on, with libraries of later versions of metac (docs/versioning.md):
 * functions, members and constants keep their meaning and place; structs that begin with their size, ports and the table
 * grow at their end; a tensor is always what it is here. A new status or dtype may come. What would break this gets another
 * METAC_MODEL_INTERFACE, another soname and another symbol to be found by. */
#ifndef METAC_MODEL_H
#define METAC_MODEL_H
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The interface, and how often it has grown: headers of libraries ask for the revision that they need. */
#define METAC_MODEL_INTERFACE 1
#define METAC_MODEL_REVISION 6
#define METAC_MODEL_MAX_RANK 32

/* Structs that begin with their size have it from the beginning in C++; in C it is to be set. */
#ifdef __cplusplus
#define METAC_MODEL_SIZE_OF(type) = sizeof(type)
extern "C" {
#else
#define METAC_MODEL_SIZE_OF(type)
#endif

typedef struct metac_model_context metac_model_context;
typedef struct metac_model_arena metac_model_arena; /* revision 4 */

typedef enum metac_model_status {
  METAC_MODEL_OK = 0,
  METAC_MODEL_INVALID_ARGUMENT = 1, /* a shape, count or pointer that the caller gave */
  METAC_MODEL_REQUIREMENT = 2,      /* a condition on the data that the model states */
  METAC_MODEL_OUT_OF_MEMORY = 3,
  METAC_MODEL_UNSUPPORTED = 4, /* this machine's CPU lacks the instructions, or this build a routine */
  METAC_MODEL_IO = 5,          /* the weights are missing or damaged */
  METAC_MODEL_BUSY = 6,        /* the context is running in another thread */
  METAC_MODEL_INTERNAL = 7,
  METAC_MODEL_CALLBACK = 8,  /* a function that the caller gave threw an exception; the call's work was done all the same */
  METAC_MODEL_CANCELLED = 9, /* by cancel(). Revision 2 */
  METAC_MODEL_FULL = 10      /* a queue has as many requests waiting as it may. Revision 3 */
} metac_model_status;

typedef enum metac_model_dtype {
  METAC_MODEL_FLOAT32 = 0,
  METAC_MODEL_FLOAT64 = 1,
  METAC_MODEL_FLOAT16 = 2,
  METAC_MODEL_BFLOAT16 = 3,
  METAC_MODEL_INT8 = 4,
  METAC_MODEL_INT16 = 5,
  METAC_MODEL_INT32 = 6,
  METAC_MODEL_INT64 = 7,
  METAC_MODEL_UINT8 = 8,
  METAC_MODEL_UINT16 = 9,
  METAC_MODEL_UINT32 = 10,
  METAC_MODEL_UINT64 = 11,
  METAC_MODEL_BOOL = 12
} metac_model_dtype;

/* What an input, output, parameter or state is. Elements are contiguous and row-major; strides count elements. Ports belong
 * to the library and are read through the pointers that it gives: later ones may have more members. */
typedef struct metac_model_port {
  const char* name; /* the model's, UTF-8 as far as the model's is */
  metac_model_dtype dtype;
  int32_t rank;
  const int64_t* dims;          /* -1: open, see dim_names */
  const int64_t* strides;       /* -1: depends on an open dim */
  const char* const* dim_names; /* "1", "batch", "batch*2": for people */
} metac_model_port;

/* Elements to read or to write. Inputs: data and dims; they are not changed. Outputs: data of `bytes` bytes, or NULL for
 * memory of the context that is valid until its next run; the run sets data, bytes, rank, dims and type.
 * Two members let a call find mistakes: `bytes` of an input, if not 0, must be what its dims need; `type`, if not 0, must be
 * METAC_MODEL_TYPE(dtype of the port). An output whose data is METAC_MODEL_UNWANTED (revision 5) is not made, nor what only
 * it needs: its data stays that, its dims are set where the inputs' tell them. Queues refuse it. */
typedef struct metac_model_tensor {
  void* data;
  int64_t bytes;
  int32_t rank;
  int64_t dims[METAC_MODEL_MAX_RANK];
  int32_t type;
} metac_model_tensor;
#define METAC_MODEL_TYPE(dtype) ((int32_t)(dtype) + 1)
#define METAC_MODEL_UNWANTED ((void*)-1)

/* A thread pool of the caller's: calls task(state, 0) ... task(state, count - 1), each once, and returns when all are done.
 * What it leaves out is done by the calling thread; a task that comes twice, or late, finds nothing to do, but none may come
 * after the context is destroyed. An exception makes the call end with CALLBACK. The pool must not call the library with the
 * same context. */
typedef void (*metac_model_parallel)(void* pool, int32_t count, void (*task)(void* state, int32_t index), void* state);

/* ---- Functions of the caller's that a context calls. Revision 4 ----
 * In the thread whose call it is in; threads of several contexts may call one at the same time. They may call cancel() and
 * last_error() of the context and no other function of it. What they throw ends where they were called.
 *
 * A log is told what happens in a context: a line of text, valid during the call. Without one nothing is said anywhere. */
typedef void (*metac_model_log)(void* log_user, int32_t level, const char* message);
#define METAC_MODEL_LOG_ERROR 1   /* why a call failed: what last_error() says */
#define METAC_MODEL_LOG_WARNING 2 /* what works, and less well than was asked for */
#define METAC_MODEL_LOG_INFO 3    /* what was chosen: code, weights, threads */

/* Memory for what the context holds (held_bytes): `bytes` at an address that is a multiple of `alignment`, a power of two;
 * NULL: there is none, and the call is OUT_OF_MEMORY. And its return, with the same `bytes`: all of it has come back when
 * the context is destroyed. Weights, which contexts share, and the context itself are the process's memory; so is what is on
 * a GPU. */
typedef void* (*metac_model_allocate)(void* memory_user, size_t bytes, size_t alignment);
typedef void (*metac_model_release)(void* memory_user, void* memory, size_t bytes);

/* How far a run is: before a step of the model at its top level (a kernel, or a whole loop or branch), `done` of `total`
 * steps, at most about every millisecond; a run that told anything tells its end. Shorter runs tell nothing. cancel() ends
 * the run. If it throws the run is done all the same, tells no more and is answered CALLBACK. Not with --target cuda, nor of
 * runs by a program for just their shapes (--jit). */
typedef void (*metac_model_progress)(void* progress_user, int64_t done, int64_t total);

/* All contexts of all libraries in a process share its threads, of which no more work at once than there are CPUs; pin,
 * private_threads and parallel are other ones.
 * Zero is every member's default but that of the first: options.size = sizeof options (C++ does that itself). A library that
 * is older than the program refuses members that it does not have, if they are not zero. */
typedef struct metac_model_options {
  size_t size METAC_MODEL_SIZE_OF(metac_model_options);
  const char* weights; /* path of the weights file; NULL: beside the library (or inside it) */
  const char* cpu;     /* which of cpu(0), cpu(1), ... to run; NULL: the first that this machine can */
  const char*
      metac; /* of libraries made with --jit: path of the libmetac that makes programs for shapes that come again;
              * NULL: METAC_LIBRARY of the environment, else one beside this library, else the system's; "off": none */
  metac_model_parallel parallel; /* the caller's pool; NULL: those of private_threads */
  void* pool;                    /* its first argument */
  int32_t threads;               /* of a call, with the caller's; 0: one per CPU that this process may use */
  int32_t pin;                   /* not 0: threads stay on their CPU */
  int32_t fixed_split;           /* not 0: threads never take over each other's part */
  int32_t weights_flags;         /* METAC_MODEL_WEIGHTS_..., any of them together */
  int32_t most_specialisations;  /* with --jit: such programs that this process holds for these weights; 0: 64. The least
                                  * recently used go first */
  int32_t private_threads;       /* not 0: threads of this context's own, not those of the process. Revision 2 */
  /* ---- revision 4 ---- */
  metac_model_log log;           /* is told what happens in the context; NULL: nobody is */
  void* log_user;                /* its first argument */
  metac_model_allocate allocate; /* both functions or none; NULL: memory is the C library's */
  metac_model_release release;
  void* memory_user;             /* their first argument */
  metac_model_progress progress; /* hears how far long runs are; NULL: nobody does */
  void* progress_user;           /* its first argument */
  metac_model_arena* arena; /* working memory that contexts share which never run at once (arena_create); NULL: its own */
  /* ---- revision 6 ---- */
  int32_t priority; /* METAC_MODEL_..., among the contexts that use the threads of the process */
} metac_model_options;

/* Calls of contexts of higher priority have the CPUs first. One of lower priority stands still before a kernel while those
 * can use all CPUs that the process may, for 20 ms at most: then it does this kernel in its own thread alone. Contexts with
 * a pool of the caller's or threads of their own take no part, nor does a library with another's OpenMP. Revision 6 */
#define METAC_MODEL_BACKGROUND (-1)
#define METAC_MODEL_USUAL 0
#define METAC_MODEL_URGENT 1

/* Weights are read into memory that all contexts of the library share in this process, as far as they are used; what becomes
 * of the file then touches no answer. MAP maps the file instead, so that processes share its pages (as is done anyway where
 * nobody can change it: sealed memory, fs-verity, immutable files): it may be replaced by a rename or removed, but a program
 * that writes into it changes answers, and one that cuts it ends the process. COPY reads all of it into memory of this
 * context alone. Damage is found before anything is computed, UNCHECKED does not look for it. */
#define METAC_MODEL_WEIGHTS_COPY 1
#define METAC_MODEL_WEIGHTS_UNCHECKED 2
#define METAC_MODEL_WEIGHTS_MAP 4 /* revision 2 */

/* What has become of the shapes of a library made with --jit. size = sizeof(metac_model_specialisation). */
typedef struct metac_model_specialisation {
  size_t size METAC_MODEL_SIZE_OF(metac_model_specialisation);
  int64_t runs;             /* of this context */
  int64_t specialised_runs; /* of these, by a program for just their shapes */
  int64_t programs;         /* such programs that this process holds, for all contexts of these weights */
  int64_t waiting;          /* shapes whose program is being made, or is next */
} metac_model_specialisation;

/* A batching queue: requests of many threads, run together (queue_create). */
typedef struct metac_model_queue metac_model_queue;

/* What a queue is. size = sizeof(metac_model_queue_options); zero is the default of all other members. Revision 3 */
typedef struct metac_model_queue_options {
  size_t size METAC_MODEL_SIZE_OF(metac_model_queue_options);
  const metac_model_options* context; /* of the queue's own contexts; NULL: all defaults */
  int64_t max_delay_us;               /* how long a request waits for others to fill its batch, in microseconds; 0: not at
                                       * all, a batch is what came while the contexts were running */
  int32_t max_batch;                  /* rows of a batch at most; 0: 32 */
  int32_t max_pending;                /* requests that wait for their batch at most; 0: 1024 */
  int32_t contexts;                   /* batches that run side by side, each in a thread of the queue's; 0: 1 */
  int32_t threads;                    /* of a batch's run, with that thread; 0: what `context` says */
} metac_model_queue_options;

/* What a queue has done since it was made. size = sizeof(metac_model_queue_counters). Revision 3 */
typedef struct metac_model_queue_counters {
  size_t size METAC_MODEL_SIZE_OF(metac_model_queue_counters);
  int64_t requests;  /* that were taken */
  int64_t rejected;  /* that were refused because max_pending waited */
  int64_t cancelled; /* that ended without having been run */
  int64_t pending;   /* that wait now */
  int64_t run;  /* requests that were put into batches; they had `rows` rows, of `batches` batches: the mean batch has */
  int64_t rows; /* rows / batches of them */
  int64_t batches;
  int64_t waited_us; /* from submission to the beginning of the batch, of all requests that were run, in microseconds */
} metac_model_queue_counters;

/* A derivative (metac compile --grad), called like run. */
typedef struct metac_model_function {
  const char* name; /* "vjp", "jvp", "hvp" */
  int32_t inputs, outputs;
  const metac_model_port* (*input)(int32_t index);
  const metac_model_port* (*output)(int32_t index);
  metac_model_status (*call)(metac_model_context* context, const metac_model_tensor* inputs, int32_t input_count,
                             metac_model_tensor* outputs, int32_t output_count);
} metac_model_function;

/* The functions of a library. Each does what the one of its name in the library's own header does, where it is described:
 * run is net_run. Members that METAC_MODEL_HAS does not find are not there: the library is older than this header, or was
 * compiled without what they are for. */
typedef struct metac_model {
  size_t size;       /* of this table, as the library has it */
  int32_t interface; /* METAC_MODEL_INTERFACE of the library */
  int32_t inputs, outputs, parameters, states;
  int32_t reserved;
  const char* name; /* "net" */
  const char* (*version)(void);
  const char* (*model_hash)(void);
  const char* (*cpu)(int32_t index);
  const char* (*cpu_of)(const metac_model_context* context);
  const metac_model_port* (*input)(int32_t index);
  const metac_model_port* (*output)(int32_t index);
  const metac_model_port* (*parameter)(int32_t index);
  metac_model_status (*create)(const metac_model_options* options, metac_model_context** context);
  void (*destroy)(metac_model_context* context);
  const char* (*last_error)(const metac_model_context* context);
  metac_model_status (*run)(metac_model_context* context, const metac_model_tensor* inputs, int32_t input_count,
                            metac_model_tensor* outputs, int32_t output_count);
  metac_model_status (*output_shapes)(metac_model_context* context, const metac_model_tensor* inputs, int32_t input_count,
                                      metac_model_tensor* outputs, int32_t output_count);
  metac_model_status (*find_non_finite)(metac_model_context* context, const metac_model_tensor* inputs, int32_t input_count,
                                        metac_model_tensor* outputs, int32_t output_count, char* report,
                                        int64_t report_bytes);
  metac_model_status (*set_weights)(metac_model_context* context, const void* const* parameters, int32_t count);
  metac_model_status (*write_weights)(metac_model_context* context, const void* const* parameters, int32_t count,
                                      const char* path);
  int64_t (*static_arena_bytes)(void);
  int64_t (*arena_bytes)(const metac_model_context* context);
  int64_t (*held_bytes)(const metac_model_context* context);
  metac_model_status (*profile)(metac_model_context* context, int32_t enable);
  const char* (*profile_row)(const metac_model_context* context, int32_t index, int64_t* runs, int64_t* nanoseconds);
  metac_model_status (*profile_work)(const metac_model_context* context, int32_t index, double* operations, double* bytes);
  /* ---- --grad ---- by position; NULL beyond the last */
  const metac_model_function* (*derivative)(int32_t index);
  /* ---- --state ---- */
  const metac_model_port* (*state)(int32_t index);
  metac_model_status (*state_reset)(metac_model_context* context);
  metac_model_status (*state_get)(metac_model_context* context, int32_t index, metac_model_tensor* state);
  metac_model_status (*state_set)(metac_model_context* context, int32_t index, const metac_model_tensor* state);
  metac_model_status (*state_truncate)(metac_model_context* context, int64_t length);
  metac_model_status (*state_fork)(metac_model_context* context, metac_model_context* from);
  /* ---- --jit ---- */
  metac_model_status (*specialised)(const metac_model_context* context, metac_model_specialisation* result,
                                    const char** problem);
  /* ---- without waiting; of a library for CPUs since revision 2 ---- */
  metac_model_status (*run_async)(metac_model_context* context, const metac_model_tensor* inputs, int32_t input_count,
                                  metac_model_tensor* outputs, int32_t output_count, void* stream, void (*done)(void* user),
                                  void* user);
  /* ---- --target cuda ---- */
  metac_model_status (*from_dlpack)(metac_model_context* context, const metac_model_port* port, const void* dl_tensor,
                                    metac_model_tensor* tensor);
  metac_model_status (*to_dlpack)(metac_model_context* context, const metac_model_port* port, metac_model_tensor* tensor,
                                  void* dl_tensor);
  /* ---- revision 2 ---- */
  metac_model_status (*cancel)(metac_model_context* context);
  metac_model_status (*wait)(metac_model_context* context); /* not with --target cuda, as poll */
  metac_model_status (*poll)(metac_model_context* context);
  /* ---- revision 3 ---- */
  metac_model_status (*queue_create)(const metac_model_queue_options* options, metac_model_queue** queue);
  void (*queue_destroy)(metac_model_queue* queue);
  metac_model_status (*queue_stop)(metac_model_queue* queue, int32_t drain);
  metac_model_status (*queue_run)(metac_model_queue* queue, const metac_model_tensor* inputs, int32_t input_count,
                                  metac_model_tensor* outputs, int32_t output_count);
  metac_model_status (*queue_submit)(metac_model_queue* queue, const metac_model_tensor* inputs, int32_t input_count,
                                     metac_model_tensor* outputs, int32_t output_count, int64_t* ticket);
  metac_model_status (*queue_wait)(metac_model_queue* queue, int64_t ticket);
  metac_model_status (*queue_poll)(metac_model_queue* queue, int64_t ticket);
  metac_model_status (*queue_cancel)(metac_model_queue* queue, int64_t ticket);
  metac_model_status (*queue_release)(metac_model_queue* queue, int64_t ticket);
  metac_model_status (*queue_count)(metac_model_queue* queue, metac_model_queue_counters* counters);
  const char* (*queue_last_error)(const metac_model_queue* queue);
  /* ---- revision 4 ---- run_strided not with --target cuda */
  metac_model_status (*run_strided)(metac_model_context* context, const metac_model_tensor* inputs, int32_t input_count,
                                    const int64_t* const* input_strides, metac_model_tensor* outputs, int32_t output_count,
                                    const int64_t* const* output_strides);
  metac_model_status (*arena_create)(metac_model_allocate allocate, metac_model_release release, void* memory_user,
                                     metac_model_arena** arena);
  void (*arena_destroy)(metac_model_arena* arena);
} metac_model;

/* Whether the library behind `model` has the member. */
#define METAC_MODEL_HAS(model, member) \
  (offsetof(metac_model, member) + sizeof((model)->member) <= (model)->size && (model)->member != 0)

/* Opens a shared library that metac compiled and finds its table; it stays loaded until the process ends. NULL: *why, if why
 * is not NULL, says why, valid until the thread's next call of dlopen or its like. */
static inline const metac_model* metac_model_open(const char* path, const char** why) {
  const metac_model* (*find)(void) = NULL;
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == NULL ? NULL : dlsym(library, "metac_model_v1");
  if (symbol != NULL) {
    memcpy(&find, &symbol, sizeof find);
    return find();
  }
  if (library == NULL) {
    if (why != NULL) *why = dlerror();
    return NULL;
  }
  dlclose(library);
  if (why != NULL) *why = "this is no library that metac compiled, or one of another interface than metac_model_v1";
  return NULL;
}

#ifdef __cplusplus
}
#endif
#endif

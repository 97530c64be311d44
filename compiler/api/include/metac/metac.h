/* metac as a library: models that run at once, in whatever shapes come, from any thread. docs/sessions.md shows how.
 *
 *   metac_session* session = NULL;
 *   if (metac_session_open("net.onnx", NULL, &session) != METAC_OK) { puts(metac_last_error()); ... }
 *   const int64_t dims[] = {1, 3, 224, 224};
 *   const metac_tensor input = {.name = "image", .dtype = METAC_FLOAT32, .rank = 4, .dims = dims, .data = pixels};
 *   metac_result* result = NULL;
 *   if (metac_session_run(session, &input, 1, &result) != METAC_OK) ...
 *   const metac_tensor* output = metac_result_output(result, 0);
 *   ...
 *   metac_result_free(result);
 *   metac_session_close(session);
 *
 * No function throws, aborts or writes to the standard streams: each that can fail returns a status, and metac_last_error()
 * says more. All functions may be called from several threads at once, also with the same session, but for
 * metac_session_close(), beside which nobody may be in a call of that session. Strings are UTF-8 as far as the model's are.
 *
 * Structs that may grow begin with their size: set it to sizeof(the struct); fields that a newer library has and the
 * caller's header has not keep their defaults. Zero is every field's default. */
#ifndef METAC_METAC_H
#define METAC_METAC_H
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define METAC_API __attribute__((visibility("default")))
#else
#define METAC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum metac_status {
  METAC_OK = 0,
  METAC_INVALID_ARGUMENT = 1, /* an argument of the call: null, out of range, unknown name, other dtype or shape */
  METAC_MODEL = 2,            /* the model cannot be read or compiled, or states a condition that the data do not meet */
  METAC_OUT_OF_MEMORY = 3,
  METAC_UNSUPPORTED = 4,      /* this machine cannot do it */
  METAC_INTERNAL = 7,         /* a defect of metac */
  METAC_NOT_READY = 8         /* metac_session_try_run: nothing is ready that would answer at once */
} metac_status;

/* Element types; their numbers are those of generated libraries' headers. */
typedef enum metac_dtype {
  METAC_FLOAT32 = 0,
  METAC_FLOAT64 = 1,
  METAC_FLOAT16 = 2,
  METAC_BFLOAT16 = 3,
  METAC_INT8 = 4,
  METAC_INT16 = 5,
  METAC_INT32 = 6,
  METAC_INT64 = 7,
  METAC_UINT8 = 8,
  METAC_UINT16 = 9,
  METAC_UINT32 = 10,
  METAC_UINT64 = 11,
  METAC_BOOL = 12
} metac_dtype;

typedef struct metac_session metac_session;
typedef struct metac_stream metac_stream;
typedef struct metac_result metac_result;

/* Contiguous elements, row-major, aligned to an element. Of inputs, `bytes` may be 0; if it is not, it must be what dims and
 * dtype need. There are no tensors of strings. */
typedef struct metac_tensor {
  const char* name;
  const void* data; /* may be NULL where there are no elements */
  int64_t bytes;
  const int64_t* dims;
  int32_t rank;
  int32_t dtype; /* metac_dtype */
} metac_tensor;

/* What the model says of an input or output. */
typedef struct metac_port {
  const char* name;
  const int64_t* dims;          /* -1: open */
  const char* const* dim_names; /* of open dims, "" where the model names none; NULL for fixed ones */
  int32_t rank;                 /* -1: any; dims and dim_names are NULL then */
  int32_t dtype;                /* metac_dtype; -1: the model does not say */
} metac_port;

/* What is known of an open dim, by the name that the model gives it. */
typedef struct metac_dim {
  const char* name;
  int64_t min, max, divisor; /* 0: 1, no limit and 1; min == max fixes the dim */
} metac_dim;

/* Bytes of the caller's. */
typedef struct metac_block {
  const void* data;
  int64_t bytes;
} metac_block;

/* A state: an input of the model whose value is that of `output` in the run before. */
typedef struct metac_state {
  const char* input;
  const char* output;
} metac_state;

typedef struct metac_session_options {
  size_t size; /* sizeof(metac_session_options) */
  /* When a program for a shape is compiled: "background" (behind runs of the open program, for shapes that come again;
   * the default), "eager" (before the shape's first run, which waits for it), "never" (the open program answers all). */
  const char* specialise;
  int32_t threads;             /* of a run; 0: one per CPU that this process may use */
  int32_t max_contexts;        /* runs side by side, further calls wait; 0: as many as there are usable CPUs */
  int32_t max_specialisations; /* the least recently used go first; 0: 64 */
  int32_t dim_count;
  int64_t max_memory; /* bytes of specialisations: code, working memory, weights that no other has; 0: no limit */
  const metac_dim* dims;
  const char* cpu;    /* "native" (default), "x86-64-v3", ...: metac compile --cpu */
  const char* target; /* "cpu" (default) or "cuda" */
  /* Elements of initialisers of these names, which the model may leave empty. They are not copied: they must stay as they are
   * until the session is closed. */
  const metac_tensor* weights;
  int32_t weight_count;
  int32_t prepared_count;
  const metac_block* prepared; /* weights that the caller has prepared, as they lie in the file of a library that metac compiled:
                                * what is prepared alike is read there. They must stay too, each aligned to 64 bytes with 64
                                * more that can be read behind it */
  /* Inputs and outputs that are states, which streams have (docs/states.md). On the CPU alone. */
  const metac_state* states;
  int32_t state_count;
  int32_t known_states; /* 1: beside `states` all pairs that are known by their names, which metac check lists */
  const char* const* ops; /* C++ files whose functions are operators of this model (metac_define_file) */
  int32_t ops_count;
  const char* precision; /* "float32" (default), "bfloat16", "int8" or "auto": metac compile --precision */
} metac_session_options;

/* "0.1.0". */
METAC_API const char* metac_version(void);
/* The message of the calling thread's last call that failed; "" where none did. Valid until the thread's next call. */
METAC_API const char* metac_last_error(void);

/* An element-wise operator by its formula (docs/defining_operators.md):
 *   const metac_definition mish = {.size = sizeof mish, .signature = "mish(x)", .body = "x * tanh(log1p(exp(x)))"};
 *   metac_define(&mish);
 * Gradients are given only where those by the rules are bad: gradients[k] is the adjoint of the operand operands[k], of the
 * parameters, the result `y` and its adjoint `dy`. */
typedef struct metac_definition {
  size_t size;                 /* sizeof(metac_definition) */
  const char* signature;       /* "mish", "huber(x, delta = 1)", "com.example::huber(x, delta = 1)"; the domain is else "user" */
  const char* body;
  const char* const* operands;
  const char* const* gradients;
  int32_t gradient_count;
  int32_t is_stored;           /* not 0: its result is a kernel's, which is fused with nothing */
} metac_definition;
/* Defines it for the models that this process opens from now on, in place of an earlier one of that name and domain. */
METAC_API metac_status metac_define(const metac_definition* definition);
/* The same with the functions of a C++ file, which is read and not compiled. */
METAC_API metac_status metac_define_file(const char* path);

/* Reads an ONNX file or a JSON IR document. *session is set on success only. options may be NULL. */
METAC_API metac_status metac_session_open(const char* path, const metac_session_options* options, metac_session** session);
/* The same from memory, which is not kept; external data cannot be named. */
METAC_API metac_status metac_session_open_memory(const void* model, size_t bytes, const metac_session_options* options,
                                                 metac_session** session);
/* NULL is allowed. A compilation in the background is broken off. */
METAC_API void metac_session_close(metac_session* session);

/* Inputs that a caller gives (initialisers and states are not among them), outputs that it gets, and states, by position; NULL
 * beyond the last. They live as long as the session. A state has its input's name. */
METAC_API const metac_port* metac_session_input(const metac_session* session, int32_t index);
METAC_API const metac_port* metac_session_output(const metac_session* session, int32_t index);
METAC_API const metac_port* metac_session_state(const metac_session* session, int32_t index);

/* One run. Inputs by name, in any order; they are read in place and not changed, and are the caller's again afterwards.
 * *result is set on success only. States are as in a new stream, and gone afterwards. */
METAC_API metac_status metac_session_run(metac_session* session, const metac_tensor* inputs, int32_t input_count,
                                         metac_result** result);
/* The same where a program for just these shapes is ready and a context for it is free. Else METAC_NOT_READY, at once, and the
 * shapes are noted: those that come again are specialised in the background, unless options say "never". It compiles
 * nothing in this thread and makes no open program: for callers who have another way to answer. */
METAC_API metac_status metac_session_try_run(metac_session* session, const metac_tensor* inputs, int32_t input_count,
                                             metac_result** result);
/* The outputs of a run, in the model's order; NULL beyond the last. They live until the result is freed, whatever becomes of
 * the session. */
METAC_API const metac_tensor* metac_result_output(const metac_result* result, int32_t index);
METAC_API void metac_result_free(metac_result* result);

/* A caller of a session with states of its own, which go from each of its runs to the next: a conversation, a song. Programs,
 * weights and threads are the session's. Streams run side by side, also with the session's own runs; calls of one stream
 * follow one another. It is closed before its session (NULL is allowed), when nobody is in a call of it. */
METAC_API metac_status metac_stream_open(metac_session* session, metac_stream** stream);
METAC_API void metac_stream_close(metac_stream* stream);
/* One run, as of metac_session_run; one that fails leaves the states as they were. */
METAC_API metac_status metac_stream_run(metac_stream* stream, const metac_tensor* inputs, int32_t input_count,
                                        metac_result** result);
/* As in a new stream: zeros, and empty along the axis that grows. Open dims are then what the next run's inputs say. */
METAC_API metac_status metac_stream_reset(metac_stream* stream);
/* A copy of a state, the result's only output; its dims are 0 where it had no value since the last reset. */
METAC_API metac_status metac_stream_get(metac_stream* stream, const char* state, metac_result** result);
/* Other values, by the states' names, all or none. They are copied. A run that they do not fit says so. */
METAC_API metac_status metac_stream_set(metac_stream* stream, const metac_tensor* states, int32_t count);
/* States that grow keep their first `length` steps. */
METAC_API metac_status metac_stream_truncate(metac_stream* stream, int64_t length);
/* Another stream of the same session, whose states have the same values. */
METAC_API metac_status metac_stream_fork(metac_stream* stream, metac_stream** forked);

/* Takes these for the model's initialisers of the same names from the next run on. All or none. They are copied. Nothing is
 * compiled again, but for what is more than weights: integers, and floats whose values decided what was compiled (the scales
 * of a Resize). */
METAC_API metac_status metac_session_set_weights(metac_session* session, const metac_tensor* weights, int32_t count);

/* Blocks until no specialisation is waiting or being made: for tests and benchmarks. */
METAC_API metac_status metac_session_wait(metac_session* session);

/* What a session has done and holds. */
typedef struct metac_session_report {
  size_t size; /* set by the caller to sizeof(metac_session_report) */
  int64_t runs, open_runs;      /* of all runs, those by the open program */
  int64_t compiled, dropped;    /* specialisations made and let go */
  int64_t waiting;              /* shapes whose specialisation is not made yet */
  int64_t specialisations;      /* held now */
  int64_t contexts, threads;    /* held now; threads beside the callers' */
  int64_t weight_bytes;         /* prepared weights, each counted once */
  int64_t working_bytes;        /* of all contexts */
  int64_t specialised_bytes;    /* of specialisations: what max_memory bounds */
  int64_t streams, state_bytes; /* open now; the memory of their states */
} metac_session_report;
METAC_API metac_status metac_session_get_report(const metac_session* session, metac_session_report* report);

#ifdef __cplusplus
}
#endif
#endif

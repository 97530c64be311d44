/* Lazy Vars: models written as code, of which nothing runs until a value is looked at. docs/lazy.md shows how; C++ has
 * metac/var.hpp and metac/op.hpp, Python has metac.array and metac.op.
 *
 * A Var is a handle: a value that is there or is yet to be computed, of a fixed shape and element type. Every function that
 * can fail returns a status, as those of metac.h do, and sets its results on success only; metac_last_error() says more.
 * All functions may be called from several threads; one at a time is in the graph. Vars are freed with metac_var_free(),
 * which may be called at any time. */
#ifndef METAC_VAR_H
#define METAC_VAR_H
#include "metac.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct metac_var metac_var;
/* An operator with its attributes. There is one object for each; it stays for the life of the process. */
typedef struct metac_operator metac_operator;
/* A model that was traced. */
typedef struct metac_traced metac_traced;

/* Where in the caller's program something is written, for messages. `file` must stay for the life of the process. */
typedef struct metac_site {
  const char* file; /* NULL: not known */
  int32_t line;
} metac_site;

typedef enum metac_attribute_kind {
  METAC_INTEGER = 0,
  METAC_REAL = 1,
  METAC_STRING = 2,
  METAC_TENSOR = 3,
  METAC_INTEGERS = 5,
  METAC_REALS = 6,
  METAC_STRINGS = 7
} metac_attribute_kind;

typedef struct metac_attribute {
  const char* name;
  int32_t kind;  /* metac_attribute_kind */
  int32_t count; /* of integers, reals, strings */
  int64_t integer;
  double real;
  const char* string;
  const int64_t* integers;
  const double* reals;
  const char* const* strings;
  const metac_tensor* tensor;
} metac_attribute;

/* An operator of the registry and what it takes; opsets are those that are newest. */
typedef struct metac_schema {
  size_t size; /* set by the caller to sizeof(metac_schema) */
  const char *domain, *name;
  int32_t min_inputs, max_inputs; /* max -1: any number */
  int32_t min_outputs, max_outputs;
  int32_t attribute_count;
  const char* const* attribute_names;
  const int32_t* attribute_kinds;    /* metac_attribute_kind */
  const int32_t* attribute_required; /* 1: it must be given */
  const char* no_function;           /* why it cannot be applied; "": it can */
} metac_schema;

/* Schemas by position, sorted by domain and name; METAC_INVALID_ARGUMENT beyond the last. What they point to stays. */
METAC_API metac_status metac_operator_schema(int32_t index, metac_schema* schema);
/* "" is ONNX's own domain; what metac_define() made is found too ("user"). Unknown operators and attributes are METAC_MODEL. */
METAC_API metac_status metac_operator_find(const char* domain, const char* name, const metac_attribute* attributes,
                                           int32_t count, const metac_operator** found);

/* ---- making Vars ---- */
/* The elements are copied. */
METAC_API metac_status metac_var_from(const metac_tensor* elements, metac_var** var);
/* At most 64 elements, which become part of the structure: shapes, axes, lists of numbers. Another content is another
 * program. */
METAC_API metac_status metac_var_constant(const metac_tensor* elements, metac_var** var);
/* A number beside a Var: of its dtype, but real numbers beside integers are float32. */
METAC_API metac_status metac_var_number(const metac_var* beside, double value, int32_t is_real, metac_var** var);
METAC_API void metac_var_free(metac_var* var);

/* ---- appending ---- */
/* Operands may be NULL where the operator lets them be left out. */
METAC_API metac_status metac_var_apply(const metac_operator* applied, metac_var* const* inputs, int32_t input_count,
                                       metac_var** outputs, int32_t output_count, const metac_site* site);
/* Operands of different dtypes meet in the one that holds both. */
typedef enum metac_arithmetic {
  METAC_ADD, METAC_SUBTRACT, METAC_MULTIPLY, METAC_DIVIDE, METAC_FLOOR_DIVIDE, METAC_MODULO, METAC_POWER, METAC_MATMUL,
  METAC_EQUAL, METAC_NOT_EQUAL, METAC_LESS, METAC_LESS_EQUAL, METAC_GREATER, METAC_GREATER_EQUAL,
  METAC_AND, METAC_OR, METAC_XOR
} metac_arithmetic;
METAC_API metac_status metac_var_arithmetic(int32_t what, metac_var* a, metac_var* b, metac_var** result,
                                            const metac_site* site);
/* The same with a number, as metac_var_number() has it; `swapped`: the number is the left operand. */
METAC_API metac_status metac_var_arithmetic_number(int32_t what, metac_var* a, double number, int32_t is_real,
                                                   int32_t swapped, metac_var** result, const metac_site* site);
METAC_API metac_status metac_var_cast(metac_var* var, int32_t dtype, metac_var** result, const metac_site* site);
/* The derivatives of the sum of y by each of xs, of any order: they are Vars like others. METAC_INVALID_ARGUMENT where y
 * does not depend on one of them. */
METAC_API metac_status metac_var_gradient(metac_var* y, metac_var* const* xs, int32_t count, metac_var** outputs,
                                          const metac_site* site);
/* The Var becomes a new version: the value, through which no derivative passes to what made it. What was computed of older
 * versions keeps what it read. Shapes and dtypes must be equal. */
METAC_API metac_status metac_var_assign(metac_var* var, metac_var* value, const metac_site* site);
/* 1: what this thread appends from now on passes no derivatives; 0: it does. Returns what it was. */
METAC_API int32_t metac_no_grad(int32_t on);

/* ---- looking ---- */
/* Type and shape; `data` is NULL. They stay for the life of the process. */
METAC_API metac_status metac_var_type(const metac_var* var, metac_tensor* type);
/* 1: the value is there; 0: it is yet to be computed. */
METAC_API int32_t metac_var_exists(const metac_var* var);
/* Has these computed, with what is held and reads something of them. */
METAC_API metac_status metac_var_evaluate(metac_var* const* vars, int32_t count, const metac_site* site);
/* The elements, computed if they are not there, as output 0 of a result, which holds them whatever becomes of the Var. */
METAC_API metac_status metac_var_read(metac_var* var, metac_result** result, const metac_site* site);

/* Calls `done` once, when a look has computed all of these, on the thread that looked and before its call returns; at once where
 * they are there. `values` has one output for each, and is done's to free. The Vars are held until then; of what
 * one look computes, what was asked for first is called first. It may use Vars. */
METAC_API metac_status metac_var_fetch(metac_var* const* vars, int32_t count,
                                       void (*done)(void* user, metac_result* values), void* user);
/* Has everything computed that somebody waits for so. */
METAC_API metac_status metac_graph_sync(const metac_site* site);

/* What was done since the process began, and what is there now. */
typedef struct metac_graph_report {
  size_t size;       /* set by the caller to sizeof(metac_graph_report) */
  int64_t nodes;     /* appended */
  int64_t looks;     /* that computed something */
  int64_t walks;     /* looks that no plan was known for */
  int64_t compiled;  /* programs made */
  int64_t pending;   /* nodes that wait */
  int64_t history;   /* nodes that have run and are kept for gradients */
  int64_t live;      /* all nodes */
} metac_graph_report;
METAC_API metac_status metac_graph_get_report(metac_graph_report* report);

/* ---- training ---- */
/* A recipe's loss (docs/training.md), in JSON: "\"mse\"", or "{\"kind\": \"cross_entropy\", ...}". Both have the batch
 * first. */
METAC_API metac_status metac_var_loss(const char* loss, metac_var* output, metac_var* target, metac_var** result,
                                      const metac_site* site);
/* The same of each sample, [batch]: what an evaluation adds up. */
METAC_API metac_status metac_var_losses(const char* loss, metac_var* output, metac_var* target, metac_var** result,
                                        const metac_site* site);
/* A recipe's optimizer in JSON, and the Vars that it updates: it holds them. An object of the recipe's "optimizer" and
 * "accumulate", "clip", "average", "groups", "non_finite" is its whole update: gradients of `accumulate` steps are averaged,
 * clipped and applied in the last of them; slots "accumulated" and "average" are further things that it keeps.
 *
 * "groups" are deviations for parameters by the patterns of their names, which metac_optimiser_make() takes to be "0", "1",
 * ...; a pattern that matches none is METAC_MODEL. A frozen parameter stays as it is: it has no slots, and no gradient is
 * given for it. With "non_finite" "skip" a step changes nothing where an element of a gradient is NaN or infinite; with
 * "accumulate" the next step takes its place. */
typedef struct metac_optimiser metac_optimiser;
METAC_API metac_status metac_optimiser_make(const char* optimiser, metac_var* const* parameters, int32_t count,
                                            metac_optimiser** made);
METAC_API metac_status metac_optimiser_make_named(const char* optimiser, metac_var* const* parameters,
                                                  const char* const* names, int32_t count, metac_optimiser** made);
METAC_API void metac_optimiser_free(metac_optimiser* optimiser);
/* 0: parameter `parameter` is frozen. */
METAC_API metac_status metac_optimiser_trains(metac_optimiser* optimiser, int32_t parameter, int32_t* trains);
/* Assigns the next values, for one gradient of each parameter that trains; nothing is computed yet. `rate`: the learning
 * rate; below 0: the recipe's own. */
METAC_API metac_status metac_optimiser_step(metac_optimiser* optimiser, metac_var* const* gradients, int32_t count,
                                            double rate, const metac_site* site);
/* What it keeps, for checkpoints: slot `slot` of parameter `parameter` as a Var that the caller frees and may assign, and
 * its name; METAC_INVALID_ARGUMENT beyond the last. The number of steps is metac_optimiser_steps(), which may be set; with
 * "accumulate" so many steps are one update. Steps that "non_finite" left out do not count, so that asking looks at them. */
METAC_API metac_status metac_optimiser_slot(metac_optimiser* optimiser, int32_t parameter, int32_t slot, metac_var** var,
                                            const char** name);
METAC_API metac_status metac_optimiser_steps(metac_optimiser* optimiser, int64_t* steps, int32_t set);

/* ---- tracing ---- */
/* An argument of a function that is traced: a Var of that type which never has a value. */
METAC_API metac_status metac_var_placeholder(const metac_tensor* type, metac_var** var, const metac_site* site);
/* The model that gives `outputs` from `inputs`, which are placeholders. Vars with values that it reads become initialisers;
 * those of `weights` get their names. Names may be NULL: they are made then. */
METAC_API metac_status metac_traced_make(metac_var* const* inputs, const char* const* input_names, int32_t input_count,
                                         metac_var* const* outputs, const char* const* output_names, int32_t output_count,
                                         metac_var* const* weights, const char* const* weight_names, int32_t weight_count,
                                         metac_traced** model);
/* A dim that is to be open: axis `axis` of input `input`. Dims of one name have one size. */
typedef struct metac_open_dim {
  int32_t input, axis;
  const char* name;
} metac_open_dim;
/* The sizes of the dims in call number `call` of the function, where they are `given` in the user's own arguments;
 * METAC_INVALID_ARGUMENT beyond the last. The last two calls stand for one another: where the function refuses the sizes of
 * the first, the second is made. */
METAC_API metac_status metac_traced_sizes(const metac_open_dim* dims, int32_t dim_count, const int64_t* given, int32_t call,
                                        int64_t* sizes);
/* The same with open dims: the function was called with placeholders of several sizes, and what differs between the calls
 * tells what depends on sizes. `inputs` and `outputs` have those of the first call, then those of the second, ...;
 * METAC_MODEL where the calls do different things, or a number is no formula of dims. */
METAC_API metac_status metac_traced_make_open(const metac_open_dim* dims, int32_t dim_count, int32_t call_count,
                                              metac_var* const* inputs, const char* const* input_names, int32_t input_count,
                                              metac_var* const* outputs, const char* const* output_names,
                                              int32_t output_count, metac_var* const* weights,
                                              const char* const* weight_names, int32_t weight_count, metac_traced** model);
METAC_API void metac_traced_free(metac_traced* model);
/* To a path that ends in ".onnx" or ".json". */
METAC_API metac_status metac_traced_save(const metac_traced* model, const char* path);
/* Runs `metac compile` with these further arguments; the program stands beside the library, or METAC_PROGRAM says where.
 * What it printed is the message where it fails. */
METAC_API metac_status metac_traced_compile(const metac_traced* model, const char* folder, const char* const* arguments,
                                           int32_t argument_count);
/* The initialisers of a model file by their names, as outputs of a result: what a network written as code can take. Strings and
 * packed numbers of 2 and 4 bits are left out. */
METAC_API metac_status metac_var_weights(const char* path, metac_result** weights);
/* A session of the model, as metac_session_open_memory() opens it. */
METAC_API metac_status metac_traced_session(const metac_traced* model, const metac_session_options* options,
                                           metac_session** session);

#ifdef __cplusplus
}
#endif
#endif

/* Data and the course of a training, for loops that are written as code (docs/lazy.md): batches of Vars, learning rates,
 * checkpoints, the log and the curves, and several processes under one launcher. The formats, the formulas and the words are
 * those of recipes and of the programs that are made of them (docs/training.md, docs/training_program.md).
 *
 * As in var.h every function that can fail returns a status, and sets its results on success only. Data, folders and
 * checkpoints that cannot be read or written are METAC_MODEL; the message names file and value. An object is used by one
 * thread at a time. */
#ifndef METAC_TRAIN_H
#define METAC_TRAIN_H
#include "var.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- several processes ---- */
/* The processes that the launcher started together (`mpirun -n 4 ...`; Open MPI), or this one alone: then nothing below costs
 * anything. There is one object for a process, which is opened once. */
typedef struct metac_processes metac_processes;
METAC_API metac_status metac_processes_open(metac_processes** opened);
METAC_API int32_t metac_processes_rank(const metac_processes* processes);
METAC_API int32_t metac_processes_size(const metac_processes* processes);
/* Means over all processes, added up in their order, so that all have the same bits: of Vars of float32 or float64, in the
 * same order everywhere. They are computed for it. */
METAC_API metac_status metac_processes_average(metac_processes* processes, metac_var* const* vars, int32_t count,
                                               metac_var** outputs, const metac_site* site);
/* Each number becomes the sum over all processes. */
METAC_API metac_status metac_processes_sum(metac_processes* processes, double* values, int32_t count);
/* All end together: nothing can be asked of them afterwards. Who ends without it makes the launcher end the others. */
METAC_API metac_status metac_processes_finish(metac_processes* processes);
METAC_API void metac_processes_free(metac_processes* processes);

/* ---- data ---- */
typedef struct metac_data metac_data;
typedef struct metac_loader metac_loader;
/* A recipe's "data" in JSON, whose paths begin in `folder`. `fields`: name, dtype and dims of one sample of each field that a
 * batch shall have; of metac_tensor nothing else is looked at. `seed` chooses what is set aside for validation, and the
 * loaders' order and augmentation. */
METAC_API metac_status metac_data_open(const char* data, const char* folder, int64_t seed, const metac_tensor* fields,
                                       int32_t field_count, metac_data** opened);
/* The same of arrays in memory, which are copied; their first axis counts the samples. `data` has no "format", "train" and
 * "validation" then, and "from" names an array. */
METAC_API metac_status metac_data_of_arrays(const char* data, const metac_tensor* arrays, int32_t array_count, int64_t seed,
                                            const metac_tensor* fields, int32_t field_count, metac_data** opened);
/* Loaders must be freed before their data. */
METAC_API void metac_data_free(metac_data* data);
/* Samples for training, or set aside for validation. */
METAC_API int64_t metac_data_samples(const metac_data* data, int32_t validation);
/* Names of classes by number, of folders of pictures and columns of words; NULL beyond the last. They stay as long as the
 * data. */
METAC_API const char* metac_data_class(const metac_data* data, int32_t index);

typedef struct metac_loader_options {
  size_t size;        /* set by the caller to sizeof(metac_loader_options) */
  int64_t batch;      /* samples of a batch of this process */
  int32_t validation; /* 1: the samples set aside, in order, as they are, the last batch filled up. 0: those for training, in
                       * the order of the epoch, augmented; a last batch that is not full as "drop_last" says */
  int32_t threads;    /* that make batches; 0: one, more for pictures. The batches do not depend on it */
  metac_processes* processes; /* NULL: this one has all samples. Else each has its part of the batch of all */
} metac_loader_options;
METAC_API metac_status metac_loader_make(metac_data* data, const metac_loader_options* options, metac_loader** made);
METAC_API void metac_loader_free(metac_loader* loader);
/* Batches of an epoch. */
METAC_API int64_t metac_loader_batches(const metac_loader* loader);
/* The next batch is this one of this epoch, both from 0; behind an epoch's last comes the next epoch's first. */
METAC_API metac_status metac_loader_start(metac_loader* loader, int64_t epoch, int64_t batch);
/* One Var for each field, [batch, dims]. The first `valid` samples count; the rest fills the batch up. */
METAC_API metac_status metac_loader_next(metac_loader* loader, metac_var** fields, int32_t count, int64_t* valid);

/* ---- learning rates ---- */
/* The rate of update `update` (from 0) by a recipe's "schedule" in JSON: "{\"kind\": \"cosine\"}". rate: the greatest;
 * updates: of the whole run; per_epoch: updates of an epoch. */
typedef struct metac_schedule metac_schedule;
METAC_API metac_status metac_schedule_make(const char* schedule, double rate, int64_t updates, double per_epoch,
                                           metac_schedule** made);
METAC_API metac_status metac_schedule_rate(const metac_schedule* schedule, int64_t update, double* rate);
METAC_API void metac_schedule_free(metac_schedule* schedule);

/* ---- the course of a run ---- */
/* A folder with checkpoints/, log.jsonl, curves.svg and, with patience, best.safetensors, as training programs leave it
 * behind; it is used by one program at a time. Lines about the course go to the standard error stream, as theirs do. */
typedef struct metac_run metac_run;

typedef struct metac_run_metric {
  const char* name;
  int32_t greater_is_better;
} metac_run_metric;

typedef struct metac_run_options {
  size_t size; /* set by the caller to sizeof(metac_run_options) */
  const char* folder;
  const char* name;  /* of what is trained, for people; NULL: "run" */
  const char* about; /* loss and optimiser, for people; NULL: none */
  const metac_run_metric* metrics; /* beside the loss */
  int32_t metric_count;
  int32_t watched;          /* what patience and the best epoch look at: a metric from 1, 0 the loss */
  int64_t seed;             /* that the data were opened with: a run goes on with no other */
  int64_t epochs;           /* 0: 10 */
  int64_t batches;          /* steps of an epoch */
  int64_t batch;            /* samples of a step of this process */
  int64_t accumulate;       /* steps of an update; 0: 1 */
  int64_t checkpoint_every; /* updates; 0: at the end of every epoch */
  int64_t checkpoints_kept; /* 0: 2 */
  int64_t log_every;        /* updates; 0: 1 */
  int64_t patience;         /* epochs without a better one after which it is finished; 0: never */
  int32_t resume;           /* 1: from the newest whole checkpoint, if there is one */
  int32_t restart;          /* 1: those of an earlier run are removed */
  int32_t strict;           /* 1: a damaged checkpoint is refused instead of going back to the one before */
  int32_t quiet;            /* 1: warnings alone */
  int32_t catch_signals;    /* 1: SIGINT and SIGTERM, while the run is open, end it behind the step with a checkpoint */
  metac_processes* processes; /* NULL: this one alone */
  const char* non_finite;     /* "stop", also for NULL, or "skip": what metac_run_step() does about NaN and infinity */
} metac_run_options;

METAC_API metac_status metac_run_open(const metac_run_options* options, metac_run** opened);
/* What checkpoints have, by names of their own; all of it before metac_run_begin(). The run holds the Vars. statistic 1:
 * steps have it averaged over the processes, as running means are. */
METAC_API metac_status metac_run_keep(metac_run* run, const char* name, metac_var* var, int32_t statistic);
/* Slots and steps of an optimiser; the names are those of its parameters. With several processes its steps average the
 * gradients from now on. The optimiser must live as long as the run. One of a run that skips must skip as well. */
METAC_API metac_status metac_run_keep_optimiser(metac_run* run, metac_optimiser* optimiser, const char* const* names,
                                                int32_t count);
/* A number beside Vars: what a resumed run has is in it behind metac_run_begin(), and can be set at any time. */
METAC_API metac_status metac_run_number(metac_run* run, const char* name, int64_t* value, int32_t set);
/* Takes the newest checkpoint, or begins; all processes have the states of the first one then. */
METAC_API metac_status metac_run_begin(metac_run* run, int32_t* resumed);

/* Where a run is. `batch` is the next one of `epoch`; batch == batches: the epoch's end is due. */
typedef struct metac_run_place {
  size_t size; /* set by the caller to sizeof(metac_run_place) */
  int64_t update, epoch, batch, epochs, batches;
  int64_t best_epoch; /* from 1; -1: none yet */
  double best;        /* its value of what is watched */
  int32_t finished;   /* 1: all epochs are done, or patience is at its end */
  int64_t skipped;    /* steps that were left out */
} metac_run_place;
METAC_API metac_status metac_run_get_place(const metac_run* run, metac_run_place* place);
/* Behind a step of the optimiser: its loss and metrics, which are scalars, go into the log, as means over the processes;
 * `rate` too. NaN and infinity among them are METAC_MODEL, in all processes, and the message says where; the newest checkpoint
 * is from before. `interrupted`: the signal that came, after which a checkpoint was written, else 0.
 *
 * A run with "skip" warns instead and leaves the step out, also where a kept optimiser left it out for its gradients: it is
 * in no sum and no update, and all Vars and optimisers that the run keeps become what they were. The eleventh in a row is
 * METAC_MODEL. */
METAC_API metac_status metac_run_step(metac_run* run, metac_var* loss, metac_var* const* metrics, int32_t metric_count,
                                      double rate, int32_t* interrupted, const metac_site* site);
/* In a run that skips, for who assigns what it keeps between two steps: a step that is left out goes back to here, and not
 * to where the step before ended. */
METAC_API metac_status metac_run_before_step(metac_run* run);
/* Behind an epoch's last step. scores: loss and metrics on the validation data, of all processes; NULL: there are none. */
METAC_API metac_status metac_run_end_epoch(metac_run* run, const double* scores, int32_t count, int32_t* best);
/* A checkpoint now. */
METAC_API metac_status metac_run_save(metac_run* run);
/* What is kept becomes what it was behind the best epoch; that needs patience. */
METAC_API metac_status metac_run_load_best(metac_run* run);
METAC_API void metac_run_close(metac_run* run);

#ifdef __cplusplus
}
#endif
#endif

// The functions of metac/train.h for the course of a run.
#include "compiler/library/options.h"
#include "compiler/library/train_run.h"

using namespace metac;
using namespace metac::library;

metac_status metac_run_open(const metac_run_options* options, metac_run** opened) {
  return answered([&] {
    need(options, "options"), need(opened, "opened");
    check_size("metac_run_options", options->size, sizeof(metac_run_options));
    *opened = new metac_run(*options);
  });
}

metac_status metac_run_keep(metac_run* run, const char* name, metac_var* var, int32_t statistic) {
  return answered([&] {
    need(run, "run"), need(name, "name"), need(var, "var");
    run->keep(name, var, statistic != 0);
  });
}

metac_status metac_run_keep_optimiser(metac_run* run, metac_optimiser* optimiser, const char* const* names, int32_t count) {
  return answered([&] {
    need(run, "run"), need(optimiser, "optimiser"), need(names, "names");
    run->keep_optimiser(optimiser, names, count);
  });
}

metac_status metac_run_number(metac_run* run, const char* name, int64_t* value, int32_t set) {
  return answered([&] {
    need(run, "run"), need(name, "name"), need(value, "value");
    int64_t& own = run->number(name);
    if (set)
      own = *value;
    else
      *value = own;
  });
}

metac_status metac_run_begin(metac_run* run, int32_t* resumed) {
  return answered([&] {
    need(run, "run"), need(resumed, "resumed");
    *resumed = run->begin();
  });
}

metac_status metac_run_get_place(const metac_run* run, metac_run_place* place) {
  return answered([&] {
    need(run, "run"), need(place, "place");
    check_size("metac_run_place", place->size, sizeof(metac_run_place));
    run->place(place);
  });
}

metac_status metac_run_step(metac_run* run, metac_var* loss, metac_var* const* metrics, int32_t metric_count, double rate,
                            int32_t* interrupted, const metac_site* site) {
  return answered([&] {
    need(run, "run"), need(loss, "loss"), need(interrupted, "interrupted");
    if (metric_count > 0) need(metrics, "metrics");
    *interrupted = run->step(loss, metrics, metric_count, rate, site_of(site));
  });
}

metac_status metac_run_before_step(metac_run* run) {
  return answered([&] {
    need(run, "run");
    run->before_step();
  });
}

metac_status metac_run_end_epoch(metac_run* run, const double* scores, int32_t count, int32_t* best) {
  return answered([&] {
    need(run, "run"), need(best, "best");
    *best = run->end_epoch(scores, count);
  });
}

metac_status metac_run_save(metac_run* run) {
  return answered([&] {
    need(run, "run");
    run->save();
  });
}

metac_status metac_run_load_best(metac_run* run) {
  return answered([&] {
    need(run, "run");
    run->load_best();
  });
}

void metac_run_close(metac_run* run) {
  answered([&] { delete run; });
}

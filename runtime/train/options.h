// The command line of a training program.
#pragma once
#include <algorithm>
#include <iterator>
#include <optional>

#include "../caller/program_options.h"
#include "fault.h"
#include "train_tables.h"

namespace metac::train {

struct Options {
  std::string data = ".", out, init, checkpoint;
  std::optional<int64_t> epochs, updates, seed, checkpoint_every, keep, log_every, evaluate_every, patience;
  std::optional<double> rate, silence;
  std::optional<NonFinite> non_finite;
  int threads = 0, loaders = 0;
  bool resume = false, restart = false, strict = false, evaluate = false, export_only = false, info = false, profile = false,
       quiet = false, help = false, version = false;
  bool on_training_data = false;
};

// What a step takes, against the bound it was compiled for.
inline std::string memory_text(const Settings& s) {
  auto mib = [](int64_t bytes) { return text_of((bytes + (1 << 19)) >> 20, " MiB"); };
  return text_of(
      "memory: a step takes ", mib(s.step_bytes), ", states included, and the next states where they do not overwrite them",
      s.memory_budget > 0
          ? text_of("; the budget was ", mib(s.memory_budget), ", ", s.recomputed, " values are made a second time")
          : std::string());
}

// What the program does, with the defaults that were compiled in.
inline std::string help_text(const TrainTables& t) {
  const Settings& s = t.settings;
  const std::string name = std::string(t.name) + "_train";
  return text_of(
      name, ": trains ", t.name, " (", t.loss, ", ", t.optimiser, ", ", s.batch, " samples a batch",
      s.accumulate > 1 ? text_of(", ", s.accumulate, " batches an update") : "", ").\n", memory_text(s), ".\n\n", "  ", name,
      " --data DIR                  train, from the beginning\n", "  ", name,
      " --data DIR --resume         go on where an interrupted run was\n", "  ", name,
      " --data DIR --evaluate       score the newest checkpoint on the validation data\n", "  ", name,
      " --export-only               write the trained network from the newest checkpoint\n\n", "Where things are\n",
      "  --data DIR            folder that the recipe's paths begin at (default: here)\n",
      "  --out DIR             folder of the run: checkpoints/, log.jsonl, curves.svg and the trained network (default: ",
      t.name, "-run)\n",
      "  --init FILE           begin with the values of a safetensors file, as far as names and shapes fit\n",
      "  --checkpoint FILE     for --evaluate and --export-only: this checkpoint, not the newest\n\n", "How long and how\n",
      "  --epochs N            passes over the training data (", s.epochs, ")\n",
      "  --updates N           stop after so many updates in all (default: no limit)\n",
      "  --rate R              greatest learning rate of the schedule (", t.schedule.rate, ")\n",
      "  --seed N              decides order, augmentation, split and dropout (", s.seed, ")\n",
      "  --threads N           of the model's kernels; 0: one per CPU (0). The results do not depend on it\n",
      "  --loaders N           threads that prepare batches; 0: one, more for pictures (0). The results do not depend on "
      "it\n",
      "  --patience N          stop after N epochs without a better ", s.watched >= 0 ? t.metrics[s.watched].name : "loss",
      "; 0: never (", s.patience, ")\n",
      "  --silence S           of several processes: seconds after which one of which nothing is heard is taken for gone "
      "(20)\n",
      "  --non-finite W        when NaN or infinity turns up: stop, or skip that batch (",
      s.non_finite == NonFinite::stop ? "stop" : "skip", ")\n\n", "Safety and reports\n",
      "  --resume              go on from the newest whole checkpoint in --out; the result is the same, bit for bit, as "
      "without the break\n",
      "  --strict              with --resume: refuse a damaged checkpoint instead of going back to the one before\n",
      "  --restart             remove the checkpoints of an earlier run in --out and begin anew\n",
      "  --checkpoint-every N  updates between checkpoints; 0: one at the end of every epoch (", s.checkpoint_every, ")\n",
      "  --keep N              checkpoints that are kept (", s.checkpoints_kept, ")\n",
      "  --log-every N         updates between lines of the log (", s.log_every, ")\n",
      "  --evaluate-every N    epochs between evaluations (", s.evaluate_every, ")\n",
      "  --on training         --evaluate on the training data instead of the validation data\n",
      "  --quiet               no progress, errors alone\n",
      "  --profile             at the end: which kernels of a step took how long\n",
      "  --info                what this program trains: parameters, data, settings\n", "  --version, --help\n\n",
      "Ctrl-C writes a checkpoint and stops; once more stops at once. Exit status: 0 good, 1 data, files or numbers are at "
      "fault,\n",
      "2 wrong usage, 130 or 143 interrupted (and ready for --resume).\n");
}

inline Options parse_options(int count, char** values) {
  Options o;
  const std::pair<const char*, bool*> flags[] = {{"--resume", &o.resume},
                                                 {"--restart", &o.restart},
                                                 {"--strict", &o.strict},
                                                 {"--evaluate", &o.evaluate},
                                                 {"--export-only", &o.export_only},
                                                 {"--info", &o.info},
                                                 {"--profile", &o.profile},
                                                 {"--quiet", &o.quiet},
                                                 {"--help", &o.help},
                                                 {"-h", &o.help},
                                                 {"--version", &o.version}};
  std::vector<std::string> known = {"--data",    "--out",        "--init",          "--checkpoint", "--epochs",
                                    "--updates", "--rate",       "--silence",       "--seed",       "--threads",
                                    "--loaders", "--patience",   "--keep",          "--log-every",  "--checkpoint-every",
                                    "--on",      "--non-finite", "--evaluate-every"};
  for (const auto& [name, value] : flags) known.push_back(name);
  METAC_RUNTIME_NAMESPACE::ProgramOptions line(count, values, known, "data are named by --data DIR");
  while (line.next()) {
    const auto* flag = std::find_if(std::begin(flags), std::end(flags), [&](const auto& f) { return line.is(f.first); });
    if (flag != std::end(flags))
      *flag->second = true;
    else if (line.is("--data"))
      o.data = line.text();
    else if (line.is("--out"))
      o.out = line.text();
    else if (line.is("--init"))
      o.init = line.text();
    else if (line.is("--checkpoint"))
      o.checkpoint = line.text();
    else if (line.is("--epochs"))
      o.epochs = line.whole(0);
    else if (line.is("--updates"))
      o.updates = line.whole(0);
    else if (line.is("--rate"))
      o.rate = line.positive();
    else if (line.is("--silence"))
      o.silence = line.positive();
    else if (line.is("--seed"))
      o.seed = line.whole(INT64_MIN);
    else if (line.is("--threads"))
      o.threads = static_cast<int>(line.whole(0, 4096));
    else if (line.is("--loaders"))
      o.loaders = static_cast<int>(line.whole(0, 256));
    else if (line.is("--patience"))
      o.patience = line.whole(0);
    else if (line.is("--checkpoint-every"))
      o.checkpoint_every = line.whole(0);
    else if (line.is("--keep"))
      o.keep = line.whole(1, 1000000);
    else if (line.is("--log-every"))
      o.log_every = line.whole(1);
    else if (line.is("--evaluate-every"))
      o.evaluate_every = line.whole(1);
    else if (line.is("--non-finite"))
      o.non_finite = line.choice({"stop", "skip"}) == 0 ? NonFinite::stop : NonFinite::skip;
    else if (line.is("--on"))
      o.on_training_data = line.choice({"validation", "training"}) == 1;
    else
      line.unknown();
  }
  if (o.evaluate && o.export_only) line.wrong("--evaluate and --export-only exclude each other");
  if (o.resume && o.restart) line.wrong("--resume and --restart exclude each other");
  if (o.resume && !o.init.empty())
    line.wrong("--resume and --init exclude each other: a resumed run has its values from the checkpoint");
  if (!line.error().empty()) throw Fault(line.error() + "; --help lists the options", 2);
  return o;
}

}  // namespace metac::train

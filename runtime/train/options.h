// The command line of a training program.
#pragma once
#include <cstdlib>
#include <optional>

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

class OptionParser {
 public:
  OptionParser(int count, char** values) : count_(count), values_(values) {}

  Options parse() {
    Options o;
    for (at_ = 1; at_ < count_; ++at_) {
      option_ = values_[at_];
      const size_t equals = option_.rfind("--", 0) == 0 ? option_.find('=') : std::string::npos;  // --epochs=3
      attached_.reset();
      if (equals != std::string::npos) attached_ = option_.substr(equals + 1), option_.resize(equals);
      if (option_ == "--data")
        o.data = text();
      else if (option_ == "--out")
        o.out = text();
      else if (option_ == "--init")
        o.init = text();
      else if (option_ == "--checkpoint")
        o.checkpoint = text();
      else if (option_ == "--epochs")
        o.epochs = integer(0);
      else if (option_ == "--updates")
        o.updates = integer(0);
      else if (option_ == "--rate")
        o.rate = number();
      else if (option_ == "--silence")
        o.silence = number();
      else if (option_ == "--seed")
        o.seed = integer(INT64_MIN);
      else if (option_ == "--threads")
        o.threads = static_cast<int>(integer(0, 4096));
      else if (option_ == "--loaders")
        o.loaders = static_cast<int>(integer(0, 256));
      else if (option_ == "--patience")
        o.patience = integer(0);
      else if (option_ == "--checkpoint-every")
        o.checkpoint_every = integer(0);
      else if (option_ == "--keep")
        o.keep = integer(1, 1000000);
      else if (option_ == "--log-every")
        o.log_every = integer(1);
      else if (option_ == "--evaluate-every")
        o.evaluate_every = integer(1);
      else if (option_ == "--non-finite")
        o.non_finite = choice({"stop", "skip"}) == 0 ? NonFinite::stop : NonFinite::skip;
      else if (option_ == "--on")
        o.on_training_data = choice({"validation", "training"}) == 1;
      else if (!flag(&o))
        unknown();
    }
    if (o.evaluate && o.export_only) wrong("--evaluate and --export-only exclude each other");
    if (o.resume && o.restart) wrong("--resume and --restart exclude each other");
    if (o.resume && !o.init.empty())
      wrong("--resume and --init exclude each other: a resumed run has its values from the checkpoint");
    return o;
  }

 private:
  [[noreturn]] static void wrong(const std::string& message) { throw Fault(message, 2); }

  bool flag(Options* o) {
    const std::pair<const char*, bool*> flags[] = {{"--resume", &o->resume},
                                                   {"--restart", &o->restart},
                                                   {"--strict", &o->strict},
                                                   {"--evaluate", &o->evaluate},
                                                   {"--export-only", &o->export_only},
                                                   {"--info", &o->info},
                                                   {"--profile", &o->profile},
                                                   {"--quiet", &o->quiet},
                                                   {"--help", &o->help},
                                                   {"-h", &o->help},
                                                   {"--version", &o->version}};
    for (const auto& [name, value] : flags) {
      if (option_ != name) continue;
      if (attached_) wrong(option_ + " takes no value");
      return *value = true;
    }
    return false;
  }
  [[noreturn]] void unknown() const {
    if (option_.rfind("-", 0) != 0) wrong("unexpected argument " + quoted(option_) + " (data are named by --data DIR)");
    wrong("unknown option " + quoted(option_) + "; --help lists them");
  }
  std::string text() {
    if (attached_) return *attached_;
    if (at_ + 1 >= count_) wrong(option_ + " needs a value");
    return values_[++at_];
  }
  int64_t integer(int64_t least, int64_t most = INT64_MAX) {
    const std::string value = text();
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || *end != 0 || errno != 0 || number < least || number > most)
      wrong(option_ + ": " + quoted(value) + " is no whole number" +
            (least > INT64_MIN ? text_of(" of ", least, most < INT64_MAX ? text_of(" to ", most) : std::string(" or more"))
                               : ""));
    return number;
  }
  double number() {
    const std::string value = text();
    std::istringstream in(value);
    in.imbue(std::locale::classic());
    double result = 0;
    if (!(in >> result) || in.peek() != std::char_traits<char>::eof() || !(result > 0) || !(result < 1e30))
      wrong(option_ + ": " + quoted(value) + " is no positive number");
    return result;
  }
  size_t choice(std::initializer_list<const char*> words) {
    const std::string value = text();
    std::string all;
    size_t k = 0;
    for (const char* word : words) {
      if (value == word) return k;
      all += (k++ > 0 ? " or " : "") + std::string(word);
    }
    wrong(option_ + ": " + quoted(value) + " is not " + all);
  }

  int count_, at_ = 1;
  char** values_;
  std::string option_;
  std::optional<std::string> attached_;
};

}  // namespace metac::train

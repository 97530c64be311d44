// The training program: what its options ask for, in order. templates/project/programs/train.cpp calls it with the tables
// of a model.
#pragma once
#include "record/export_weights.h"
#include "record/introduce.h"
#include "trainer.h"

namespace metac::train {

class TrainProgram {
 public:
  TrainProgram(const TrainTables& tables, const Options& options, const Launch& launch)
      : t_(tables),
        o_(options),
        launch_(launch),
        progress_(options.quiet || launch.rank > 0, launch.rank > 0 ? nowhere() : stderr),
        states_(tables, options.non_finite.value_or(tables.settings.non_finite) == NonFinite::stop) {
    if (o_.out.empty()) o_.out = std::string(t_.name) + "-run";
    files_ = (program_folder() / t_.files).lexically_normal().string();
  }

  int run() {
    if (o_.info) return info(), 0;
    if (launch_.size > 1 && (o_.evaluate || o_.export_only))
      fail_alone("evaluating and exporting are for one process: start it without mpirun", 2);
    if (o_.export_only) return export_only();
    return o_.evaluate ? evaluate_only() : train();
  }

 private:
  static std::filesystem::path program_folder() {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? std::filesystem::path(".") : program.parent_path();
  }

  // ---- what is trained ----
  static std::string size_text(int64_t elements) {
    return elements == 1 ? "1 number" : short_number(static_cast<double>(elements)) + " numbers";
  }
  int64_t elements_of(StateRole role) const {
    int64_t sum = 0;
    for (int32_t s = 0; s < t_.state_count; ++s) sum += t_.states[s].role == role ? elements(t_.states[s]) : 0;
    return sum;
  }
  std::string model_line() const {
    const int64_t trained = elements_of(StateRole::parameter), frozen = elements_of(StateRole::frozen);
    return text_of(t_.name, ": ", short_number(static_cast<double>(trained)), " parameters to train",
                   frozen > 0 ? text_of(", ", short_number(static_cast<double>(frozen)), " frozen") : "", "; ", t_.loss,
                   ", ", t_.optimiser, ", ", t_.settings.batch, " samples a batch",
                   t_.settings.accumulate > 1 ? text_of(", ", t_.settings.accumulate, " batches an update") : "");
  }
  void info() const {
    static const char* const roles[] = {"trained", "frozen", "optimiser", "average", "statistic", "counter", "kept"};
    std::printf("%s\nmade by %s, program %s\n%s\n\n", model_line().c_str(), t_.version, t_.program,
                memory_text(t_.settings).c_str());
    for (int32_t f = 0; f < t_.field_count; ++f)
      std::printf("data       %-40s %s %s, from \"%s\"\n", quoted(t_.fields[f].name).c_str(), dtype_name(t_.fields[f].dtype),
                  shape_text(t_.fields[f].dims, static_cast<size_t>(t_.fields[f].rank)).c_str(), t_.data.fields[f].from);
    for (int32_t s = 0; s < t_.state_count; ++s)
      std::printf("%-10s %-40s %s %s\n", roles[static_cast<int32_t>(t_.states[s].role)], quoted(t_.states[s].name).c_str(),
                  dtype_name(t_.states[s].dtype),
                  shape_text(t_.states[s].dims, static_cast<size_t>(t_.states[s].rank)).c_str());
  }

  // ---- states ----
  void load_init() {
    const SafeTensors file = read_safetensors(o_.init, false);
    int32_t taken = 0, candidates = 0;
    for (int32_t s = 0; s < t_.state_count; ++s) {
      const State& about = t_.states[s];
      if (about.role != StateRole::parameter && about.role != StateRole::frozen && about.role != StateRole::statistic &&
          about.role != StateRole::average)
        continue;
      const NamedTensor* tensor = file.find(about.role == StateRole::average ? t_.states[about.partner].name : about.name);
      if (about.role != StateRole::average) ++candidates;
      if (tensor == nullptr || tensor->dtype != about.dtype ||
          tensor->dims != std::vector<int64_t>(about.dims, about.dims + about.rank))
        continue;
      std::memcpy(states_.value(s), tensor->data, static_cast<size_t>(tensor->bytes));
      if (about.role != StateRole::average) ++taken;
    }
    if (taken == 0)
      fail(o_.init, " has none of the ", candidates, " parameters of this model under its name and with its shape");
    progress_.say(text_of(o_.init, ": ", taken, " of ", candidates, " parameters taken over"));
  }

  Position beginning() const {
    Position p;
    p.seed = o_.seed.value_or(t_.settings.seed);
    p.rate = t_.schedule.rate;
    p.epochs = t_.settings.epochs;
    return p;
  }

  // For --evaluate and --export-only: states of the checkpoint they mean. Returns its path.
  std::string load_final(Position* position) {
    const RunFiles files(o_.out);
    if (!o_.checkpoint.empty()) return read_checkpoint(o_.checkpoint, t_, &states_, position), o_.checkpoint;
    std::error_code error;
    if (std::filesystem::exists(files.best(), error))
      return read_checkpoint(files.best(), t_, &states_, position), files.best();
    int64_t update = 0;
    if (!files.checkpoints().load_newest(
            t_, &states_, position, o_.strict, [&](const std::string& line) { progress_.warn(line); }, &update))
      fail("no checkpoint in ", o_.out, "/checkpoints; --out names the folder of a run, --checkpoint a file");
    return files.checkpoints().path(update);
  }

  // ---- modes ----
  int export_only() {
    Position position = beginning();
    const std::string from = load_final(&position);
    std::error_code error;
    std::filesystem::create_directories(o_.out, error);
    states_.keep_final();
    for (const std::string& path : export_all(t_, states_, files_, o_.out)) std::printf("%s\n", path.c_str());
    progress_.say("from " + from);
    return 0;
  }

  int evaluate_only() {
    if (t_.evaluate.run == nullptr) fail("this program was made without an evaluation");
    Position position = beginning();
    const std::string from = load_final(&position);
    const OpenedData data = open_data(t_, o_.data, position.seed);
    const DataOf& part = o_.on_training_data ? data.train : data.validation;
    if (part.samples.empty())
      fail("the recipe names no validation data and no validation split; --on training evaluates on the training data");
    LibrarySession session(t_.evaluate, o_.threads);
    BatchLoader loader(t_, part, {false, t_.settings.evaluates_batches, false, position.seed, loaders()});
    expect_batches(t_, loader);
    CallScalars scalars;
    scalars.seed = position.seed;
    scalars.step = position.update;
    progress_.start(now_seconds());
    const Scores scores = evaluate(t_, session, loader, states_, scalars, [&](int64_t done) {
      if (progress_.due(now_seconds()))
        progress_.show(now_seconds(), "evaluating", static_cast<double>(done) / static_cast<double>(loader.samples()), "",
                       "");
      return received_signal == 0;
    });
    if (scores.samples == 0) return 128 + received_signal;
    progress_.say(text_of(from, ", ", scores.samples, o_.on_training_data ? " training" : " validation", " samples"));
    LogLine line("evaluation");
    line.add("samples", scores.samples).add("loss", scores.loss);
    for (int32_t m = 0; m < t_.metric_count; ++m) line.add(t_.metrics[m].name, scores.metrics[static_cast<size_t>(m)]);
    std::printf("%s", line.text().c_str());
    return 0;
  }

  int loaders() const { return o_.loaders > 0 ? o_.loaders : usual_loaders(t_.data.format); }

  int train() {
    std::unique_ptr<Processes> processes;
    if (launch_.size > 1)
      processes = std::make_unique<Processes>(launch_, t_.exchanges_sums, o_.silence.value_or(Processes::usual_silence));
    if (processes) meet(*processes);
    std::unique_ptr<RunFolder> own;  // of the process that writes
    if (launch_.rank == 0) own = std::make_unique<RunFolder>(o_.out);
    const RunFiles folder(o_.out);
    Position position = beginning();
    const bool resumed = own && load_states(*own, &position);
    if (processes) share_states(*processes, t_, &states_, &position);
    if (o_.epochs) position.epochs = *o_.epochs;
    if (o_.updates) position.updates = *o_.updates;
    if (o_.rate) position.rate = *o_.rate;
    const OpenedData data = open_data(t_, o_.data, position.seed);
    if (data.train.samples.size() > (size_t{1} << 40)) fail("too many samples");
    if (processes) expect_same_data(*processes, t_, data);
    o_.loaders = loaders();
    if (processes && o_.threads == 0) o_.threads = threads_of(launch_);
    auto trainer = std::make_unique<Trainer>(t_, o_, data, folder, states_, position, progress_, processes.get());
    progress_.say(model_line());
    if (processes)
      progress_.say(text_of(launch_.size, " processes: ", launch_.size * t_.settings.batch, " samples a batch in all, ",
                            o_.threads, o_.threads == 1 ? " thread" : " threads", " each"));
    progress_.say(text_of("data: ", data.train.samples.size(), " samples for training",
                          trainer->validates() ? text_of(", ", data.validation.samples.size(), " for validation")
                                               : std::string(", none for validation"),
                          classes_text(*data.train.data)));
    progress_.say(text_of("run: ", o_.out, ", seed ", position.seed, ", ", position.epochs, " epochs of ",
                          trainer->batches_per_epoch(), " batches, ", trainer->total_updates(), " updates"));
    if (o_.resume && !resumed) progress_.say("there is no checkpoint yet: beginning at the start");
    if (resumed) progress_.say(text_of("resuming in epoch ", position.epoch + 1, ", after update ", position.update));
    const bool whole = trainer->run();
    if (o_.profile && own) trainer->print_profile();
    position = trainer->position();
    trainer.reset();  // the export has the memory of the step to itself
    states_.drop_next();
    const int status = !whole ? 128 + received_signal : own ? finish(folder, position) : 0;
    if (processes) processes->finish();
    return status;
  }

  // The process that writes: from the beginning, or from a checkpoint (true).
  bool load_states(const RunFolder& folder, Position* position) {
    if (o_.restart) folder.clear();
    folder.checkpoints().list(true);  // nobody else writes here: what an interrupted program left half written goes
    bool resumed = false;
    if (o_.resume)
      resumed = folder.checkpoints().load_newest(t_, &states_, position, o_.strict,
                                                 [&](const std::string& line) { progress_.warn(line); });
    else if (!folder.checkpoints().list().empty())
      fail(o_.out,
           " holds the checkpoints of an earlier run: --resume goes on with it, --restart removes them, --out names another "
           "folder");
    if (!resumed) states_.load_initial(files_);
    if (!resumed && !o_.init.empty()) load_init();
    if (resumed && o_.seed && *o_.seed != position->seed)
      fail("the run in ", o_.out, " has the seed ", position->seed, ", not ", *o_.seed);
    return resumed;
  }

  // Processes that could not train together say so before anything is done.
  void meet(Processes& processes) {
    if (t_.alone != nullptr)
      processes.fail_together(text_of(t_.name, "_train: ", launch_.size,
                                      " processes were started, and this program is trained by one alone: ", t_.alone));
    const auto option = [](const auto& value) { return value ? text_of(*value) : std::string("none"); };
    introduce(processes, text_of(t_.name, "_train"),
              {{"version", t_.version},
               {"program (model or recipe)", t_.program},
               {"--epochs", option(o_.epochs)},
               {"--updates", option(o_.updates)},
               {"--rate", option(o_.rate)},
               {"--patience", option(o_.patience)},
               {"--evaluate-every", option(o_.evaluate_every)},
               {"--checkpoint-every", option(o_.checkpoint_every)},
               {"--non-finite", o_.non_finite ? *o_.non_finite == NonFinite::stop ? "stop" : "skip" : "none"}});
  }

  [[noreturn]] void fail_alone(const std::string& message, int status) const {
    if (launch_.rank > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the launcher ends all with the first that ends
    throw Fault(launch_.rank > 0 ? std::string() : message, status);
  }
  static FILE* nowhere() {
    static FILE* const file = std::fopen("/dev/null", "w");
    return file == nullptr ? stderr : file;
  }

  static std::string classes_text(const Dataset& data) {
    std::string text;
    for (size_t k = 0; k < data.classes.size() && k < 6; ++k)
      text += (k > 0 ? ", " : "; classes ") + quoted(data.classes[k]) + " = " + std::to_string(k);
    return text + (data.classes.size() > 6 ? text_of(" ... (", data.classes.size(), ")") : "");
  }

  int finish(const RunFiles& folder, const Position& position) {
    std::error_code error;
    if (std::filesystem::exists(folder.best(), error)) {
      Position best;
      read_checkpoint(folder.best(), t_, &states_, &best);
      progress_.say(text_of("the trained network is that of epoch ", best.epoch, ", the best one"));
    }
    states_.keep_final();
    std::string all;
    for (const std::string& path : export_all(t_, states_, files_, folder.path())) all += (all.empty() ? "" : ", ") + path;
    if (position.skipped > 0) progress_.warn(text_of(position.skipped, " batches were left out for NaN or infinity"));
    progress_.say(text_of("trained in ", duration_text(position.seconds), ": ", all));
    return 0;
  }

  const TrainTables& t_;
  Options o_;
  const Launch launch_;
  Progress progress_;
  StateSet states_;
  std::string files_;
};

inline int train_main(const TrainTables& tables, int count, char** values) {
  const std::string name = std::string(tables.name) + "_train";
  Launch launch;
  try {
    const Options options = parse_options(count, values);
    if (options.help) return std::fputs(help_text(tables).c_str(), stdout), 0;
    if (options.version) return std::printf("%s, program %s\n", tables.version, tables.program), 0;
    catch_signals();
    launch = launch_of_environment();
    // Each process has a GPU of its own: of those of its machine the one with its number there.
    if (launch.size > 1 && tables.memory != nullptr && !tables.memory->choose(launch.rank_on_this_host))
      fail("process ", launch.rank_on_this_host, " of ", launch.on_this_host, " on this machine: ", tables.memory->reason());
    return TrainProgram(tables, options, launch).run();
  } catch (const Fault& fault) {
    const std::string who = launch.size > 1 ? text_of(" (process ", launch.rank, ")") : std::string();
    if (fault.what()[0] != 0) std::fprintf(stderr, "%s%s: %s\n", name.c_str(), who.c_str(), fault.what());
    return fault.status;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", name.c_str());
  } catch (const std::exception& error) {  // the standard library's: file systems, threads
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
  }
  return 1;
}

}  // namespace metac::train

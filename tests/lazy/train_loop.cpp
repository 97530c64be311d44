// A training of models/digits from C++: loader, schedule, optimiser with clipping and averages, run. Arguments: the folder
// of the data and that of the run. Prints the last losses, which a resumed run must repeat.
#include <cstdio>
#include <cstdlib>
#include <metac/op.hpp>
#include <metac/train.hpp>

namespace {

const char* const described = R"({"format": "npz", "train": "train.npz", "fields": {"image": {"scale": 0.0625}}})";

struct Freed {
  void operator()(metac_optimiser* optimiser) const { metac_optimiser_free(optimiser); }
};

}  // namespace

int main(int, char** arguments) {
  try {
    metac::Processes processes;
    metac::Data data(described, {{"image", METAC_FLOAT32, {1, 8, 8}}, {"label", METAC_INT64, {}}},
                     {.folder = arguments[1], .seed = 3});
    metac::Loader loader(data, {.batch = 64 / processes.size(), .processes = &processes});
    metac::Var w = metac::array(std::vector<float>(640, 0.0f), {64, 10}), b = metac::array(std::vector<float>(10, 0.0f));
    metac_var* parameters[] = {w.handle(), b.handle()};
    metac_optimiser* made = nullptr;
    metac::detail::check(metac_optimiser_make(
        R"({"optimizer": {"kind": "sgd", "momentum": 0.9}, "clip": {"norm": 1}, "average": 0.9})", parameters, 2, &made));
    const std::unique_ptr<metac_optimiser, Freed> optimiser(made);
    metac::Run run(arguments[2], loader,
                   {.epochs = 3, .checkpoint_every = 5, .resume = true, .quiet = true, .processes = &processes});
    const metac::Schedule rate(R"({"kind": "one_cycle"})", 0.5, 3 * loader.batches());
    run.keep("w", w), run.keep("b", b), run.keep(optimiser.get(), {"w", "b"});
    const int stop = arguments[3] ? std::atoi(arguments[3]) : 0;
    for (run.begin(); !run.finished(); run.end_epoch())
      while (const auto batch = run.next()) {
        metac_var* loss = nullptr;
        const metac::Var scores = metac::matmul(metac::op::Flatten((*batch)["image"]), w) + b;
        metac::detail::check(
            metac_var_loss("\"cross_entropy\"", scores.handle(), (*batch)["label"].handle(), &loss, nullptr));
        const metac::Var mean(loss);
        const std::vector<metac::Var> slopes = metac::grad(mean, {w, b});
        metac_var* gradients[] = {slopes[0].handle(), slopes[1].handle()};
        const double now = rate(run.place().update);
        metac::detail::check(metac_optimiser_step(optimiser.get(), gradients, 2, now, nullptr));
        run.step(mean, now);
        if (run.place().update == stop) std::_Exit(3);
        if (run.place().update >= 64 && processes.rank() == 0) std::printf("%.9g\n", mean.item<float>());
      }
    processes.finish();
  } catch (const metac::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}

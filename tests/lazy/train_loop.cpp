// A training of models/digits from C++: loader, schedule, modules, optimiser with clipping and averages, run. Arguments: the
// folder of the data and that of the run. Prints the last losses, which a resumed run must repeat.
#include <cstdio>
#include <cstdlib>
#include <metac/nn.hpp>
#include <metac/optim.hpp>
#include <metac/train.hpp>

namespace {

const char* const described = R"({"format": "npz", "train": "train.npz", "fields": {"image": {"scale": 0.0625}}})";

struct Net : metac::nn::Module {
  metac::nn::Linear hidden = add("hidden", metac::nn::Linear(64, 32)), last = add("last", metac::nn::Linear(32, 10));
  metac::nn::BatchNorm norm = add("norm", metac::nn::BatchNorm(32));
  metac::nn::Dropout drop = add("drop", metac::nn::Dropout(0.25));

  metac::Var operator()(const metac::Var& x) const { return last(drop(metac::relu(norm(hidden(metac::flatten(x, 1)))))); }
};

}  // namespace

int main(int, char** arguments) {
  try {
    metac::Processes processes;
    metac::Data data(described, {{"image", METAC_FLOAT32, {1, 8, 8}}, {"label", METAC_INT64, {}}},
                     {.folder = arguments[1], .seed = 3});
    metac::Loader loader(data, {.batch = 64 / processes.size(), .processes = &processes});
    metac::nn::seed(1);
    const Net net;
    metac::optim::Optimiser optimiser(net, "sgd", {{"momentum", 0.9}}, {.clip_norm = 1, .average = 0.9});
    metac::Run run(arguments[2], loader,
                   {.epochs = 3, .checkpoint_every = 5, .resume = true, .quiet = true, .processes = &processes});
    const metac::Schedule rate(R"({"kind": "one_cycle"})", 0.5, 3 * loader.batches());
    run.keep(net), run.keep(optimiser);
    const int stop = arguments[3] ? std::atoi(arguments[3]) : 0;
    for (run.begin(); !run.finished(); run.end_epoch())
      while (const auto batch = run.next()) {
        const metac::Var loss = metac::optim::loss("cross_entropy", net((*batch)["image"]), (*batch)["label"]);
        const double now = rate(run.place().update);
        optimiser.step(loss, now);
        run.step(loss, now);
        if (run.place().update == stop) std::_Exit(3);
        if (run.place().update >= 64 && processes.rank() == 0) std::printf("%.9g\n", loss.item<float>());
      }
    const metac::Var before = net.parameters()[0].second * 1;
    {
      const metac::optim::Averaged averaged(optimiser);
      const double apart = metac::max(metac::abs(net.parameters()[0].second - before)).item<float>();
      if (!(apart > 0)) throw metac::Error(METAC_INTERNAL, "the averages are the parameters themselves");
    }
    if (metac::max(metac::abs(net.parameters()[0].second - before)).item<float>() != 0)
      throw metac::Error(METAC_INTERNAL, "the parameters are not themselves again");
    processes.finish();
  } catch (const metac::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}

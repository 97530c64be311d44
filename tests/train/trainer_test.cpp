// The training loop on a model in plain C++: it learns, it resumes bit by bit, it says what went wrong.
#include "fake_model.h"

namespace {

using namespace fake;
using testing::HasSubstr;

std::string final_weights(const std::string& folder) { return content(folder + "/fake.weights"); }

TEST(Trainer, LearnsAndExports) {
  const Model model(fresh_folder("learns"));
  const std::string folder = model.folder + "/run";
  const Outcome outcome = run(model, folder, {"--epochs", "12"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("100 samples for training, 37 for validation"));
  const Outcome scored = run(model, folder, {"--evaluate"});
  const Json scores = JsonReader::read(scored.out.data(), scored.out.data() + scored.out.size());
  EXPECT_EQ(scores.find("samples")->number, 37);
  EXPECT_GT(scores.find("accuracy")->number, 0.97) << scored.out;
  // The exported network is the average where there is one; the template keeps all its other bytes.
  const SafeTensors last = read_safetensors(CheckpointFolder(folder + "/checkpoints").path(84), true);
  const std::string average(static_cast<const char*>(last.find("w/average")->data), 96),
      bias(static_cast<const char*>(last.find("b")->data), 12);
  EXPECT_EQ(content(folder + "/fake.onnx"), "templ" + average + bias + "end");
  const float frozen = 42;
  EXPECT_EQ(final_weights(folder), average + bias + std::string(reinterpret_cast<const char*>(&frozen), 4));
  const SafeTensors exported = read_safetensors(folder + "/fake.safetensors", false);
  EXPECT_EQ(exported.tensors.size(), 3u);
  EXPECT_EQ(std::memcmp(exported.find("w")->data, average.data(), 96), 0);
  const std::string curves = content(folder + "/curves.svg");
  for (const char* part : {"</svg>", ">updates<", ">epochs<", ">best: epoch ", "stroke-opacity=\"0.35\""})
    EXPECT_THAT(curves, HasSubstr(part));
}

TEST(Curves, MeansAreOfAsManyOnEitherSide) {
  const std::vector<CurvePoint> line = {{0, 1}, {1, 3}, {2, 5}, {3, 7}, {4, 9}};
  const std::vector<CurvePoint> means = smoothed(line, 2);
  for (size_t k = 0; k < line.size(); ++k) EXPECT_EQ(means[k].y, line[k].y) << "a straight line stays as it is";
  EXPECT_DOUBLE_EQ(smoothed({{0, 0}, {1, 3}, {2, 0}}, 1)[1].y, 1);
}

// A narrow terminal loses the bar and the last figures, never the time that is left.
TEST(Progress, KeepsTheTimeThatIsLeft) {
  const std::string tail = "loss 0.1234  accuracy 0.9876  f1 0.9123  recall 0.8  123 k samples/s";
  EXPECT_THAT(Progress::line(200, "epoch 10/200", 0.5, "1:02:03 left", tail), HasSubstr(" 50%  1:02:03 left  " + tail));
  for (int columns = 40; columns < 130; ++columns) {
    const std::string line = Progress::line(columns, "epoch 10/200", 0.5, "1:02:03 left", tail);
    EXPECT_THAT(line, HasSubstr(" 50%  1:02:03 left"));
    int shown = 0;
    for (const char c : line) shown += (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // the bar's cells are three bytes
    EXPECT_LT(shown, columns) << line;
    EXPECT_TRUE(line.back() != ' ') << line;
  }
  EXPECT_THAT(Progress::line(80, "epoch 10/200", 0.5, "1:02:03 left", tail), HasSubstr("loss 0.1234  accuracy 0.9876"));
}

TEST(Trainer, TheSameTwiceAndForAnyNumberOfLoaders) {
  const Model model(fresh_folder("same"));
  ASSERT_EQ(run(model, model.folder + "/a", {}).status, 0);
  ASSERT_EQ(run(model, model.folder + "/b", {"--loaders", "5"}).status, 0);
  ASSERT_EQ(run(model, model.folder + "/c", {"--seed", "8"}).status, 0);
  EXPECT_EQ(final_weights(model.folder + "/a"), final_weights(model.folder + "/b"));
  EXPECT_EQ(untimed_log(model.folder + "/a"), untimed_log(model.folder + "/b"));
  EXPECT_NE(final_weights(model.folder + "/a"), final_weights(model.folder + "/c"));
}

// Ended after some updates, within epochs and accumulations too, and gone on with: the same bits and the same log.
TEST(Trainer, ResumesBitByBit) {
  for (const int accumulate : {1, 3}) {
    Model model(fresh_folder("resumes"), accumulate);
    model.tables.schedule.kind = ScheduleKind::constant;  // the others follow the length of the run
    const std::string whole = model.folder + "/whole", parts = model.folder + "/parts";
    const Outcome outcome = run(model, whole, {});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    for (int64_t stop = 1; stop < 28 / accumulate; stop += 2) {
      std::filesystem::remove_all(parts);
      ASSERT_EQ(run(model, parts, {"--updates", std::to_string(stop)}).status, 0);
      EXPECT_NE(final_weights(whole), final_weights(parts));
      const Outcome resumed = run(model, parts, {"--resume", "--updates", "0"});
      ASSERT_EQ(resumed.status, 0) << resumed.err;
      EXPECT_THAT(resumed.err, HasSubstr("after update " + std::to_string(stop)));
      EXPECT_EQ(final_weights(whole), final_weights(parts)) << stop;
      EXPECT_EQ(untimed_log(whole), untimed_log(parts)) << stop;
    }
  }
}

TEST(Trainer, SignalsWriteACheckpointAndStop) {
  const Model model(fresh_folder("signals"), 3);
  const std::string whole = model.folder + "/whole", parts = model.folder + "/parts";
  ASSERT_EQ(run(model, whole, {}).status, 0);
  microseconds = 2000;
  int interrupted = 0;
  for (int k = 0; k < 40; ++k) {
    std::thread killer([&] {
      usleep(static_cast<useconds_t>(7000 + 3000 * (k % 5)));
      received_signal = SIGTERM;
    });
    const Outcome outcome = run(model, parts, {"--resume"});
    killer.join();
    if (outcome.status == 0) break;
    ASSERT_EQ(outcome.status, 143) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("go on with --resume"));
    ++interrupted;
  }
  microseconds = 0;
  EXPECT_GE(interrupted, 2);
  EXPECT_EQ(final_weights(whole), final_weights(parts));
  EXPECT_EQ(untimed_log(whole), untimed_log(parts));
}

TEST(Trainer, NotANumberIsNamed) {
  const Model model(fresh_folder("nan"));
  nan_at_call = 9;
  const Outcome stopped = run(model, model.folder + "/stop", {});
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr("the next \"w\" is NaN (element 5 of [3, 8]) at update 9 (epoch 2, batch 3"));
  EXPECT_THAT(stopped.err,
              HasSubstr("The last good checkpoint is " + model.folder + "/stop/checkpoints/step-000000007.safetensors"));
  const Outcome skipped = run(model, model.folder + "/skip", {"--non-finite", "skip"});
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("1 batches were left out"));
  nan_calls = 100;
  const Outcome hopeless = run(model, model.folder + "/hopeless", {"--non-finite", "skip"});
  EXPECT_EQ(hopeless.status, 1);
  EXPECT_THAT(hopeless.err, HasSubstr("that was the 11th batch in a row"));
  nan_at_call = -1, nan_calls = 1;
}

// The fake step reads no element behind the one that it writes.
TEST(Trainer, OverwrittenStatesHaveTheSameBits) {
  Model model(fresh_folder("overwritten"), 3);
  ASSERT_EQ(run(model, model.folder + "/twice", {}).status, 0);
  for (Port& port : model.step_outputs) port.overwrites = true;
  EXPECT_TRUE(StateSet(model.tables, true).overwritten());
  EXPECT_FALSE(StateSet(model.tables).overwritten());
  ASSERT_EQ(run(model, model.folder + "/once", {}).status, 0);
  EXPECT_EQ(final_weights(model.folder + "/once"), final_weights(model.folder + "/twice"));
  EXPECT_EQ(untimed_log(model.folder + "/once"), untimed_log(model.folder + "/twice"));
  nan_at_call = 9;
  const Outcome stopped = run(model, model.folder + "/stop", {});
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr("NaN"));
  EXPECT_THAT(stopped.err, HasSubstr("; with --non-finite skip, which keeps states twice, the kernel would be named"));
  const Outcome skipped = run(model, model.folder + "/skip", {"--non-finite", "skip"});
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(skipped.err, HasSubstr("1 batches were left out"));
  nan_at_call = -1;
}

TEST(Trainer, NotANumberInTheDataIsFound) {
  const Model model(fresh_folder("nan_data"));
  std::vector<float> x(50 * features, 0.5f);
  std::vector<int64_t> y(50, 1);
  x[33 * features + 2] = NAN;
  model.write("data.npz", Model::zip({{"x.npy", Model::npy(ScalarType::f32, {50, features}, x.data())},
                                      {"y.npy", Model::npy(ScalarType::i64, {50}, y.data())}}));
  const Outcome outcome = run(model, model.folder + "/run", {});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the data have NaN or infinity: " + model.folder +
                                     "/data.npz, entry \"x\", sample 33, field \"x\""));
}

TEST(Trainer, PatienceKeepsTheBest) {
  Model model(fresh_folder("patience"));
  model.tables.settings.patience = 2;
  const Outcome outcome = run(model, model.folder + "/run", {"--epochs", "40"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stopped early: no better accuracy for 2 epochs"));
  const SafeTensors best = read_safetensors(model.folder + "/run/best.safetensors", true);
  EXPECT_EQ(std::memcmp(best.find("w/average")->data, final_weights(model.folder + "/run").data(), 96), 0);
}

// Nothing is called kept that is not.
TEST(Trainer, WithoutPatienceTheBestIsNoFile) {
  Model model(fresh_folder("no_patience"));
  model.tables.settings.watched = -1;  // the loss, which falls
  const Outcome outcome = run(model, model.folder + "/run", {});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("  best so far  "));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("kept")));
  EXPECT_FALSE(std::filesystem::exists(model.folder + "/run/best.safetensors"));
  EXPECT_THAT(run(model, model.folder + "/kept", {"--patience", "2"}).err, HasSubstr("  best, kept  "));
  EXPECT_TRUE(std::filesystem::exists(model.folder + "/kept/best.safetensors"));
}

TEST(Trainer, AnotherRunIsNotOverwritten) {
  const Model model(fresh_folder("overwritten"));
  const std::string folder = model.folder + "/run";
  ASSERT_EQ(run(model, folder, {"--epochs", "1"}).status, 0);
  const Outcome refused = run(model, folder, {});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("--resume goes on with it"));
  EXPECT_EQ(run(model, folder, {"--restart", "--epochs", "1"}).status, 0);
  const Outcome seed = run(model, folder, {"--resume", "--seed", "99"});
  EXPECT_EQ(seed.status, 1);
  EXPECT_THAT(seed.err, HasSubstr("has the seed 7, not 99"));
  const RunFolder held(folder);
  EXPECT_THAT(run(model, folder, {"--resume"}).err, HasSubstr("another program is training in"));
}

TEST(Trainer, InitTakesParametersByName) {
  const Model model(fresh_folder("init"));
  ASSERT_EQ(run(model, model.folder + "/a", {}).status, 0);
  const Outcome outcome = run(model, model.folder + "/b", {"--init", model.folder + "/a/fake.safetensors", "--epochs", "0"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(final_weights(model.folder + "/a"), final_weights(model.folder + "/b"));
}

TEST(Options, WrongUsageIsExplained) {
  const Model model(fresh_folder("options"));
  const std::pair<const char*, const char*> cases[] = {
      {"--epochs=three", "--epochs \"three\": expected a whole number of 0 or more"},
      {"--epoch", "there is no option \"--epoch\"; did you mean \"--epochs\"?"},
      {"--dta=x", "did you mean \"--data\"?"},
      {"--chekpoint-every", "did you mean \"--checkpoint-every\"?"},
      {"digits.npz", "unexpected argument \"digits.npz\"; data are named by --data DIR"},
      {"--rate=-1", "--rate \"-1\": expected a positive number"},
      {"--non-finite=skp", "--non-finite \"skp\": expected stop or skip; did you mean \"skip\"?"},
      {"--resume=yes", "--resume takes no value"},
      {"--seed", "--seed needs a value"},
      {"--threads=4097", "expected a whole number from 0 to 4096"},
      {"--rate=nan", "expected a positive number"}};
  for (const auto& [argument, message] : cases) {
    const Outcome outcome = run(model, model.folder + "/run", {argument});
    EXPECT_EQ(outcome.status, 2) << argument;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  const Outcome help = run(model, model.folder + "/run", {"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("--resume"));
}

TEST(Schedule, FollowsTheFormulas) {
  const double milestones[] = {3, 5};
  Schedule s{ScheduleKind::constant, 1, 0, 0.1, 0, false, 0, 0.5, milestones, 2};
  EXPECT_EQ(rate_at(s, 1000, 2000, 10), 1);
  s.warmup = 10;
  EXPECT_DOUBLE_EQ(rate_at(s, 0, 100, 10), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(s, 5, 100, 10), 0.55);
  EXPECT_EQ(rate_at(s, 10, 100, 10), 1);
  s.warmup = 0, s.kind = ScheduleKind::step, s.in_epochs = true;
  EXPECT_EQ(rate_at(s, 29, 100, 10), 1);
  EXPECT_EQ(rate_at(s, 30, 100, 10), 0.5);
  EXPECT_EQ(rate_at(s, 50, 100, 10), 0.25);
  s.period = 2;
  EXPECT_EQ(rate_at(s, 40, 100, 10), 0.25);
  s.kind = ScheduleKind::cosine, s.final_rate = 0.2;
  EXPECT_DOUBLE_EQ(rate_at(s, 0, 100, 10), 1);
  EXPECT_DOUBLE_EQ(rate_at(s, 50, 100, 10), 0.6);
  EXPECT_DOUBLE_EQ(rate_at(s, 100, 100, 10), 0.2);
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=100, div_factor=10, final_div_factor=100, pct_start=0.3)
  s = {ScheduleKind::one_cycle, 1, 0.001, 0.1, 0.3, false, 0, 0, nullptr, 0};
  EXPECT_DOUBLE_EQ(rate_at(s, 0, 100, 10), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(s, 29, 100, 10), 1);
  EXPECT_NEAR(rate_at(s, 64, 100, 10), 0.5005, 1e-12);
  EXPECT_DOUBLE_EQ(rate_at(s, 99, 100, 10), 0.001);
}

}  // namespace

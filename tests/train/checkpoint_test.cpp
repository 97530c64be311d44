// Checkpoints: whatever is cut off or flipped is refused, and a trainer that is killed at any moment leaves a folder to
// resume from.
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <iomanip>

#include "fake_model.h"

namespace {

using namespace fake;
using testing::HasSubstr;

TEST(JsonText, EscapesAreCharacters) {
  auto read = [](const std::string& text) { return JsonReader::read(text.data(), text.data() + text.size()).string; };
  EXPECT_EQ(read(R"("\u0041\u00e9\u20ac\n")"), "A\xc3\xa9\xe2\x82\xac\n");
  EXPECT_EQ(read(R"("\ud83d\uDE00.")"), "\xf0\x9f\x98\x80.");
  for (const char* half : {R"("\ud83d")", R"("\ud83dx")", R"("\ude00")", R"("\ud83d\u0041")", R"("\ud83d\)"})
    EXPECT_ANY_THROW(read(half)) << half;
}

TEST(Crc32, KnownValues) {
  EXPECT_EQ(crc32("123456789", 9), 0xcbf43926u);  // the check value of the CRC catalogue
  EXPECT_EQ(crc32("6789", 4, crc32("12345", 5)), 0xcbf43926u);
  EXPECT_EQ(crc32("", 0), 0u);
}

class CheckpointFile : public testing::Test {
 protected:
  CheckpointFile() : model_(fresh_folder("checkpoint")), states_(model_.tables), path_(model_.folder + "/c.safetensors") {
    states_.load_initial(model_.folder);
    position_.seed = 12, position_.best = 0.1, position_.interval.loss = 1.0 / 3;
    position_.interval.metrics = {0.7};
    *static_cast<float*>(states_.value(offset)) = -INFINITY;  // a constant of the model: it may be
    write_checkpoint(path_, model_.tables, states_, position_);
    bytes_ = content(path_);
  }
  // "" where it is taken.
  std::string reason(const std::string& bytes) {
    std::filesystem::remove(model_.folder + "/damaged.safetensors");  // writing over a file waits for the disk
    model_.write("damaged.safetensors", bytes);
    try {
      StateSet states(model_.tables);
      Position position;
      read_checkpoint(model_.folder + "/damaged.safetensors", model_.tables, &states, &position);
      return "";
    } catch (const Fault& fault) {
      return fault.what();
    }
  }

  Model model_;
  StateSet states_;
  std::string path_, bytes_;
  Position position_;
};

// Of every version that wrote another format (docs/versioning.md).
TEST_F(CheckpointFile, FixturesAreRead) {
  std::ifstream file(METAC_SOURCE_DIR "/tests/fixtures/0.1/checkpoint.hex");
  std::string bytes;
  for (char digits[3] = ""; file >> std::setw(3) >> digits;) bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
  model_.write("fixture.safetensors", bytes);
  StateSet states(model_.tables);
  Position position;
  read_checkpoint(model_.folder + "/fixture.safetensors", model_.tables, &states, &position);
  EXPECT_EQ(position.epoch, 3);
  EXPECT_EQ(position.best, 0.1);
}

TEST_F(CheckpointFile, RoundTrip) {
  StateSet back(model_.tables);
  Position position;
  read_checkpoint(path_, model_.tables, &back, &position);
  for (int32_t s = 0; s < back.count(); ++s)
    EXPECT_EQ(std::memcmp(back.value(s), states_.value(s), static_cast<size_t>(byte_count(back.about(s)))), 0);
  EXPECT_EQ(position.seed, 12);
  EXPECT_EQ(position.best, 0.1);
  EXPECT_EQ(position.interval.loss, 1.0 / 3);
  EXPECT_EQ(position.interval.metrics, std::vector<double>{0.7});
}

TEST_F(CheckpointFile, EveryPrefixIsRefused) {
  for (size_t size = 0; size < bytes_.size(); ++size) EXPECT_NE(reason(bytes_.substr(0, size)), "") << size;
  EXPECT_NE(reason(bytes_ + '\0'), "");
}

TEST_F(CheckpointFile, EveryFlippedBitIsRefused) {
  for (size_t bit = 0; bit < bytes_.size() * 8; ++bit) {
    std::string damaged = bytes_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(reason(damaged), "") << bit;
  }
  std::string damaged = bytes_;
  damaged[damaged.size() - 10] = static_cast<char>(damaged[damaged.size() - 10] ^ 1);
  EXPECT_THAT(reason(damaged), HasSubstr("is damaged (checksum)"));
}

TEST_F(CheckpointFile, OfAnotherProgramIsRefused) {
  model_.tables.program = "another";
  EXPECT_THAT(reason(bytes_), HasSubstr("a checkpoint of another program"));
}

TEST_F(CheckpointFile, NotANumberIsRefused) {
  static_cast<float*>(states_.value(b))[1] = NAN;
  write_checkpoint(path_, model_.tables, states_, position_);
  EXPECT_THAT(reason(content(path_)), HasSubstr("\"b\" holds NaN or infinity (element 1)"));
}

TEST(Checkpoints, TheOneBeforeIsTaken) {
  const Model model(fresh_folder("before"));
  const std::string whole = model.folder + "/whole", folder = model.folder + "/run";
  ASSERT_EQ(run(model, whole, {}).status, 0);
  ASSERT_EQ(run(model, folder, {}).status, 0);
  const CheckpointFolder checkpoints(folder + "/checkpoints");
  EXPECT_EQ(checkpoints.list(), (std::vector<int64_t>{28, 21, 14}));  // three are kept
  const std::string good = content(checkpoints.path(28));
  std::ofstream(checkpoints.path(28), std::ios::binary) << good.substr(0, good.size() / 2);
  const Outcome strict = run(model, folder, {"--resume", "--strict"});
  EXPECT_EQ(strict.status, 1);
  EXPECT_THAT(strict.err, HasSubstr("checkpoint step 28 cannot be used"));
  const Outcome resumed = run(model, folder, {"--resume"});
  EXPECT_EQ(resumed.status, 0);
  EXPECT_THAT(resumed.err, HasSubstr("taking the checkpoint of step 21 instead"));
  EXPECT_EQ(content(checkpoints.path(28)).size(), good.size());
  EXPECT_EQ(content(folder + "/fake.weights"), content(whole + "/fake.weights"));
  EXPECT_EQ(untimed_log(folder), untimed_log(whole));
  for (const int64_t step : checkpoints.list()) std::ofstream(checkpoints.path(step), std::ios::binary) << "";
  const Outcome none = run(model, folder, {"--resume"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("none of the 3 checkpoints"));
}

// As if the disk were full while the run goes on: it stops with the reason, and later resumes as if nothing had happened.
TEST(Checkpoints, FullDiskDuringARun) {
  const Model model(fresh_folder("full_run"));
  const std::string whole = model.folder + "/whole", folder = model.folder + "/run";
  ASSERT_EQ(run(model, whole, {}).status, 0);
  received_signal = 0;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t room : {0, 700, 1500, 3000}) {
    rlimit small = before;
    small.rlim_cur = room;
    std::string said;
    int status = 0;
    std::vector<std::string> arguments = {"fake_train", "--data", model.folder, "--out", folder, "--resume", "--quiet"};
    std::vector<char*> values;
    for (std::string& a : arguments) values.push_back(a.data());
    setrlimit(RLIMIT_FSIZE, &small);
    try {
      TrainProgram(model.tables, parse_options(static_cast<int>(values.size()), values.data()), {}).run();
    } catch (const Fault& fault) {
      status = fault.status;
      said = fault.what();
    }
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(status, 1) << room;
    EXPECT_THAT(said, HasSubstr("cannot write " + folder)) << room;
  }
  std::signal(SIGXFSZ, SIG_DFL);
  const Outcome resumed = run(model, folder, {"--resume", "--strict"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(content(folder + "/fake.weights"), content(whole + "/fake.weights"));
  EXPECT_EQ(untimed_log(folder), untimed_log(whole));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

TEST(Checkpoints, FullDisk) {
  EXPECT_THROW(WholeFile("/nowhere/at/all"), Fault);
  const std::string folder = fresh_folder("full"), path = folder + "/file";
  std::filesystem::create_directories(folder);
  std::ofstream(path) << "old";
  try {
    WholeFile file(path);
    file.write("new", 3);
    throw Fault("before it is complete");
  } catch (const Fault&) {
  }
  EXPECT_EQ(content(path), "old");
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

// Who may write in the folder can plant a link under a name that is easy to guess: nothing goes through it.
TEST(Checkpoints, NoLinkIsFollowed) {
  const std::string folder = fresh_folder("planted"), victim = folder + "/victim", path = folder + "/states";
  std::filesystem::create_directories(folder);
  std::ofstream(victim) << "dear";
  std::filesystem::create_symlink(victim, path + ".tmp");
  std::filesystem::create_symlink(victim, path);
  WholeFile file(path);
  file.write("new", 3);
  file.commit();
  EXPECT_EQ(content(victim), "dear");
  EXPECT_EQ(content(path), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
}

pid_t start(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child != 0) return child;
  std::vector<char*> values;
  for (const std::string& a : arguments) values.push_back(const_cast<char*>(a.c_str()));
  values.push_back(nullptr);
  if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
  execv(values[0], values.data());
  _exit(99);
}

// SIGKILL at 50 random moments, a checkpoint after every update. What comes out at the end is what an undisturbed run gives.
TEST(Checkpoints, KilledAtFiftyMoments) {
  const Model model(fresh_folder("killed"), 3);
  const std::string whole = model.folder + "/whole", folder = model.folder + "/run";
  const std::vector<std::string> common = {FAKE_TRAINER, model.folder, "300", "--data",   model.folder, "--checkpoint-every",
                                           "1",          "--keep",     "2",   "--epochs", "12"};
  auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  int status = 0;
  ASSERT_GT(waitpid(start(with({"--out", whole})), &status, 0), 0);
  ASSERT_EQ(status, 0);
  const std::string weights = content(whole + "/fake.weights"), log = untimed_log(whole);
  ASSERT_EQ(weights.size(), 112u);
  int kills = 0, ends = 0;
  for (int64_t k = 0; kills < 50; ++k) {
    const pid_t child = start(with({"--out", folder, "--resume", "--strict"}));
    usleep(static_cast<useconds_t>(1500 + random_below(random_bits(k, Stream::order, 0, 0), 40000)));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      ++kills;
      continue;
    }
    ASSERT_EQ(status, 0) << "after " << kills << " kills the run does not resume";
    EXPECT_EQ(content(folder + "/fake.weights"), weights);
    EXPECT_EQ(untimed_log(folder), log);
    std::filesystem::remove_all(folder);
    ++ends;
  }
  ASSERT_GT(waitpid(start(with({"--out", folder, "--resume", "--strict"})), &status, 0), 0);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(content(folder + "/fake.weights"), weights);
  EXPECT_EQ(untimed_log(folder), log);
  RecordProperty("complete_runs", ends);
}

}  // namespace

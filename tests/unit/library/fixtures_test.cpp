// Files that earlier versions wrote are read (docs/versioning.md, tests/fixtures), and the numbers of the shared header are
// those of the compiler's tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/api/compiled_folder.h"
#include "compiler/api/schedule_file.h"
#include "compiler/ir/dtype.h"
#include "compiler/support/file_system.h"
#include "compiler/train/recipe/recipe.h"
#include "frontends/read_model.h"
#include "runtime/caller/struct_size.h"
#include "runtime/files/weights.h"
#include "runtime/metac_model.h"

namespace metac::fixtures_test {
namespace {

using ::testing::HasSubstr;

const std::string fixtures = METAC_SOURCE_DIR "/tests/fixtures";

std::vector<std::string> versions() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures))
    if (entry.is_directory()) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::string text_of(const std::string& path) { return std::string(read_file(path).view()); }

TEST(Fixtures, TextsOfEveryVersionAreRead) {
  ASSERT_FALSE(versions().empty());
  for (const std::string& folder : versions()) {
    SCOPED_TRACE(folder);
    const Model model = read_model(folder + "/model.json");
    ASSERT_EQ(model.graph.nodes.size(), 1u);
    EXPECT_EQ(model.graph.nodes[0].op_type, "Identity");
    const Recipe recipe = read_recipe(folder + "/recipe.json");
    EXPECT_EQ(recipe.batch, 64);
    EXPECT_EQ(recipe.epochs, 20);
    std::string cpu;
    EXPECT_EQ(read_schedules(text_of(folder + "/schedules.tune.json"), &cpu).taken().size(), 1u);
    EXPECT_EQ(cpu, "x86-64-v3");
    const Model ports = CompiledFolder(folder + "/net").ports();
    ASSERT_EQ(ports.graph.inputs.size(), 1u);
    EXPECT_EQ(ports.graph.inputs[0].name, "x");
    EXPECT_EQ((*ports.graph.inputs[0].type.shape)[1].value, 4);
  }
}

TEST(Fixtures, WeightsOfEveryVersionAreRead) {
  for (const std::string& folder : versions()) {
    SCOPED_TRACE(folder);
    std::string digits = text_of(folder + "/weights.hex"), bytes;
    digits.erase(std::remove(digits.begin(), digits.end(), '\n'), digits.end());
    for (size_t k = 0; k + 1 < digits.size(); k += 2)
      bytes += static_cast<char>(std::stoi(digits.substr(k, 2), nullptr, 16));
    const std::string path = ::testing::TempDir() + "metac_fixture_" + std::to_string(getpid()) + ".weights";
    std::filesystem::remove(path);
    write_file(path, bytes);
    rt::Weights weights;
    rt::Failure failure;
    rt::ThreadPool pool;
    ASSERT_TRUE(weights.open(path.c_str(), 96, std::string(64, 'a').c_str(), failure)) << failure.message;
    EXPECT_TRUE(weights.ready(0, 96, pool, failure)) << failure.message;
    for (int k = 0; k < 96; ++k) EXPECT_EQ(static_cast<const char*>(weights.block())[k], static_cast<char>(7 * k));
    std::filesystem::remove(path);
  }
}

TEST(SharedHeader, DtypesAreThoseOfTheCompiler) {
  const std::string header = text_of(METAC_SOURCE_DIR "/runtime/metac_model.h");
  int count = 0;
  for (const DTypeInfo& row : dtypes()) {
    if (!is_numeric(row.dtype)) continue;
    std::string name(row.name);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const std::string line = "  METAC_MODEL_" + name + " = " + std::to_string(static_cast<int>(row.dtype));
    EXPECT_TRUE(header.find(line + ",") != std::string::npos || header.find(line + "\n") != std::string::npos) << line;
    ++count;
  }
  EXPECT_EQ(count, METAC_MODEL_BOOL + 1);
}

// The interface's first version: none of these may ever move.
TEST(SharedHeader, PlacesAreThoseOfTheFirstVersion) {
  EXPECT_EQ(sizeof(metac_model_tensor), 288u);
  EXPECT_EQ(offsetof(metac_model_tensor, dims), 24u);
  EXPECT_EQ(offsetof(metac_model_tensor, type), 280u);
  EXPECT_EQ(offsetof(metac_model_port, dim_names), 32u);
  EXPECT_EQ(offsetof(metac_model_options, private_threads), 68u);
  EXPECT_EQ(offsetof(metac_model_specialisation, waiting), 32u);
  EXPECT_EQ(offsetof(metac_model, run), 120u);
  EXPECT_EQ(offsetof(metac_model, to_dlpack), 288u);
}

TEST(SharedHeader, PlacesAreThoseOfRevision4) {
  EXPECT_EQ(offsetof(metac_model_options, log), 72u);
  EXPECT_EQ(offsetof(metac_model_options, arena), 128u);
  EXPECT_EQ(offsetof(metac_model, run_strided), 408u);
  EXPECT_EQ(offsetof(metac_model, arena_destroy), 424u);
}

TEST(SharedHeader, PlacesAreThoseOfRevision6) { EXPECT_EQ(offsetof(metac_model_options, priority), 136u); }

TEST(SharedHeader, OptionsOfOtherSizes) {
  EXPECT_EQ(metac_model_options().size, sizeof(metac_model_options));  // C++ sets it
  struct Larger {
    metac_model_options known;
    int64_t more;
  } larger = {};
  metac_model_options known = {};
  const auto said = [&](size_t size) {
    larger.known.size = size;
    rt::Failure failure;
    return rt::take_options(larger.known, known, failure) ? std::string() : std::string(failure.message);
  };
  larger.known.threads = 3;
  EXPECT_EQ(said(sizeof(metac_model_options)), "");
  EXPECT_EQ(known.threads, 3);
  EXPECT_EQ(said(sizeof(Larger)), "");
  larger.more = 1;
  EXPECT_THAT(said(sizeof(Larger)), HasSubstr("set byte 144, which this library has no member for"));
  EXPECT_THAT(said(0), HasSubstr("options.size is 0; set it to the size of the struct, which is 72 or more"));
  EXPECT_THAT(said(1 << 20), HasSubstr("options.size is 1048576"));
  larger.known.threads = -1;
  EXPECT_THAT(said(sizeof(metac_model_options)), HasSubstr("threads is -1"));
  larger.known.threads = 0, larger.known.weights_flags = 8;
  EXPECT_THAT(said(sizeof(metac_model_options)), HasSubstr("weights_flags is 8"));
  larger.known.weights_flags = 0, larger.known.priority = 2;
  EXPECT_THAT(said(sizeof(metac_model_options)), HasSubstr("priority is 2; expected -1 (background), 0 (usual) or 1"));
}

// A program of revision 3 knows 72 bytes: what stands behind them is not its options.
TEST(SharedHeader, OptionsOfRevision3) {
  metac_model_options given = {}, known = {};
  int user = 0;
  given.size = offsetof(metac_model_options, log);
  given.threads = 2;
  given.log_user = &user;
  given.arena = reinterpret_cast<metac_model_arena*>(&user);
  given.priority = 77;
  rt::Failure failure;
  EXPECT_TRUE(rt::take_options(given, known, failure));
  EXPECT_EQ(known.threads, 2);
  EXPECT_EQ(known.log_user, nullptr);
  EXPECT_EQ(known.arena, nullptr);
  EXPECT_EQ(known.priority, 0);
}

}  // namespace
}  // namespace metac::fixtures_test

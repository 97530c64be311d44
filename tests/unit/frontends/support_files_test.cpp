// Files and folders appear whole or not at all; hashes and base64 are those of the standards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "compiler/support/base64.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"
#include "compiler/support/result.h"

namespace metac::support_files_test {
namespace {

using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "metac-files-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string at(const std::string& name) { return root_ + "/" + name; }
  std::vector<std::string> names() { return RealFiles().list(root_); }

  template <typename F>
  std::string error(F&& f) {
    try {
      f();
    } catch (const CompileError& e) {
      return e.what();
    }
    return "";
  }
  std::string root_;
};

TEST_F(Files, WriteReplacesWhole) {
  write_file(at("a"), "old");
  write_file(at("a"), "new");
  EXPECT_EQ(read_file(at("a")).view(), "new");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});  // no temporary is left
}

TEST_F(Files, AFullDiskLeavesTheOldFile) {
  write_file(at("a"), "old");
  // A limit on the size of files fails write() as a full disk does.
  rlimit old_limit;
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  auto* old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = old_limit;
  limit.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::string message = error([&] { write_file(at("a"), std::string(100'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, HasSubstr(at("a")));
  EXPECT_EQ(read_file(at("a")).view(), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

// Who may write in the folder can plant links under names that are easy to guess: nothing goes through them.
TEST_F(Files, NoPlantedLinkIsFollowed) {
  write_file(at("victim"), "dear");
  for (int k = 0; k < 200; ++k) {
    const std::string guess = ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(k);
    std::filesystem::create_symlink(at("victim"), at(".a" + guess));
    std::filesystem::create_symlink(at("victim"), at(".folder" + guess));
  }
  std::filesystem::create_symlink(at("victim"), at("a"));
  write_file(at("a"), "new");
  StagedFolder folder(at("folder"));
  folder.write("inside", "new");
  folder.commit();
  EXPECT_EQ(read_file(at("victim")).view(), "dear");
  EXPECT_EQ(read_file(at("a")).view(), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(at("a")));
}

TEST_F(Files, ReadRefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0666), 0);
  EXPECT_THAT(error([&] { read_file(at("pipe")); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(error([&] { read_file("/dev/zero"); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(error([&] { read_file(root_); }), HasSubstr("is a folder"));
  EXPECT_THAT(error([&] { read_file(at("none")); }), HasSubstr("No such file"));
  write_file(at("a"), "12345");
  EXPECT_THAT(error([&] { read_file(at("a"), 4); }), HasSubstr("has 5 bytes; the limit is 4"));
}

TEST_F(Files, LargePartsAreMapped) {
  std::string content;
  for (int i = 0; i < 3'000'000; ++i) content += static_cast<char>(i * 7);
  write_file(at("big"), content);
  FileBytes part = read_inside(root_, "big", 4097, 2'000'000);
  EXPECT_EQ(part.view(), std::string_view(content).substr(4097, 2'000'000));
}

TEST_F(Files, StagedFolderAppearsWhole) {
  {
    StagedFolder folder(at("out"));
    folder.write("src/a.cpp", "a");
    EXPECT_FALSE(RealFiles().exists(at("out")));
    folder.commit();
  }
  EXPECT_EQ(read_file(at("out/src/a.cpp")).view(), "a");
  {
    StagedFolder abandoned(at("other"));
  }
  EXPECT_EQ(names(), std::vector<std::string>{"out"});
}

TEST_F(Files, StagedFolderReplacesOnlyWhatItMay) {
  RealFiles files;
  auto ours = [](const std::string& path) { return RealFiles().exists(path + "/net.json"); };
  files.write_folder(at("out"), {{"net.json", "1"}, {"old", ""}}, ours);
  files.write_folder(at("out"), {{"net.json", "2"}}, ours);
  EXPECT_EQ(files.list(at("out")), std::vector<std::string>{"net.json"});
  EXPECT_EQ(files.read(at("out/net.json")), "2");
  files.write_folder(at("theirs"), {{"thesis.tex", "x"}}, ours);
  EXPECT_THAT(error([&] { files.write_folder(at("theirs"), {{"net.json", "3"}}, ours); }),
              HasSubstr("was not written by metac"));
  write_file(at("file"), "x");
  EXPECT_THAT(error([&] { StagedFolder folder(at("file")); }), HasSubstr("is not a folder"));
  ASSERT_EQ(::symlink("theirs", at("link").c_str()), 0);
  EXPECT_THAT(error([&] { StagedFolder folder(at("link")); }), HasSubstr("is not a folder"));
  EXPECT_THAT(error([&] { StagedFolder folder("/"); }), HasSubstr("cannot be replaced"));
  {
    StagedFolder folder(at("no/parent/yet"));
  }  // makes the folders on the way, and takes them back
  EXPECT_FALSE(files.exists(at("no")));
  EXPECT_THAT(error([&] { StagedFolder folder(at("file/below")); }), HasSubstr("Not a directory"));
  EXPECT_EQ(names(), (std::vector<std::string>{"file", "link", "out", "theirs"}));
  StagedFolder spaces(at("a b$(c)'\"\n"));
  spaces.commit();
  StagedFolder deep(at("deep/er/out"));
  deep.write("net.json", "4");
  deep.commit();
  EXPECT_EQ(files.read(at("deep/er/out/net.json")), "4");
  EXPECT_TRUE(files.exists(at("a b$(c)'\"\n")));
}

TEST(MemoryFiles, BehaveAlike) {
  MemoryFiles files;
  files.write_folder("out", {{"net.json", "1"}, {"src/a", "2"}}, {});
  EXPECT_EQ(files.list("out"), (std::vector<std::string>{"net.json", "src"}));
  EXPECT_THROW(files.write_folder("out", {}, {}), CompileError);
  EXPECT_THROW(files.read("none"), CompileError);
  EXPECT_EQ(files.read("out/src/a"), "2");
}

TEST(Hashing, Sha256OfTheStandard) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_NE(Sha256().update_part("ab").update_part("c").hex(), Sha256().update_part("a").update_part("bc").hex());
}

TEST(Base64, BothWays) {
  for (std::string text : {"", "f", "fo", "foo", "foob"}) EXPECT_EQ(from_base64(to_base64(text)), text);
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  std::string large(10'000'001, 'x');
  EXPECT_EQ(from_base64(to_base64(large)), large);
  for (const char* bad : {"Zm9", "Zm9v\nZm9v", "Zm=vZm9v", " Zm9vZm9", "Zm9*", "===="})
    EXPECT_EQ(from_base64(bad), std::nullopt) << bad;
}

TEST(ResultOf, ValueOrDiagnostic) {
  Result<int> good = capture([] { return 3; });
  EXPECT_EQ(good.value(), 3);
  Result<int> bad = capture([]() -> int { fail("K is ", 3); });
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.diagnostic().message, "K is 3");
}

}  // namespace
}  // namespace metac::support_files_test

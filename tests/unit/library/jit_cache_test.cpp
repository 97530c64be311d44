// The kernel compiler, its cache, and what happens to the cache when things go wrong.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "compiler/jit/cache/cache_directory.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/kernel_library.h"
#include "compiler/jit/precompiled_prelude.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/support/diagnostic.h"

namespace metac::jit_cache_test {
namespace {

namespace fs = std::filesystem;

class CacheFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "metac-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<fs::path> files(const std::string& extension) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == extension) found.push_back(entry.path());
    return found;
  }
  std::string folder_;
};

KernelSource scaled(const std::string& name, int factor) {
  KernelSource kernel;
  kernel.name = name;
  kernel.text =
      "extern \"C\" void " + name +
      "(void* const* b, const int64_t*, void*, int64_t begin, int64_t end) {\n"
      "  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] * " +
      std::to_string(factor) + ".0f;\n}\n";
  return kernel;
}

// What a kernel made by scaled() makes of 3.
float run(rt::KernelFunction function) {
  float in[1] = {3}, out[1] = {};
  void* buffers[] = {in, out};
  function(buffers, nullptr, nullptr, 0, 1);
  return out[0];
}

TEST_F(CacheFolder, KernelsAreCompiledOnceAndThenFound) {
  ObjectCache cache(folder_);
  std::vector<KernelSource> kernels = {scaled("k000", 2), scaled("k001", 3)};
  for (int round = 0; round < 2; ++round) {
    KernelStore store(cache);  // another has nothing in memory
    KernelLibrary library(kernels, cpu_target("native"), {2, &store});
    float in[5] = {1, 2, 3, 4, 5}, out[5] = {};
    void* buffers[] = {in, out};
    library.functions()[1](buffers, nullptr, nullptr, 1, 4);
    EXPECT_EQ(out[0], 0);
    EXPECT_EQ(out[1], 6);
    EXPECT_EQ(out[3], 12);
    EXPECT_EQ(out[4], 0);
    EXPECT_EQ(library.origins().compiled, round == 0 ? 2 : 0);
    EXPECT_EQ(library.origins().disk, round == 0 ? 0 : 2);
    EXPECT_EQ(KernelLibrary(kernels, cpu_target("native"), {2, &store}).origins().memory, 2);
  }
}

TEST_F(CacheFolder, AKernelIsFoundUnderAnyNameAndBesideAnyOther) {
  ObjectCache cache(folder_);
  KernelStore first(cache), second(cache);
  KernelLibrary made({scaled("k000", 2), scaled("k001", 3)}, cpu_target("native"), {1, &first});
  std::vector<StoredKernel> found =
      second.get({scaled("k000", 3), scaled("k001", 5), scaled("k002", 2), scaled("k003", 5)}, cpu_target("native"), 1);
  const KernelOrigin expected[] = {KernelOrigin::disk, KernelOrigin::compiled, KernelOrigin::disk, KernelOrigin::compiled};
  const float factors[] = {3, 5, 2, 5};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i].origin, expected[i]) << i;
    EXPECT_EQ(run(found[i].function), 3 * factors[i]) << i;
  }
  EXPECT_EQ(found[1].function, found[3].function);
}

TEST_F(CacheFolder, CodeStaysWhileSomebodyHasOneOfItsKernels) {
  ObjectCache cache(folder_);
  KernelStore store(cache);
  std::vector<StoredKernel> kernels = store.get({scaled("k000", 2), scaled("k001", 3)}, cpu_target("native"), 1);
  kernels.resize(1);
  EXPECT_EQ(run(kernels[0].function), 6);
  EXPECT_EQ(store.get({scaled("k000", 3)}, cpu_target("native"), 1)[0].origin, KernelOrigin::memory);
  kernels.clear();
  EXPECT_EQ(store.get({scaled("k000", 3)}, cpu_target("native"), 1)[0].origin, KernelOrigin::disk);
}

// An entry that names an object which is gone, or which is damaged, is as good as none.
TEST_F(CacheFolder, AKernelWhoseObjectIsGoneIsCompiledAgain) {
  for (const bool damage : {false, true}) {
    ObjectCache cache(folder_);
    const std::vector<KernelSource> kernel = {scaled("k000", damage ? 7 : 9)};
    KernelStore(cache).get(kernel, cpu_target("native"), 1);
    fs::path largest;
    for (const fs::path& path : files(".obj"))
      if (largest.empty() || fs::file_size(path) > fs::file_size(largest)) largest = path;
    if (damage)
      fs::resize_file(largest, 100);
    else
      fs::remove(largest);
    StoredKernel again = KernelStore(cache).get(kernel, cpu_target("native"), 1)[0];
    EXPECT_EQ(again.origin, KernelOrigin::compiled);
    EXPECT_EQ(run(again.function), damage ? 21 : 27);
    EXPECT_EQ(KernelStore(cache).get(kernel, cpu_target("native"), 1)[0].origin, KernelOrigin::disk);
    cache.clear();
  }
}

TEST_F(CacheFolder, ManyProcessesCompileAKernelOnce) {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < 6; ++i) {
    kernels.push_back(scaled(concat("k00", i), i + 2));
    kernels.back().text.insert(0, std::string(20 << 10, ' ') + "\n");  // a module of its own
  }
  precompiled_prelude(cpu_target("native"));  // else each of the processes makes it
  std::string log = folder_ + "/compiled";
  for (int process = 0; process < 16; ++process)
    if (fork() == 0) {
      ObjectCache cache(folder_);
      KernelStore store(cache);
      bool good = true;
      for (const StoredKernel& kernel : store.get(kernels, cpu_target("native"), 2))
        if (kernel.origin == KernelOrigin::compiled) std::ofstream(log, std::ios::app) << "x";
      for (size_t i = 0; const StoredKernel& kernel : store.get(kernels, cpu_target("native"), 2))
        good &= run(kernel.function) == 3.0f * static_cast<float>(++i + 1);
      _exit(good ? 0 : 1);
    }
  int status = 0;
  while (wait(&status) > 0) EXPECT_EQ(status, 0);
  EXPECT_EQ(fs::file_size(log), kernels.size());
  EXPECT_TRUE(files(".lock").empty());
}

// Two kernels of a user's C++ that differ behind what looks like a comment are two.
TEST(KernelText, WhatLooksLikeACommentInAUsersTextIsNone) {
  KernelSource kernel;
  kernel.name = "k000";
  kernel.text = concat("// head\nextern \"C\" void k000() {  // ours\n", users_code_mark, "\n  f(\"http://a\");\n}\n");
  EXPECT_EQ(text_named(kernel, "other"),
            concat("extern \"C\" void other() {  \n", users_code_mark, "\n  f(\"http://a\");\n}\n"));
}

// So it does not matter whether the headers' tree was made by this process or came from the cache.
TEST(KernelCompiler, PrecompiledPreludeHasTheSameBytesEachTime) {
  const CpuTarget cpu = cpu_target("x86-64-v3");
  EXPECT_EQ(compile_prelude(cpu), compile_prelude(cpu));
  EXPECT_EQ(compile_prelude(cpu), precompiled_prelude(cpu));
}

TEST(KernelCompiler, WhatDoesNotCompileIsOurBug) {
  EXPECT_THROW(compile_object("void f() { undeclared(); }", cpu_target("x86-64-v3")), KernelCompileError);
  EXPECT_THROW(compile_object("#include <stdio.h>\n", cpu_target("x86-64-v3")), KernelCompileError);
}

TEST(KernelCompiler, TheSameTextGivesTheSameBytes) {
  const std::string text =
      "#define METAC_RUNTIME_NAMESPACE net_runtime\n#include \"runtime/device/prelude.h\"\n"
      "namespace net_runtime { void k(const float* a, float* b) { for (int i = 0; i < 64; ++i) b[i] = exp(a[i]); } }\n";
  std::set<std::string> objects;
  for (const char* cpu : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    std::string object = compile_object(text, cpu_target(cpu));
    EXPECT_EQ(object, compile_object(text, cpu_target(cpu)));
    EXPECT_TRUE(objects.insert(object).second) << cpu << " makes no difference";
  }
}

TEST_F(CacheFolder, EveryFlippedByteIsNoticed) {
  ObjectCache cache(folder_);
  cache.store("key", "object");
  ASSERT_EQ(files(".obj").size(), 1u);
  fs::path path = files(".obj")[0];
  std::ifstream in(path, std::ios::binary);
  std::string good((std::istreambuf_iterator<char>(in)), {});
  auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; };
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    write(bad);
    EXPECT_FALSE(cache.load("key").has_value()) << "byte " << i;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    write(good.substr(0, length));
    EXPECT_FALSE(cache.load("key").has_value()) << "length " << length;
  }
  write(good);
  EXPECT_EQ(cache.load("key"), "object");
}

TEST_F(CacheFolder, ManyProcessesCompileAKeyOnce) {
  std::string log = folder_ + "/made";
  for (int process = 0; process < 64; ++process)
    if (fork() == 0) {
      ObjectCache cache(folder_);
      bool good = true;
      for (int key = 0; key < 10; ++key)
        good &= cache.get_or_make("key" + std::to_string(key), [&] {
          std::ofstream(log, std::ios::app) << "x";
          usleep(2000);
          return "object" + std::to_string(key);
        }) == "object" + std::to_string(key);
      _exit(good ? 0 : 1);
    }
  int status = 0;
  while (wait(&status) > 0) EXPECT_EQ(status, 0);
  EXPECT_EQ(fs::file_size(log), 10u);
  EXPECT_TRUE(files(".lock").empty());
}

TEST_F(CacheFolder, AKilledHolderLeavesNoLock) {
  pid_t child = fork();
  if (child == 0) {
    ObjectCache cache(folder_);
    cache.get_or_make("key", [&]() -> std::string {
      kill(getpid(), SIGKILL);
      return "";
    });
    _exit(1);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ObjectCache(folder_).get_or_make("key", [] { return "object"; }), "object");
}

TEST_F(CacheFolder, TheLeastRecentlyUsedGoesFirst) {
  ObjectCache cache(folder_);
  for (int i = 0; i < 4; ++i) {
    cache.store(std::to_string(i), std::string(1000, 'x'));
    usleep(10000);
  }
  ASSERT_TRUE(cache.load("0").has_value());
  cache.evict(2500);
  EXPECT_TRUE(cache.load("0").has_value());
  EXPECT_TRUE(cache.load("3").has_value());
  EXPECT_FALSE(cache.load("1").has_value());
}

TEST_F(CacheFolder, WhatNobodyHasUsedForLongGoes) {
  ObjectCache cache(folder_);
  for (const char* key : {"old", "new"}) cache.store(key, "object");
  const std::string old = ObjectCache::name_of("old");
  fs::last_write_time(folder_ + "/" + old + ".obj", fs::file_time_type::clock::now() - std::chrono::hours(48));
  const std::vector<CacheEntry> entries = cache.list();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].name, old);
  EXPECT_NEAR(entries[1].used_s, 48 * 3600, 60);
  EXPECT_LT(entries[0].used_s, 60);
  EXPECT_EQ(cache.evict_unused(49 * 3600), 0);
  EXPECT_EQ(cache.evict_unused(47 * 3600), entries[1].bytes);
  EXPECT_FALSE(cache.load("old").has_value());
  EXPECT_TRUE(cache.load("new").has_value());
}

TEST_F(CacheFolder, WhatAllProcessesFoundIsCounted) {
  ObjectCache parent(folder_);
  for (const char* key : {"one", "two"}) parent.store(key, "object");
  EXPECT_TRUE(parent.load("one").has_value());
  for (int process = 0; process < 16; ++process)
    if (fork() == 0) {
      {
        ObjectCache cache(folder_);
        for (int k = 0; k < 300; ++k) cache.load("one");
        cache.get_or_make(concat("key", process), [] { return "object"; });
      }
      parent.load("two");
      parent.write_counts();  // the child's own: what the parent has counted is not written twice
      _exit(0);
    }
  int status = 0;
  while (wait(&status) > 0) EXPECT_EQ(status, 0);
  parent.write_counts();
  std::ofstream(folder_ + "/hits", std::ios::app) << "no line of ours\n" << ObjectCache::name_of("one") << " -7\n";
  std::map<std::string, int64_t> found;
  for (const CacheEntry& entry : ObjectCache(folder_).list()) found[entry.name] = entry.found;
  EXPECT_EQ(found[ObjectCache::name_of("one")], 16 * 300 + 1);
  EXPECT_EQ(found[ObjectCache::name_of("two")], 16);
  EXPECT_EQ(parent.summary().found, 16 * 301 + 1);
  EXPECT_EQ(parent.summary().compiled, 16);
  parent.clear();
  EXPECT_EQ(parent.summary().found, 0);
}

TEST_F(CacheFolder, TheFileOfCountsStaysShort) {
  ObjectCache cache(folder_);
  for (int key = 0; key < 40; ++key) cache.store(std::to_string(key), "object");
  for (int round = 0; round < 250; ++round) {
    for (int key = 0; key < 40; ++key) cache.load(std::to_string(key));
    cache.write_counts();
    if (round == 100) fs::remove(folder_ + "/" + ObjectCache::name_of("7") + ".obj");
  }
  EXPECT_LT(fs::file_size(folder_ + "/hits"), 300u << 10);  // 250 times 40 lines of 67 bytes are more than twice as much
  EXPECT_EQ(cache.summary().found, 250 * 40 - 149);
}

TEST_F(CacheFolder, APlaceThatOthersCanWriteToIsRefused) {
  setenv("METAC_CACHE_DIR", folder_.c_str(), 1);
  EXPECT_EQ(find_cache_directory().path, folder_);
  chmod(folder_.c_str(), 0777);
  EXPECT_NE(find_cache_directory().problem.find("writable by others"), std::string::npos);
  chmod(folder_.c_str(), 0700);
  std::string link = folder_ + "-link";
  fs::create_directory_symlink(folder_, link);
  setenv("METAC_CACHE_DIR", link.c_str(), 1);
  EXPECT_NE(find_cache_directory().problem.find("symbolic link"), std::string::npos);
  fs::remove(link);
  setenv("METAC_CACHE_DIR", "relative", 1);
  EXPECT_EQ(find_cache_directory().path, "");
  unsetenv("METAC_CACHE_DIR");
}

}  // namespace
}  // namespace metac::jit_cache_test

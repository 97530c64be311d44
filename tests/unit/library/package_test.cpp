// Names and versions of packages as Python and Debian write them; ELF files are read no further than they reach.
// (tests/project installs packages.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/codegen/package/package_name.h"
#include "compiler/codegen/package/system_needs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac::package_test {
namespace {

TEST(PackageName, VersionsAreThoseOfPep440InTheirCanonicalSpelling) {
  for (const char* good : {"0", "1.0.0", "10.2", "1.2.0rc1", "1.0a0.dev2", "2.0.post1", "1.0+cpu.1", "2024.12.31"})
    EXPECT_NO_THROW(check_package_version(good)) << good;
  for (const char* bad : {"", "v1", "1.", ".1", "01", "1.0-1", "1.0 ", "1.0\n", "1.0RC1", "1!1", "1.0+", "1.0+A", "1.0.dev",
                          "1/2", "../1", "1..0", "latest"})
    EXPECT_THROW(check_package_version(bad), CompileError) << bad;
  EXPECT_THROW(check_package_version("1." + std::string(100, '1')), CompileError);
}

TEST(PackageName, DebianOrdersWhatComesBeforeARelease) {
  EXPECT_EQ(debian_version("1.2.0"), "1.2.0");
  EXPECT_EQ(debian_version("1.2.0rc1"), "1.2.0~rc1");
  EXPECT_EQ(debian_version("1.2a3.dev4"), "1.2~a3~~dev4");
  EXPECT_EQ(debian_version("1.2.post1+rc1.b2"), "1.2.post1+rc1.b2");
}

TEST(PackageName, NamesAreNormalised) {
  EXPECT_EQ(distribution_name("My_Net_2"), "my-net-2");
  EXPECT_EQ(wheel_name("My_Net_2"), "my_net_2");
  EXPECT_EQ(distribution_name("net_"), "net");
  EXPECT_NO_THROW(check_debian_name("ab"));
  EXPECT_THROW(check_debian_name("a"), CompileError);
  EXPECT_THROW(check_debian_name("a_"), CompileError);
}

TEST(SystemNeeds, TheOldestSystemThatHasAll) {
  const SystemNeeds needs = {{"libc.so.6", "libm.so.6", "libstdc++.so.6"},
                             {{"libc.so.6", {"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.4"}},
                              {"libm.so.6", {"GLIBC_2.29"}},
                              {"libstdc++.so.6", {"GLIBCXX_3.4", "GLIBCXX_3.4.29", "CXXABI_1.3", "CXXABI_1.3.9"}}}};
  EXPECT_EQ(glibc_of(needs), SymbolVersion(2, 34));
  EXPECT_EQ(debian_depends(needs), "libc6 (>= 2.34), libstdc++6 (>= 11)");
  EXPECT_EQ(glibc_of({{"libc.so.6"}, {{"libc.so.6", {"GLIBC_2.2.5"}}}}), SymbolVersion(2, 5));
  EXPECT_EQ(glibc_of({{"libc.so.6"}, {{"libc.so.6", {"GLIBC_ABI_DT_RELR"}}}}), SymbolVersion(2, 36));
  EXPECT_THROW(glibc_of({{"libc.so.6"}, {{"libc.so.6", {"GLIBC_PRIVATE"}}}}), CompileError);
  EXPECT_THROW(debian_depends({{"libstdc++.so.6"}, {{"libstdc++.so.6", {"GLIBCXX_3.4.99"}}}}), CompileError);
  EXPECT_THROW(debian_depends({{"libodd.so.1"}, {}}), CompileError);
}

TEST(SystemNeeds, DamagedFilesAreRefusedOrReadWithinTheirBounds) {
  const std::string whole(read_file("/bin/true").view()), path = ::testing::TempDir() + "metac-damaged-elf";
  EXPECT_THAT(system_needs("/bin/true").libraries, testing::Contains("libc.so.6"));
  auto read = [&](const std::string& bytes) {
    write_file(path, bytes);
    try {
      system_needs(path);
    } catch (const CompileError&) {
    }
  };
  for (size_t size = 0; size < whole.size(); size += size < 128 ? 1 : 997) {
    write_file(path, whole.substr(0, size));
    EXPECT_THROW(system_needs(path), CompileError) << size;  // the sections' table is at the end
  }
  uint32_t random = 1;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    for (int k = 0; k < 40; ++k) {
      random = random * 1664525 + 1013904223;
      // The header, or the table of sections, or anything.
      const size_t range = k % 3 == 0 ? 64 : k % 3 == 1 ? std::min<size_t>(2048, whole.size()) : whole.size();
      const size_t at = (random >> 8) % range;
      bytes[k % 3 == 1 ? whole.size() - 1 - at : std::max<size_t>(at, 20)] = static_cast<char>(random >> 24);
    }
    read(bytes);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace metac::package_test

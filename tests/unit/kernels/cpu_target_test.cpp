// What a machine can run goes by its features: machines that are not here, and this one.
#include "compiler/machine/cpu_target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/process/cpu_features.h"

namespace metac::cpu_target_test {
namespace {

// Each has what those before it have.
const std::vector<std::string> levels = {"x86-64",         "x86-64-v2",      "x86-64-v3",    "x86-64-v4",
                                         "x86-64-v4+vnni", "x86-64-v4+bf16", "x86-64-v4+amx"};

// A machine with what a level needs, but for one feature.
CpuFeatures machine(const std::string& level, const std::string& without = "") {
  std::set<std::string> features;
  for (const std::string& name : levels) {
    const CpuTarget cpu = cpu_target(name);
    features.emplace(cpu.instructions().march);
    for (std::string_view f : cpu.instructions().features) features.emplace(f);
    if (name == level) break;
  }
  features.erase(without);
  return [features](std::string_view f) { return features.count(std::string(f)) > 0; };
}

TEST(CpuTarget, AMachineRunsItsLevelAndThoseBelow) {
  for (size_t here = 0; here < levels.size(); ++here) {
    for (size_t asked = 0; asked < levels.size(); ++asked)
      EXPECT_EQ(runs_on(machine(levels[here]), cpu_target(levels[asked])), asked <= here)
          << levels[asked] << " on " << levels[here];
    EXPECT_EQ(best_cpu(machine(levels[here])).name, levels[here]);
  }
}

// Libraries ask by cpuid, as not every compiler's own answer can be believed; g++'s and clang's can.
TEST(CpuTarget, LibrariesSeeWhatTheCompilerSees) {
  for (const std::string& level : levels)
    for (std::string_view feature : cpu_target(level).instructions().features)
      EXPECT_EQ(metac_runtime::has_cpu_feature(std::string(feature).c_str()), has_here(feature)) << feature;
  EXPECT_FALSE(metac_runtime::has_cpu_feature("no such feature"));
  for (const InstructionSet& row : instruction_sets())  // whatever this machine has
    for (std::string_view feature : row.features)
      EXPECT_TRUE(std::any_of(std::begin(metac_runtime::cpu_features), std::end(metac_runtime::cpu_features),
                              [&](const auto& known) { return known.name == feature; }))
          << feature;
}

TEST(CpuTarget, EveryFeatureOfALevelIsNeeded) {
  for (const std::string& level : levels) {
    std::vector<std::string_view> needed = cpu_target(level).instructions().features;
    if (level != "x86-64") needed.push_back(cpu_target(level).instructions().march);
    for (const std::string& feature : std::vector<std::string>(needed.begin(), needed.end())) {
      EXPECT_FALSE(runs_on(machine(level, feature), cpu_target(level))) << level << " without " << feature;
      const CpuTarget best = best_cpu(machine(level, feature));
      EXPECT_TRUE(runs_on(machine(level, feature), best)) << level << " without " << feature << " got " << best.name;
      EXPECT_NE(best.name, level);
    }
  }
}

TEST(CpuTarget, TheLevelsFeaturesGrow) {
  for (size_t k = 1; k < levels.size(); ++k) {
    std::vector<std::string_view> less = cpu_target(levels[k - 1]).instructions().features,
                                  more = cpu_target(levels[k]).instructions().features;
    std::sort(less.begin(), less.end()), std::sort(more.begin(), more.end());
    EXPECT_TRUE(std::includes(more.begin(), more.end(), less.begin(), less.end()));
    EXPECT_GT(more.size(), less.size()) << levels[k];
  }
}

TEST(CpuTarget, ThisMachineRunsItsOwn) {
  const CpuTarget native = cpu_target("native");
  EXPECT_TRUE(runs_here(native));
  EXPECT_TRUE(runs_here(cpu_target("x86-64")));
  for (const std::string& level : levels)
    EXPECT_EQ(runs_here(cpu_target(level)), !is_better(cpu_target(level), native)) << level;
}

}  // namespace
}  // namespace metac::cpu_target_test

// What changed between two folders that `metac compile` wrote, in the words of the model and of the compiler: options,
// parameters, nodes, kernels; files and sizes for what those do not explain.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace metac {

struct FolderDifferences {
  struct Fact {
    std::string what, before, after;  // "cpu", "x86-64-v3", "x86-64-v4"; "" where one side has it not
  };
  struct Thing {
    std::string name, what;  // a node's operator, a kernel's nodes
    std::vector<std::string> changes;
  };
  struct Things {
    std::vector<Thing> removed, added, changed;
    bool empty() const { return removed.empty() && added.empty() && changed.empty(); }
  };
  struct Size {
    std::string file;
    int64_t before = 0, after = 0;  // bytes; -1: it is not there
    bool other_content = false;
  };

  std::vector<Fact> facts;
  Things parameters, nodes, kernels;
  std::vector<std::string> removed, added, changed;  // texts that a compilation writes, by their paths below the folder
  std::vector<Size> sizes;                           // of what a build makes, and of the weights

  bool same() const;
};

// Throws CompileError where a folder is none of ours.
FolderDifferences differences_of(const std::string& a, const std::string& b);

}  // namespace metac

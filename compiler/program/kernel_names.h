// What a kernel is called, and what the head of its text says of it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/tensor/group.h"

namespace metac {

class KernelNames {
 public:
  explicit KernelNames(const std::vector<Op*>& ops) { collect(ops); }

  // k017_conv_add_relu: our number and the operators' names, as far as they are plain words.
  std::string name_of(const Kernel& kernel, const std::string& prefix, size_t number) const;
  // Which model nodes it implements, and how they were fused.
  void describe(Kernel& kernel, const Group& group) const;
  // Of another launch of the same kernel.
  void add_nodes(KernelSource& kernel, const std::vector<int>& nodes) const;

 private:
  void collect(const std::vector<Op*>& ops);
  std::string type_of(int node) const;
  std::string head_of(const std::string& kernel, const std::vector<int>& implemented) const;

  std::map<int, std::string> op_types_;  // by model node
};

}  // namespace metac

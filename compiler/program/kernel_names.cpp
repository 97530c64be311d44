#include "compiler/program/kernel_names.h"

#include <algorithm>
#include <iterator>

#include "compiler/support/diagnostic.h"

namespace metac {

void KernelNames::collect(const std::vector<Op*>& ops) {
  for (const Op* op : ops) {
    if (op->origin.node >= 0) op_types_.emplace(op->origin.node, op->origin.op_type);
    for (const Region& region : op->regions) collect(region.ops);
  }
}

std::string KernelNames::type_of(int node) const {
  auto found = op_types_.find(node);
  return found == op_types_.end() ? "" : found->second;
}

std::string KernelNames::name_of(const Kernel& kernel, const std::string& prefix, size_t number) const {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%s%03zu", prefix.c_str(), number);
  std::string name = digits;
  std::vector<std::string> words;
  for (int node : kernel.nodes) {
    std::string word;
    for (char c : type_of(node))
      if (std::isalnum(static_cast<unsigned char>(c)))
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word.empty() || word.size() > 24 || std::count(words.begin(), words.end(), word)) continue;
    if (words.size() < 4) words.push_back(word);
  }
  if (kernel.nodes.empty()) words = {kernel.schedule.empty() ? "kernel" : "halo"};
  for (const std::string& word : words) name += "_" + word;
  return name;
}

std::string KernelNames::head_of(const std::string& kernel, const std::vector<int>& implemented) const {
  std::string nodes;
  for (int node : implemented)
    nodes += (nodes.empty() ? "" : ", ") + std::to_string(node) + " " + type_of(node).substr(0, 24);
  for (char& c : nodes)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != ',' && c != ' ') c = '_';
  return kernel + ": model nodes " + (nodes.empty() ? "none" : nodes);
}

void KernelNames::describe(Kernel& kernel, const Group& group) const {
  kernel.comments.push_back(head_of(kernel.name, kernel.nodes));
  if (group.stages.empty()) return;
  for (std::string& line : group.strategy ? group.strategy->describe(group) : describe_stages(group))
    kernel.comments.push_back(std::move(line));
}

void KernelNames::add_nodes(KernelSource& kernel, const std::vector<int>& nodes) const {
  const std::string before = head_of(kernel.name, kernel.nodes);
  std::vector<int> all;
  std::set_union(kernel.nodes.begin(), kernel.nodes.end(), nodes.begin(), nodes.end(), std::back_inserter(all));
  if (all == kernel.nodes) return;
  kernel.nodes = std::move(all);
  if (const size_t at = kernel.text.find(before); at != std::string::npos)
    kernel.text.replace(at, before.size(), head_of(kernel.name, kernel.nodes));
}

}  // namespace metac

#include "compiler/api/folder_differences.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/api/compiled_folder.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

namespace fs = std::filesystem;
using PlainJson = nlohmann::json;
using Texts = std::map<std::string, std::string>;
using Things = FolderDifferences::Things;

// Every text below the folder that a compilation writes and a build does not: relative path -> content.
Texts texts_of(const std::string& folder) {
  Texts files;
  for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
    std::string name = it->path().filename();
    const bool built = name == "bin" || name == "build" || name == "__pycache__";
    if (it->is_directory() && built) it.disable_recursion_pending();
    std::string extension = it->path().extension();
    static const std::set<std::string> text = {".cpp", ".cu",   ".h",    ".hpp", ".txt", ".cmake",
                                               ".py",  ".json", ".toml", ".pc",  ".map"};
    if (it->is_regular_file() && !it->is_symlink() && text.count(extension))
      files[fs::relative(it->path(), folder)] = std::string(read_file(it->path(), size_t{1} << 30).view());
  }
  return files;
}

struct Folder {
  explicit Folder(const std::string& folder) : path(folder) {
    if (!fs::is_directory(folder)) throw CompileError({folder, "", "is not a folder"});
    name = name_in_manifest(folder);
    texts = texts_of(folder);
    manifest = read_manifest(folder, name);
  }
  std::string path, name;
  Texts texts;
  PlainJson manifest;
};

std::string shown(const PlainJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "";
  return value.dump(-1, ' ', false, PlainJson::error_handler_t::replace);
}

// The facts of two objects that differ, by their keys.
void compare_facts(const std::string& prefix, const PlainJson& a, const PlainJson& b,
                   std::vector<FolderDifferences::Fact>* facts) {
  std::set<std::string> keys;
  for (const PlainJson* side : {&a, &b})
    if (side->is_object())
      for (const auto& [key, unused] : side->items()) keys.insert(key);
  for (const std::string& key : keys) {
    const std::string before = shown(a.value(key, PlainJson())), after = shown(b.value(key, PlainJson()));
    if (before != after) facts->push_back({prefix + key, before, after});
  }
}

std::string dims_of(const PlainJson& row) {
  std::string text = shown(row.value("dtype", PlainJson()));
  const PlainJson dims = row.value("dims", PlainJson::array());
  text += dims.empty() ? " scalar" : " ";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? "x" : "") + shown(dims[i]);
  return text;
}

// Compares two lists of objects by `key`; `changes` says what differs between two of one key.
template <typename Key, typename What, typename Changes>
Things compare_lists(const std::vector<PlainJson>& a, const std::vector<PlainJson>& b, Key key, What what, Changes changes) {
  // Things of one name are told apart by how many of it there were before.
  const auto by_key = [&](const std::vector<PlainJson>& list) {
    std::map<std::pair<std::string, int>, const PlainJson*> found;
    std::map<std::string, int> seen;
    for (const PlainJson& row : list) {
      const std::string name = key(row);
      found[{name, seen[name]++}] = &row;
    }
    return found;
  };
  const auto left = by_key(a), right = by_key(b);
  Things things;
  for (const auto& [name, row] : left) {
    const auto other = right.find(name);
    if (other == right.end()) {
      things.removed.push_back({shown(row->value("name", PlainJson())), what(*row), {}});
      continue;
    }
    std::vector<std::string> said = changes(*row, *other->second);
    if (!said.empty())
      things.changed.push_back({shown(other->second->value("name", PlainJson())), what(*other->second), said});
  }
  for (const auto& [name, row] : right)
    if (!left.count(name)) things.added.push_back({shown(row->value("name", PlainJson())), what(*row), {}});
  return things;
}

std::vector<PlainJson> list_at(const PlainJson& object, const char* key) {
  const PlainJson list = object.value(key, PlainJson::array());
  return list.is_array() ? std::vector<PlainJson>(list.begin(), list.end()) : std::vector<PlainJson>();
}

Things compare_parameters(const PlainJson& a, const PlainJson& b) {
  return compare_lists(
      list_at(a, "parameters"), list_at(b, "parameters"),
      [](const PlainJson& row) { return shown(row.value("name", PlainJson())); }, dims_of,
      [](const PlainJson& before, const PlainJson& after) {
        std::vector<std::string> said;
        if (dims_of(before) != dims_of(after)) said.push_back(dims_of(before) + " -> " + dims_of(after));
        const std::string hash = shown(before.value("sha256", PlainJson())),
                          other = shown(after.value("sha256", PlainJson()));
        if (said.empty() && !hash.empty() && !other.empty() && hash != other) said.emplace_back("other values");
        return said;
      });
}

// k017_conv_relu without the number, which moves with every kernel before it.
std::string without_number(const std::string& kernel) {
  const size_t line = kernel.find('_');
  return line == std::string::npos ? kernel : kernel.substr(line + 1);
}

std::string name_of_node(const PlainJson& node) {
  const std::string name = shown(node.value("name", PlainJson()));
  return name.empty() ? "#" + shown(node.value("index", PlainJson())) : "\"" + name + "\"";
}

// A manifest's programs: the library's first and the others, each with its kernels.
struct ProgramOf {
  std::string label;
  const PlainJson* manifest;
};
std::vector<ProgramOf> programs_of(const PlainJson& manifest) {
  std::vector<ProgramOf> programs = {{"", &manifest}};
  const auto others = manifest.find("programs");
  if (others == manifest.end() || !others->is_array()) return programs;
  for (const PlainJson& program : *others)
    if (program.is_object())
      programs.push_back({shown(program.value("function", PlainJson())) + " " + shown(program.value("dims", PlainJson())) +
                              " " + shown(program.value("cpu", PlainJson())) + ": ",
                          &program});
  return programs;
}

// The nodes that kernels were made of, each once.
std::vector<PlainJson> nodes_of(const PlainJson& manifest) {
  std::vector<PlainJson> nodes;
  std::set<std::string> seen;
  for (const PlainJson& kernel : list_at(manifest, "kernels"))
    for (const PlainJson& node : list_at(kernel, "nodes"))
      if (node.is_object() && seen.insert(shown(node.value("index", PlainJson()))).second) nodes.push_back(node);
  return nodes;
}

Things compare_nodes(const PlainJson& a, const PlainJson& b) {
  const auto key = [](const PlainJson& node) {
    const std::string name = shown(node.value("name", PlainJson()));
    return name.empty() ? "#" + shown(node.value("operator", PlainJson())) : name;
  };
  const auto type = [](const PlainJson& node) { return shown(node.value("operator", PlainJson())); };
  return compare_lists(nodes_of(a), nodes_of(b), key, type, [&](const PlainJson& before, const PlainJson& after) {
    std::vector<std::string> said;
    if (type(before) != type(after)) said.push_back(type(before) + " -> " + type(after));
    return said;
  });
}

// Where each kernel's text stands in a file: from its head, "// k017_conv_relu: ...", to the next one's. Numbers of kernels
// are taken out.
Texts kernel_texts(const std::string& file) {
  Texts texts;
  const auto is_head = [&](size_t at) {
    return file.compare(at, 4, "// k") == 0 && at + 4 < file.size() &&
           std::isdigit(static_cast<unsigned char>(file[at + 4]));
  };
  std::string name;
  for (size_t at = 0; at < file.size();) {
    const size_t end = std::min(file.find('\n', at), file.size() - 1) + 1;
    if (is_head(at)) name = file.substr(at + 3, file.find_first_of(": \n", at + 3) - at - 3);
    if (!name.empty()) texts[name].append(file, at, end - at);
    at = end;
  }
  for (auto& [kernel, text] : texts)
    for (size_t at = 0; (at = text.find(kernel, at)) != std::string::npos;) text.replace(at, kernel.size(), "k");
  return texts;
}

std::string schedule_of(const PlainJson& kernel) {
  std::string text;
  for (const PlainJson& line : list_at(kernel, "schedule")) text += (text.empty() ? "" : ", ") + shown(line);
  return text;
}

class KernelComparison {
 public:
  KernelComparison(const Folder& a, const Folder& b) : a_(a), b_(b) {}

  Things run(const PlainJson& a, const PlainJson& b) {
    const auto key = [](const PlainJson& row) {
      std::string text = without_number(shown(row.value("name", PlainJson())));
      for (const PlainJson& node : list_at(row, "nodes")) text += " " + name_of_node(node);
      return text;
    };
    const auto what = [](const PlainJson& row) {
      std::string text;
      for (const PlainJson& node : list_at(row, "nodes"))
        text += (text.empty() ? "" : ", ") + name_of_node(node) + " " + shown(node.value("operator", PlainJson()));
      return text;
    };
    return compare_lists(list_at(a, "kernels"), list_at(b, "kernels"), key, what,
                         [&](const PlainJson& before, const PlainJson& after) { return changes(before, after); });
  }

 private:
  std::vector<std::string> changes(const PlainJson& before, const PlainJson& after) {
    std::vector<std::string> said;
    if (schedule_of(before) != schedule_of(after))
      said.push_back("schedule: " + schedule_of(before) + " -> " + schedule_of(after));
    for (const char* figure : {"launches", "flops", "bytes"}) {
      const std::string was = shown(before.value(figure, PlainJson())), is = shown(after.value(figure, PlainJson()));
      if (was != is) said.push_back(std::string(figure) + ": " + was + " -> " + is);
    }
    if (said.empty() && text_of(a_, before) != text_of(b_, after)) said.emplace_back("other code");
    return said;
  }

  std::string text_of(const Folder& folder, const PlainJson& kernel) {
    const std::string file = shown(kernel.value("file", PlainJson()));
    const auto found = folder.texts.find(file);
    if (found == folder.texts.end()) return "";
    auto [entry, fresh] = texts_.try_emplace(folder.path + "/" + file);
    if (fresh) entry->second = kernel_texts(found->second);
    return entry->second[shown(kernel.value("name", PlainJson()))];
  }

  const Folder &a_, &b_;
  std::map<std::string, Texts> texts_;
};

void add(Things* all, const std::string& label, Things more) {
  for (auto [to, from] :
       {std::pair{&all->removed, &more.removed}, {&all->added, &more.added}, {&all->changed, &more.changed}})
    for (FolderDifferences::Thing& thing : *from) {
      thing.name = label + thing.name;
      to->push_back(std::move(thing));
    }
}

int64_t size_of_file(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? -1 : static_cast<int64_t>(size);
}

void compare_sizes(const Folder& a, const Folder& b, std::vector<FolderDifferences::Size>* sizes) {
  for (const auto& [before, after] : {std::pair{a.name + ".weights", b.name + ".weights"},
                                      {"lib/lib" + a.name + ".so", "lib/lib" + b.name + ".so"},
                                      {"lib/lib" + a.name + ".a", "lib/lib" + b.name + ".a"},
                                      {"bin/" + a.name + "_run", "bin/" + b.name + "_run"}}) {
    FolderDifferences::Size size{after, size_of_file(a.path + "/" + before), size_of_file(b.path + "/" + after)};
    if (size.before >= 0 && size.before == size.after) {
      const FileBytes left = read_file(a.path + "/" + before), right = read_file(b.path + "/" + after);
      size.other_content = left.view() != right.view();
    }
    if (size.before >= 0 || size.after >= 0) sizes->push_back(size);
  }
}

}  // namespace

bool FolderDifferences::same() const {
  const auto alike = [](const Size& size) { return size.before == size.after && !size.other_content; };
  return facts.empty() && parameters.empty() && nodes.empty() && kernels.empty() && removed.empty() && added.empty() &&
         changed.empty() && std::all_of(sizes.begin(), sizes.end(), alike);
}

FolderDifferences differences_of(const std::string& path_a, const std::string& path_b) {
  const Folder a(path_a), b(path_b);
  FolderDifferences found;
  try {
    std::vector<std::string> keys = {"metac",          "name",     "model_sha256", "cpu",     "weights_embedded",
                                     "weights_sha256", "inputs",   "outputs",      "symbols", "routines",
                                     "steps",          "libraries"};
    std::set<std::string> of_devices;
    for (const Folder* folder : {&a, &b})
      for (const auto& [key, value] : folder->manifest.items())
        if (key.ends_with("_architectures")) of_devices.insert(key);
    keys.insert(keys.end(), of_devices.begin(), of_devices.end());
    for (const std::string& key : keys) {
      const std::string before = shown(a.manifest.value(key, PlainJson())),
                        after = shown(b.manifest.value(key, PlainJson()));
      if (before != after) found.facts.push_back({key, before, after});
    }
    compare_facts("option ", a.manifest.value("options", PlainJson()), b.manifest.value("options", PlainJson()),
                  &found.facts);
    compare_facts("memory ", a.manifest.value("memory", PlainJson()), b.manifest.value("memory", PlainJson()), &found.facts);
    found.parameters = compare_parameters(a.manifest, b.manifest);
    found.nodes = compare_nodes(a.manifest, b.manifest);
    KernelComparison kernels(a, b);
    const std::vector<ProgramOf> left = programs_of(a.manifest), right = programs_of(b.manifest);
    const PlainJson none = PlainJson::object();
    const auto of = [&](const std::vector<ProgramOf>& list, const std::string& label) {
      for (const ProgramOf& program : list)
        if (program.label == label) return program.manifest;
      return &none;
    };
    std::set<std::string> labels;
    for (const auto* list : {&left, &right})
      for (const ProgramOf& program : *list) labels.insert(program.label);
    for (const std::string& label : labels) add(&found.kernels, label, kernels.run(*of(left, label), *of(right, label)));
  } catch (const PlainJson::exception& error) {
    throw CompileError({path_a, "", concat("or ", path_b, " has a manifest that this metac does not know: ", error.what())});
  }
  for (const auto& [file, text] : a.texts)
    if (const auto other = b.texts.find(file); other == b.texts.end())
      found.removed.push_back(file);
    else if (other->second != text)
      found.changed.push_back(file);
  for (const auto& [file, unused] : b.texts)
    if (!a.texts.count(file)) found.added.push_back(file);
  compare_sizes(a, b, &found.sizes);
  return found;
}

}  // namespace metac

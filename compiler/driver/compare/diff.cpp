// metac diff: what changed between two compilations of a model, or between the values of two models, for CI.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "compiler/api/folder_differences.h"
#include "compiler/driver/command.h"
#include "compiler/driver/compare/diff_values.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

using Json = nlohmann::ordered_json;
using Things = FolderDifferences::Things;

Json json_of(const Things& things) {
  Json rows = {{"removed", Json::array()}, {"added", Json::array()}, {"changed", Json::array()}};
  for (auto [key, list] : {std::pair{"removed", &things.removed}, {"added", &things.added}, {"changed", &things.changed}})
    for (const FolderDifferences::Thing& thing : *list) {
      Json row = {{"name", thing.name}, {"what", thing.what}};
      if (!thing.changes.empty()) row["changes"] = thing.changes;
      rows[key].push_back(std::move(row));
    }
  return rows;
}

Json json_of(const FolderDifferences& d) {
  Json facts = Json::array(), sizes = Json::object();
  for (const auto& fact : d.facts) facts.push_back({{"what", fact.what}, {"before", fact.before}, {"after", fact.after}});
  const auto bytes = [](int64_t size) { return size < 0 ? Json(nullptr) : Json(size); };
  for (const auto& size : d.sizes) sizes[size.file] = {bytes(size.before), bytes(size.after)};
  return {{"same", d.same()},
          {"facts", facts},
          {"parameters", json_of(d.parameters)},
          {"nodes", json_of(d.nodes)},
          {"kernels", json_of(d.kernels)},
          {"added", d.added},
          {"removed", d.removed},
          {"changed", d.changed},
          {"bytes", sizes}};
}

void print(const char* what, const Things& things) {
  const auto line = [&](char mark, const FolderDifferences::Thing& thing) {
    std::printf("%c %s %s%s%s%s\n", mark, what, quoted(thing.name).c_str(), thing.what.empty() ? "" : " (",
                thing.what.substr(0, 200).c_str(), thing.what.empty() ? "" : ")");
    for (const std::string& change : thing.changes) std::printf("    %s\n", change.substr(0, 300).c_str());
  };
  for (const auto& thing : things.removed) line('-', thing);
  for (const auto& thing : things.added) line('+', thing);
  for (const auto& thing : things.changed) line('!', thing);
}

std::string cut(const std::string& text) { return text.empty() ? "none" : text.substr(0, 120); }

std::string text_of(const FolderDifferences::Size& size) {
  const auto bytes = [](int64_t count) { return count < 0 ? std::string("not built") : show_bytes(count); };
  if (size.other_content) return concat(size.file, ": other content of the same size");
  std::string text = concat(size.file, ": ", bytes(size.before), " -> ", bytes(size.after));
  if (size.before >= 0 && size.after >= 0 && bytes(size.before) == bytes(size.after))
    text += concat(" (", size.after > size.before ? "+" : "", size.after - size.before, " bytes)");
  return text;
}

void print(const FolderDifferences& d, bool files) {
  for (const auto& fact : d.facts)
    std::printf("! %s: %s -> %s\n", fact.what.c_str(), cut(fact.before).c_str(), cut(fact.after).c_str());
  print("parameter", d.parameters);
  print("node", d.nodes);
  print("kernel", d.kernels);
  size_t built = 0;
  for (const auto& size : d.sizes)
    if (size.before != size.after || size.other_content) std::printf("! %s\n", text_of(size).c_str()), ++built;
  if (files)
    for (auto [mark, list] : {std::pair{'-', &d.removed}, {'+', &d.added}, {'!', &d.changed}})
      for (const std::string& file : *list) std::printf("%c %s\n", mark, file.c_str());
  if (d.same()) return void(std::printf("no difference\n"));
  const size_t texts = d.removed.size() + d.added.size() + d.changed.size();
  if (texts == 0 && built > 0)
    std::printf("the sources are the same: another compiler, flags or a build of one alone made the rest differ\n");
  const auto count = [](const Things& things) {
    return things.removed.size() + things.added.size() + things.changed.size();
  };
  std::printf("%zu parameters, %zu nodes, %zu kernels, %zu built files and %zu texts%s differ\n", count(d.parameters),
              count(d.nodes), count(d.kernels), built, texts, texts && !files ? " (--files lists them)" : "");
}

}  // namespace

void add_diff_command(CLI::App& app, int* status) {
  struct Options : DiffValuesOptions {
    bool files = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("diff",
                         "what changed between two compilations: options, parameters, nodes, kernels, sizes; with "
                         "--data: how far a model's values are from float32, and where they leave it");
  command->add_option("a", o->model, "a folder that `metac compile` wrote; with --data: a model in float32")
      ->required()
      ->type_name("DIR_A|MODEL");
  command
      ->add_option("b", o->other,
                   "another one; with --data: of the same names of values; if absent, the same with --precision")
      ->type_name("DIR_B|MODEL");
  command->add_flag("--files", o->files, "list the texts that differ too");
  command->add_flag("--json", o->json, "the differences as JSON");
  add_diff_values_options(*command, *o);
  command->callback([=] {
    if (!o->data.empty()) return void(*status = diff_values(*o));
    if (o->other.empty()) throw UsageError("two folders are compared, or a model on --data");
    const FolderDifferences found = differences_of(o->model, o->other);
    if (o->json)
      std::cout << json_of(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    else
      print(found, o->files);
    *status = found.same() ? exit_good : exit_difference;
  });
}

}  // namespace metac

// metac cache: what compiled kernels are kept, where, how much room they take, and how often they were found.
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/jit/cache/object_cache.h"

namespace metac {
namespace {

nlohmann::ordered_json json_of(const CacheSummary& s) {
  nlohmann::ordered_json report = {{"directory", s.directory}, {"entries", s.entries}, {"bytes", s.bytes},
                                   {"limit", s.limit},         {"found", s.found},     {"compiled", s.compiled}};
  if (!s.problem.empty()) report["problem"] = s.problem;
  return report;
}

nlohmann::ordered_json json_of(const std::vector<CacheEntry>& entries) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CacheEntry& entry : entries) {
    nlohmann::ordered_json& row = rows.emplace_back();
    row = {{"name", entry.name}, {"kind", entry.kind}, {"bytes", entry.bytes}, {"found", entry.found},
           {"used_seconds_ago", entry.used_s}};
    row["made_seconds_ago"] = entry.made_s < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(entry.made_s);
  }
  return rows;
}

void print(const CacheSummary& s) {
  std::printf("%s\n%lld entries, %s of %s; found %lld times, %lld kernels compiled\n", s.directory.c_str(),
              static_cast<long long>(s.entries), show_bytes(s.bytes).c_str(), show_bytes(s.limit).c_str(),
              static_cast<long long>(s.found), static_cast<long long>(s.compiled));
}

void print(const std::vector<CacheEntry>& entries) {
  if (entries.empty()) return;
  std::printf("%-16s %-16s %10s %8s %8s %8s\n", "entry", "kind", "size", "made", "used", "found");
  for (const CacheEntry& entry : entries)
    std::printf("%-16.16s %-16s %10s %8s %8s %8lld\n", entry.name.c_str(), entry.kind.empty() ? "?" : entry.kind.c_str(),
                show_bytes(entry.bytes).c_str(), entry.made_s < 0 ? "?" : show_age(entry.made_s).c_str(),
                show_age(entry.used_s).c_str(), static_cast<long long>(entry.found));
}

}  // namespace

void add_cache_command(CLI::App& app, int* status) {
  struct Options {
    std::string limit, unused;
    bool clear = false, json = false, list = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("cache", "list, limit or clear the cache of compiled kernels");
  command->add_flag("--list", o->list,
                    "every entry: what it is, its size, how long ago it was made and last used, how often it was found");
  command->add_option("--limit", o->limit,
                      "keep at most this many bytes (512M, 4G), now and from now on; what was not used for longest goes first");
  command->add_option("--unused", o->unused, "remove what was not used for so long (90s, 45m, 12h, 30d)");
  command->add_flag("--clear", o->clear, "remove all entries, and forget what was counted");
  command->add_flag("--json", o->json, "the report as JSON");
  command->callback([=] {
    ObjectCache& cache = ObjectCache::of_user();
    int64_t freed = 0;
    if (!o->unused.empty()) freed += cache.evict_unused(parse_age("--unused", o->unused));
    if (!o->limit.empty()) freed += cache.set_limit(parse_bytes("--limit", o->limit));
    if (o->clear) freed += cache.clear();
    const bool removes = o->clear || !o->limit.empty() || !o->unused.empty();
    const CacheSummary s = cache.summary();
    const std::vector<CacheEntry> entries = o->list ? cache.list() : std::vector<CacheEntry>();
    if (o->json) {
      nlohmann::ordered_json report = json_of(s);
      if (removes) report["freed"] = freed;
      if (o->list) report["list"] = json_of(entries);
      std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    } else if (s.directory.empty()) {
      std::printf("no cache: %s\n", s.problem.c_str());
    } else {
      if (removes) std::printf("freed %s\n", show_bytes(freed).c_str());
      print(s);
      print(entries);
    }
    *status = exit_good;
  });
}

}  // namespace metac

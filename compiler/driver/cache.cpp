// metac cache: what compiled kernels are kept, where, and how much room they take.
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/driver/command.h"
#include "compiler/driver/quantities.h"
#include "compiler/jit/object_cache.h"

namespace metac {

void add_cache_command(CLI::App& app, int* status) {
  struct Options {
    std::string limit;
    bool clear = false, json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("cache", "list, limit or clear the cache of compiled kernels");
  command->add_option("--limit", o->limit,
                      "keep at most this many bytes (512M, 4G); what was not used for longest goes first");
  command->add_flag("--clear", o->clear, "remove all entries");
  command->add_flag("--json", o->json, "the report as JSON");
  command->callback([=] {
    ObjectCache& cache = ObjectCache::of_user();
    if (!o->limit.empty()) cache.set_limit(parse_bytes("--limit", o->limit));
    int64_t freed = o->clear ? cache.clear() : 0;
    CacheSummary s = cache.summary();
    if (o->json) {
      nlohmann::ordered_json report = {
          {"directory", s.directory}, {"entries", s.entries}, {"bytes", s.bytes}, {"limit", s.limit}};
      if (o->clear) report["freed"] = freed;
      if (!s.problem.empty()) report["problem"] = s.problem;
      std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    } else if (s.directory.empty()) {
      std::printf("no cache: %s\n", s.problem.c_str());
    } else {
      if (o->clear) std::printf("freed %s\n", show_bytes(freed).c_str());
      std::printf("%s\n%lld entries, %s of %s\n", s.directory.c_str(), static_cast<long long>(s.entries),
                  show_bytes(s.bytes).c_str(), show_bytes(s.limit).c_str());
    }
    *status = exit_good;
  });
}

}  // namespace metac

#include "compiler/api/schedule_file.h"

#include <nlohmann/json.hpp>
#include <set>

#include "compiler/support/diagnostic.h"

namespace metac {

using Json = nlohmann::ordered_json;

constexpr int64_t newest_schedule_format = 1;

std::string schedules_text(const Model& model, const CompiledModel& compiled, const CompileOptions& options,
                           const Choices& choices) {
  Json rows = Json::array();
  std::set<std::string> written;
  for (const KernelSource& kernel : compiled.run.kernels)
    if (!kernel.decisions.empty() && written.insert(kernel.subject).second)
      rows.push_back({{"subject", kernel.subject}, {"schedule", to_string(kernel.decisions)}});
  for (const Choices::Offer& offer : choices.offers())
    if (offer.subject == batch_subject) {
      auto taken = choices.taken().find(offer.subject);
      const Schedule made = taken != choices.taken().end() ? taken->second : Schedule{offer.candidates[0]};
      rows.push_back({{"subject", offer.subject}, {"schedule", to_string(made)}});
    }
  const Json text = {{"metac", METAC_VERSION},
                     {"format", newest_schedule_format},
                     {"cpu", options.cpu.name},
                     {"model_sha256", model.sha256},
                     {"choices", rows}};
  return text.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Choices read_schedules(const std::string& text, std::string* cpu) {
  Choices choices;
  try {
    const Json file = Json::parse(text);
    if (const int64_t format = file.value("format", int64_t{1}); format > newest_schedule_format)
      fail("schedules of the format ", format, ", of a later metac; this one reads up to ", newest_schedule_format);
    *cpu = file.at("cpu").get<std::string>();
    for (const Json& row : file.at("choices"))
      for (const Transform& t : read_schedule(row.at("schedule").get<std::string>()))
        choices.take(row.at("subject").get<std::string>(), t);
  } catch (const Json::exception& error) {
    fail("these are no schedules of `--emit schedules` or `--tune`: ", error.what());
  }
  return choices;
}

}  // namespace metac

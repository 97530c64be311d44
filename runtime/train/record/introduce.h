// Before several processes train together: they are found to be of one kind, and have the states of the first.
#pragma once
#include "../../process/usable_cpus.h"
#include "../data/batch_loader.h"
#include "../processes/processes.h"
#include "checkpoint.h"

namespace metac::train {

// The threads of a process that is given no number: its share of the machine and of what control groups grant, or what the
// launcher bound it to.
inline int threads_of(const Launch& launch) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int all = static_cast<int>(std::max(1u, static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN))));
  const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : all;
  const int together = std::max(1, launch.on_this_host), granted = static_cast<int>(METAC_RUNTIME_NAMESPACE::granted_cpus());
  const int own = std::max(1, usable < all ? usable : all / together);
  return granted > 0 ? std::min(own, std::max(1, granted / together)) : own;
}

using Facts = std::vector<std::pair<std::string, std::string>>;

// All must have the facts of process 0; the first difference is told, and all end.
inline void expect_same_facts(Processes& processes, const std::string& program, const Facts& facts) {
  std::string own;
  for (const auto& [name, value] : facts) own += name + "\n" + value + "\n";
  const std::vector<std::string> all = processes.gather(own);
  for (int p = 1; p < processes.size(); ++p) {
    std::istringstream theirs(all[static_cast<size_t>(p)]), first(all[0]);
    std::string name, value, first_value;
    while (std::getline(first, name) && std::getline(first, first_value)) {
      std::getline(theirs, name), std::getline(theirs, value);
      if (value != first_value)
        processes.fail_together(text_of(program, ": ", processes.name_of(p), " has another ", name, " than ",
                                        processes.name_of(0), ": ", value, ", not ", first_value,
                                        ".\nAll processes must be the same program, with the same options and data."));
    }
  }
}

// Who is who, and whether all are the same program with the same options.
inline void introduce(Processes& processes, const std::string& program, const Facts& facts) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  processes.set_names(processes.gather(text_of(host, ", pid ", ::getpid())));
  expect_same_facts(processes, program, facts);
}

// The states and the place in the run that process 0 has.
inline void share_states(Processes& processes, const TrainTables& tables, StateSet* states, Position* position) {
  std::vector<int64_t> bits;
  const auto integer = [&](const std::string&, int64_t& v) { bits.push_back(v); };
  const auto real = [&](const std::string&, double& v) { bits.emplace_back(), std::memcpy(&bits.back(), &v, 8); };
  visit(*position, static_cast<size_t>(tables.metric_count), integer, real);
  processes.broadcast(bits.data(), static_cast<int64_t>(bits.size() * sizeof(int64_t)));
  size_t at = 0;
  visit(
      *position, static_cast<size_t>(tables.metric_count), [&](const std::string&, int64_t& v) { v = bits[at++]; },
      [&](const std::string&, double& v) { std::memcpy(&v, &bits[at++], 8); });
  for (int32_t s = 0; s < states->count(); ++s) processes.broadcast(states->value(s), byte_count(states->about(s)));
}

// As many samples in all processes, and the same first and last ones.
inline void expect_same_data(Processes& processes, const TrainTables& tables, const OpenedData& data) {
  uint32_t crc = 0;
  SampleReader reader;
  for (const DataOf* part : {&data.train, &data.validation}) {
    if (part->samples.empty()) continue;
    for (const int64_t sample : {part->samples.front(), part->samples.back()})
      for (int32_t f = 0; f < tables.field_count; ++f) {
        std::vector<char> bytes(static_cast<size_t>(byte_count(tables.fields[f])) + 1);
        reader.read(part->data->columns[static_cast<size_t>(f)], tables.data.fields[f], tables.fields[f], sample,
                    {false, 0, 0, 0}, bytes.data());
        crc = crc32(bytes.data(), bytes.size(), crc);
      }
  }
  expect_same_facts(processes, std::string(tables.name) + "_train",
                    {{"number of training samples", std::to_string(data.train.samples.size())},
                     {"number of validation samples", std::to_string(data.validation.samples.size())},
                     {"first or last sample (checksum)", std::to_string(crc)}});
}

}  // namespace metac::train

#include "compiler/train/sample_tables.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {

SampleTables::SampleTables(DataRecipe recipe, const std::vector<TrainingField>& fields)
    : recipe_(std::move(recipe)), sources_(field_sources(recipe_, fields)) {
  for (const TrainingField& field : fields) {
    if (field.shape.size() > static_cast<size_t>(train::most_dims))
      fail("the field ", quoted(field.name), " has rank ", field.shape.size(), "; at most ", train::most_dims, " is taken");
    names_.push_back(std::make_unique<std::string>(field.name));
    train::Field own{};
    own.name = names_.back()->c_str();
    own.dtype = static_cast<train::ScalarType>(field.dtype);
    own.rank = static_cast<int32_t>(field.shape.size());
    std::copy(field.shape.begin(), field.shape.end(), own.dims);
    fields_.push_back(own);
  }
  for (const FieldRecipe& from : sources_)
    field_sources_.push_back({from.from.c_str(), from.scale, from.mean.data(), from.deviation.data(),
                              static_cast<int32_t>(from.mean.size()), from.channels_last, from.flip,
                              static_cast<int32_t>(from.crop_padding)});
  tables.name = "data", tables.version = "", tables.program = "";
  tables.fields = fields_.data(), tables.field_count = static_cast<int32_t>(fields_.size());
  tables.settings.batch = 1;
  tables.data = {
      recipe_.format,           recipe_.train.c_str(), recipe_.validation.empty() ? nullptr : recipe_.validation.c_str(),
      recipe_.validation_split, recipe_.shuffle,       recipe_.drop_last,
      field_sources_.data()};
}

}  // namespace metac

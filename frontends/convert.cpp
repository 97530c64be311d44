#include "frontends/convert.h"

#include "frontends/json/json.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"

namespace metac {

void convert_model(const std::string& from, const std::string& to, const std::function<void(Model&)>& change) {
  ModelFormat format = format_of_path(to);
  Model model = read_model(from);
  if (change) change(model);
  format == ModelFormat::json ? write_json_model(model, to) : write_onnx(model, to);
}

}  // namespace metac

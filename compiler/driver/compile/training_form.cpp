#include "compiler/driver/compile/training_form.h"

#include <cstdio>
#include <string>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "compiler/train/forms/inference_form.h"

namespace metac {

void warn_of_training_form(const Model& model) {
  const InferenceForm form = inference_form(model);
  auto listed = [](const std::vector<std::string>& nodes) {
    std::string text;
    for (size_t k = 0; k < nodes.size() && k < 3; ++k) text += (k ? ", " : "") + nodes[k];
    return nodes.size() > 3 ? concat(text, " and ", nodes.size() - 3, " more") : text;
  };
  std::string what;
  if (!form.normalised.empty())
    what = concat(form.normalised.size(), " BatchNormalization nodes normalise by the batch that they are given (",
                  listed(form.normalised), ")");
  if (!form.dropped.empty())
    what +=
        concat(what.empty() ? "" : ", ", form.dropped.size(), " Dropout nodes drop at random (", listed(form.dropped), ")");
  if (!what.empty())
    std::fprintf(
        stderr,
        "metac: warning: %s was exported for training, and so is the library: %s. For inference export it after "
        "model.eval(), or compile it with --train, whose library is for inference (docs/exporting_from_pytorch.md)\n",
        model.path.c_str(), what.c_str());
}

}  // namespace metac

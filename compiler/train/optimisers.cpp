#include "compiler/train/optimisers.h"

#include "compiler/support/diagnostic.h"

namespace metac {

std::vector<std::string> slots_of(const OptimiserRecipe& o) {
  std::vector<std::string> slots;
  if (o.kind == "sgd" && o["momentum"] != 0) slots = {"momentum"};
  if (o.kind == "adam" || o.kind == "adamw") {
    slots = {"mean", "square"};
    if (o.is("amsgrad")) slots.push_back("greatest_square");
  }
  if (o.kind == "adagrad") slots = {"squares"};
  if (o.kind == "rmsprop") {
    slots = {"square"};
    if (o.is("centered")) slots.push_back("mean");
    if (o["momentum"] != 0) slots.push_back("momentum");
  }
  if (o.kind == "lion") slots = {"mean"};
  return slots;
}

double initial_slot(const OptimiserRecipe& o) { return o.kind == "adagrad" ? o["initial_accumulator"] : 0; }

std::string write_accumulated(NodeWriter& write, const Recipe& recipe, const std::string& sum, const std::string& gradient,
                              const std::string& hint) {
  const std::string share = literal(1.0 / static_cast<double>(recipe.accumulate));
  return write.elementwise({sum, gradient}, "@0 + " + share + "*@1", hint);
}

void write_clip(NodeWriter& write, const Recipe& recipe, const std::vector<DType>& dtypes,
                std::vector<std::string>& gradients) {
  if (recipe.clip_value > 0)
    for (std::string& g : gradients)
      g = write.elementwise({g}, "min(max(@0, " + literal(-recipe.clip_value) + "), " + literal(recipe.clip_value) + ")",
                            g + "/clipped");
  if (recipe.clip_norm <= 0) return;
  std::string squares;
  for (size_t k = 0; k < gradients.size(); ++k) {
    std::string own =
        write.reduce("sum", write.elementwise({gradients[k]}, "@0*@0", "train/square"), {}, false, "train/squared_norm");
    if (dtypes[k] != DType::f64) own = write.cast(own, DType::f64, "train/squared_norm");
    squares = squares.empty() ? own : write.elementwise({squares, own}, "@0 + @1", "train/squared_norm");
  }
  std::string scale =
      write.elementwise({squares}, "min(" + literal(recipe.clip_norm) + "/(sqrt(@0) + 1e-6), 1)", "train/clip");
  std::map<DType, std::string> scales = {{DType::f64, scale}};
  for (size_t k = 0; k < gradients.size(); ++k) {
    if (!scales.count(dtypes[k])) scales[dtypes[k]] = write.cast(scale, dtypes[k], "train/clip");
    gradients[k] = write.elementwise({gradients[k], scales[dtypes[k]]}, "@0*@1", gradients[k] + "/clipped");
  }
}

std::string write_finite(NodeWriter& write, const std::vector<std::string>& gradients) {
  std::string wrong;
  for (const std::string& gradient : gradients) {
    const std::string own = write.reduce("any", write.elementwise({gradient}, "is_nan(@0) || is_inf(@0)", "train/overflow"),
                                         {}, false, "train/overflow");
    wrong = wrong.empty() ? own : write.elementwise({wrong, own}, "@0 || @1", "train/overflow");
  }
  return write.elementwise({wrong}, "!@0", "train/finite");
}

std::string write_applied(NodeWriter& write, const std::string& when, const std::string& old, const std::string& next) {
  return when.empty() ? next : write.elementwise({when, next, old}, "@0 ? @1 : @2", old + "/applied");
}

std::string OptimiserWriter::average(const Recipe& recipe, const std::string& average, const std::string& next,
                                     DType dtype) {
  if (!recipe.average_from)
    return write_.elementwise({average, next},
                              literal(recipe.average_decay) + "*@0 + " + literal(1 - recipe.average_decay) + "*@1",
                              average + "/next");
  // Behind n updates since `from` the newest counts 1/n; before, all.
  const std::string share =
      scalar("1/max(1.0, float64(@1) + 1 - " + literal(static_cast<double>(*recipe.average_from)) + ")", dtype);
  return write_.elementwise({average, next, share}, "(1 - @2)*@0 + @2*@1", average + "/next");
}

std::string OptimiserWriter::scalar(const std::string& body, DType dtype) {
  auto [entry, fresh] = scalars_.try_emplace({body, dtype});
  if (fresh) {
    std::string wide = write_.elementwise({rate_, step_}, body, "train/rate", "float64");
    entry->second = dtype == DType::f64 ? wide : write_.cast(wide, dtype, "train/rate");
  }
  return entry->second;
}

std::string OptimiserWriter::next(const ParameterUpdate& p, const std::vector<std::string>& operands,
                                  const std::string& body, const char* what) {
  return write_.elementwise(operands, body, p.parameter + "/" + what + "/next");
}

NextValues OptimiserWriter::update(const ParameterUpdate& p) {
  // Weight decay is part of the gradient, but for AdamW and Lion.
  std::string g = p.gradient;
  if (p.weight_decay != 0 && o_.kind != "adamw" && o_.kind != "lion")
    g = write_.elementwise({p.gradient, p.parameter}, "@0 + " + literal(p.weight_decay) + "*@1",
                           p.parameter + "/decayed_gradient");
  if (o_.kind == "sgd") return sgd(p, g);
  if (o_.kind == "adam" || o_.kind == "adamw") return adam(p, g);
  if (o_.kind == "adagrad") return adagrad(p, g);
  if (o_.kind == "rmsprop") return rmsprop(p, g);
  METAC_ASSERT(o_.kind == "lion", "an optimiser of kind ", o_.kind);
  return lion(p);
}

// In scalar bodies @0 is the rate and `t` the number of the update.
static const std::string t = "(float64(@1) + 1)";
static std::string rate(const ParameterUpdate& p) { return p.rate_scale == 1 ? "@0" : "@0*" + literal(p.rate_scale); }

NextValues OptimiserWriter::sgd(const ParameterUpdate& p, const std::string& g) {
  std::string lr = scalar(rate(p), p.dtype);
  if (p.slots.empty()) return {next(p, {p.parameter, g, lr}, "@0 - @2*@1", "parameter"), {}};
  // The first gradient is taken whole.
  std::string momentum = literal(o_["momentum"]);
  std::string m =
      o_["dampening"] == 0
          ? next(p, {p.slots[0], g}, momentum + "*@0 + @1", "momentum")
          : next(p, {p.slots[0], g, scalar("float64(@1) > 0 ? " + literal(1 - o_["dampening"]) + " : 1.0", p.dtype)},
                 momentum + "*@0 + @2*@1", "momentum");
  if (o_.is("nesterov")) return {next(p, {p.parameter, m, lr, g}, "@0 - @2*(@3 + " + momentum + "*@1)", "parameter"), {m}};
  return {next(p, {p.parameter, m, lr}, "@0 - @2*@1", "parameter"), {m}};
}

NextValues OptimiserWriter::adam(const ParameterUpdate& p, const std::string& g) {
  const double beta1 = o_["beta1"], beta2 = o_["beta2"];
  std::string size = scalar(rate(p) + "/(1 - pow(float64(" + literal(beta1) + "), " + t + "))", p.dtype);
  std::string correction = scalar("sqrt(1 - pow(float64(" + literal(beta2) + "), " + t + "))", p.dtype);
  std::string m = next(p, {p.slots[0], g}, "@0 + " + literal(1 - beta1) + "*(@1 - @0)", "mean");
  std::string v = next(p, {p.slots[1], g}, literal(beta2) + "*@0 + " + literal(1 - beta2) + "*@1*@1", "square");
  NextValues out{"", {m, v}};
  if (o_.is("amsgrad")) out.slots.push_back(next(p, {p.slots[2], v}, "max(@0, @1)", "greatest_square"));
  std::vector<std::string> operands = {p.parameter, m, out.slots.back(), size, correction};
  std::string value = "@0";
  if (o_.kind == "adamw" && p.weight_decay != 0) {
    operands.push_back(scalar("1 - " + rate(p) + "*" + literal(p.weight_decay), p.dtype));
    value = "@0*@5";
  }
  out.parameter = next(p, operands, value + " - @3*(@1/(sqrt(@2)/@4 + " + literal(o_["epsilon"]) + "))", "parameter");
  return out;
}

NextValues OptimiserWriter::adagrad(const ParameterUpdate& p, const std::string& g) {
  std::string lr = scalar(rate(p) + "/(1 + (" + t + " - 1)*" + literal(o_["rate_decay"]) + ")", p.dtype);
  std::string sum = next(p, {p.slots[0], g}, "@0 + @1*@1", "squares");
  return {next(p, {p.parameter, g, sum, lr}, "@0 - @3*(@1/(sqrt(@2) + " + literal(o_["epsilon"]) + "))", "parameter"),
          {sum}};
}

NextValues OptimiserWriter::rmsprop(const ParameterUpdate& p, const std::string& g) {
  const std::string alpha = literal(o_["alpha"]), rest = literal(1 - o_["alpha"]), epsilon = literal(o_["epsilon"]);
  std::string lr = scalar(rate(p), p.dtype);
  NextValues out;
  std::string v = next(p, {p.slots[0], g}, alpha + "*@0 + " + rest + "*@1*@1", "square");
  out.slots.push_back(v);
  std::string scaled;
  if (o_.is("centered")) {
    std::string mean = next(p, {p.slots[1], g}, "@0 + " + rest + "*(@1 - @0)", "mean");
    out.slots.push_back(mean);
    scaled = next(p, {g, v, mean}, "@0/(sqrt(@1 - @2*@2) + " + epsilon + ")", "scaled_gradient");
  } else {
    scaled = next(p, {g, v}, "@0/(sqrt(@1) + " + epsilon + ")", "scaled_gradient");
  }
  if (o_["momentum"] != 0) {
    scaled = next(p, {p.slots.back(), scaled}, literal(o_["momentum"]) + "*@0 + @1", "momentum");
    out.slots.push_back(scaled);
  }
  out.parameter = next(p, {p.parameter, scaled, lr}, "@0 - @2*@1", "parameter");
  return out;
}

NextValues OptimiserWriter::lion(const ParameterUpdate& p) {
  const double beta1 = o_["beta1"], beta2 = o_["beta2"];
  std::vector<std::string> operands = {p.parameter, p.slots[0], p.gradient, scalar(rate(p), p.dtype)};
  std::string value = "@0";
  if (p.weight_decay != 0) {
    operands.push_back(scalar("1 - " + rate(p) + "*" + literal(p.weight_decay), p.dtype));
    value = "@0*@4";
  }
  NextValues out;
  out.parameter =
      next(p, operands, value + " - @3*sign(" + literal(beta1) + "*@1 + " + literal(1 - beta1) + "*@2)", "parameter");
  out.slots = {next(p, {p.slots[0], p.gradient}, literal(beta2) + "*@0 + " + literal(1 - beta2) + "*@1", "mean")};
  return out;
}

}  // namespace metac

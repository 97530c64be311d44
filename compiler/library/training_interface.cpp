// The functions of metac/var.h for training loops: losses and optimisers of recipes, called with Vars.
#include <map>
#include <memory>

#include "compiler/library/optimiser.h"
#include "compiler/library/train_processes.h"

using namespace metac;
using namespace metac::library;

namespace {

TypedShape typed(const lazy::Value* value) { return {value->type->dtype, value->type->shape}; }

template <class T>
lazy::Value* scalar(DType dtype, T number) {
  const Tensor tensor = make_tensor(dtype, {}, std::vector<T>{number});
  return lazy::LazyGraph::of_process().data(lazy::tensor_type(dtype, {}), tensor.bytes);
}

// One for each loss and types of what it compares.
const lazy::CalledModel& called_loss(const std::string& text, const lazy::Value* output, const lazy::Value* target,
                                     bool each) {
  using Key = std::tuple<std::string, const lazy::TensorType*, const lazy::TensorType*, bool>;
  static auto& losses = *new std::map<Key, std::unique_ptr<lazy::CalledModel>>();
  std::unique_ptr<lazy::CalledModel>& own = losses[{text, output->type, target->type, each}];
  if (!own) own = std::make_unique<lazy::CalledModel>(loss_function(text, typed(output), typed(target), each));
  return *own;
}

metac_status append_loss(const char* loss, metac_var* output, metac_var* target, metac_var** result, const metac_site* site,
                         bool each) {
  return answered([&] {
    need(loss, "loss"), need(output, "output"), need(target, "target"), need(result, "result");
    const InGraph in_graph;
    lazy::LazyGraph& graph = lazy::LazyGraph::of_process();
    const lazy::CalledModel& called = called_loss(loss, output->value, target->value, each);
    *result = new metac_var{called.call(graph, {output->value, target->value}, site_of(site), no_gradients())[0]};
  });
}

void free_optimiser(metac_optimiser* optimiser) {
  for (metac_var* parameter : optimiser->parameters) release_var(parameter);
  for (metac_var* slot : optimiser->slots) release_var(slot);
  optimiser->update.reset();
  delete optimiser;
}

}  // namespace

metac_status metac_var_loss(const char* loss, metac_var* output, metac_var* target, metac_var** result,
                            const metac_site* site) {
  return append_loss(loss, output, target, result, site, false);
}

metac_status metac_var_losses(const char* loss, metac_var* output, metac_var* target, metac_var** result,
                              const metac_site* site) {
  return append_loss(loss, output, target, result, site, true);
}

metac_status metac_optimiser_make(const char* text, metac_var* const* parameters, int32_t count, metac_optimiser** made) {
  return answered([&] {
    need(text, "optimiser"), need(made, "made");
    if (count < 1 || count > 1 << 20) refuse("count is ", count);
    need(parameters, "parameters");
    const InGraph graph;
    std::vector<TypedShape> types;
    for (int32_t k = 0; k < count; ++k) {
      need(parameters[k], "a parameter");
      types.push_back(typed(parameters[k]->value));
      if (!is_float(types.back().dtype)) refuse("parameters[", k, "] is ", lazy::text_of(*parameters[k]->value->type));
    }
    const UpdateFunction update = update_function(text, types);
    auto optimiser = std::unique_ptr<metac_optimiser, void (*)(metac_optimiser*)>(new metac_optimiser, free_optimiser);
    optimiser->about_slots = update.slots;
    optimiser->rate = update.rate;
    optimiser->accumulate = update.accumulate;
    optimiser->update = std::make_unique<lazy::CalledModel>(update.model);
    for (int32_t k = 0; k < count; ++k) {
      optimiser->parameters.push_back(parameters[k]);
      ++parameters[k]->holders;
      const TypedShape& type = types[static_cast<size_t>(k)];
      for (const SlotOfUpdate& slot : update.slots) {
        lazy::LazyGraph& graph = lazy::LazyGraph::of_process();
        const auto* own = parameters[k]->value->type;
        optimiser->slots.push_back(
            new metac_var{graph.data(own, filled_tensor(type.dtype, type.shape, slot.initial).bytes)});
        if (slot.from_parameter) assign_value(optimiser->slots.back(), parameters[k]->value, {});
      }
    }
    *made = optimiser.release();
  });
}

void metac_optimiser_free(metac_optimiser* optimiser) {
  if (!optimiser) return;
  answered([&] {
    const InGraph graph;
    free_optimiser(optimiser);
  });
}

metac_status metac_optimiser_step(metac_optimiser* optimiser, metac_var* const* gradients, int32_t count, double rate,
                                  const metac_site* site) {
  return answered([&] {
    need(optimiser, "optimiser"), need(gradients, "gradients");
    const size_t parameters = optimiser->parameters.size(), slots = optimiser->about_slots.size();
    if (static_cast<size_t>(count) != parameters) refuse(count, " gradients for ", parameters, " parameters");
    const InGraph in_graph;
    lazy::LazyGraph& graph = *in_graph;
    for (int32_t k = 0; k < count; ++k) {
      need(gradients[k], "a gradient");
      const metac_var* parameter = optimiser->parameters[static_cast<size_t>(k)];
      if (gradients[k]->value->type != parameter->value->type)
        refuse("gradients[", k, "] is ", lazy::text_of(*gradients[k]->value->type), ", the parameter is ",
               lazy::text_of(*parameter->value->type));
    }
    std::vector<lazy::Value*> slopes, means;
    for (int32_t k = 0; k < count; ++k) slopes.push_back(gradients[k]->value);
    if (optimiser->processes) slopes = means = averaged(*optimiser->processes, slopes, site_of(site));
    std::vector<lazy::Value*> operands = {scalar(DType::f64, rate < 0 ? optimiser->rate : rate),
                                          scalar(DType::i64, optimiser->steps / optimiser->accumulate)};
    if (optimiser->accumulate > 1)
      operands.push_back(scalar<uint8_t>(DType::boolean, (optimiser->steps + 1) % optimiser->accumulate == 0));
    const size_t made = operands.size();
    for (size_t k = 0; k < parameters; ++k) {
      operands.push_back(optimiser->parameters[k]->value);
      operands.push_back(slopes[k]);
      for (size_t slot = 0; slot < slots; ++slot) operands.push_back(optimiser->slots[k * slots + slot]->value);
    }
    const auto give_back = [&](const std::vector<lazy::Value*>& values, size_t until) {
      for (size_t k = 0; k < until; ++k) graph.release(values[k]);
    };
    std::vector<lazy::Value*> next;
    try {
      next = optimiser->update->call(graph, operands, site_of(site), true);
      for (size_t k = 0, at = 0; k < parameters; ++k) {
        assign_value(optimiser->parameters[k], next[at++], site_of(site));
        for (size_t slot = 0; slot < slots; ++slot)
          assign_value(optimiser->slots[k * slots + slot], next[at++], site_of(site));
      }
    } catch (...) {
      give_back(operands, made), give_back(means, means.size()), give_back(next, next.size());
      throw;
    }
    give_back(operands, made), give_back(means, means.size()), give_back(next, next.size());
    ++optimiser->steps;
  });
}

metac_status metac_optimiser_slot(metac_optimiser* optimiser, int32_t parameter, int32_t slot, metac_var** var,
                                  const char** name) {
  return answered([&] {
    need(optimiser, "optimiser"), need(var, "var"), need(name, "name");
    const size_t slots = optimiser->about_slots.size();
    if (parameter < 0 || static_cast<size_t>(parameter) >= optimiser->parameters.size() || slot < 0 ||
        static_cast<size_t>(slot) >= slots)
      refuse("there is no slot ", slot, " of parameter ", parameter);
    const InGraph graph;
    *var = optimiser->slots[static_cast<size_t>(parameter) * slots + static_cast<size_t>(slot)];
    ++(*var)->holders;
    *name = optimiser->about_slots[static_cast<size_t>(slot)].name.c_str();
  });
}

metac_status metac_optimiser_steps(metac_optimiser* optimiser, int64_t* steps, int32_t set) {
  return answered([&] {
    need(optimiser, "optimiser"), need(steps, "steps");
    if (set)
      optimiser->steps = *steps;
    else
      *steps = optimiser->steps;
  });
}

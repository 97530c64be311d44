// The functions of metac/var.h for training loops: losses and optimisers of recipes, called with Vars.
#include <map>
#include <memory>

#include "compiler/lazy/called_model.h"
#include "compiler/library/status.h"
#include "compiler/library/vars.h"
#include "compiler/train/lone_functions.h"

using namespace metac;
using namespace metac::library;

struct metac_optimiser {
  std::vector<metac_var*> parameters;
  std::vector<std::string> slot_names;
  std::vector<metac_var*> slots;  // of the first parameter, of the second one, ...
  std::unique_ptr<lazy::CalledModel> update;
  double rate = 0;
  int64_t steps = 0;
};

namespace {

TypedShape typed(const lazy::Value* value) { return {value->type->dtype, value->type->shape}; }

template <class T>
lazy::Value* scalar(DType dtype, T number) {
  const Tensor tensor = make_tensor(dtype, {}, std::vector<T>{number});
  return lazy::LazyGraph::of_process().data(lazy::tensor_type(dtype, {}), tensor.bytes);
}

// One for each loss and types of what it compares.
const lazy::CalledModel& called_loss(const std::string& text, const lazy::Value* output, const lazy::Value* target) {
  using Key = std::tuple<std::string, const lazy::TensorType*, const lazy::TensorType*>;
  static auto& losses = *new std::map<Key, std::unique_ptr<lazy::CalledModel>>();
  std::unique_ptr<lazy::CalledModel>& own = losses[{text, output->type, target->type}];
  if (!own) own = std::make_unique<lazy::CalledModel>(loss_function(text, typed(output), typed(target)));
  return *own;
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
  return answered([&] {
    need(loss, "loss"), need(output, "output"), need(target, "target"), need(result, "result");
    const InGraph in_graph;
    lazy::LazyGraph& graph = *in_graph;
    const lazy::CalledModel& called = called_loss(loss, output->value, target->value);
    *result = new metac_var{called.call(graph, {output->value, target->value}, site_of(site), no_gradients())[0]};
  });
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
    optimiser->slot_names = update.slots;
    optimiser->rate = update.rate;
    optimiser->update = std::make_unique<lazy::CalledModel>(update.model);
    for (int32_t k = 0; k < count; ++k) {
      optimiser->parameters.push_back(parameters[k]);
      ++parameters[k]->holders;
      for (size_t slot = 0; slot < update.slots.size(); ++slot) {
        const Tensor initial =
            filled_tensor(types[static_cast<size_t>(k)].dtype, types[static_cast<size_t>(k)].shape, update.initial);
        lazy::Value* value = lazy::LazyGraph::of_process().data(parameters[k]->value->type, initial.bytes);
        optimiser->slots.push_back(new metac_var{value});
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
    const size_t parameters = optimiser->parameters.size(), slots = optimiser->slot_names.size();
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
    std::vector<lazy::Value*> operands = {scalar(DType::f64, rate < 0 ? optimiser->rate : rate),
                                          scalar(DType::i64, optimiser->steps)};
    for (size_t k = 0; k < parameters; ++k) {
      operands.push_back(optimiser->parameters[k]->value);
      operands.push_back(gradients[k]->value);
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
      give_back(operands, 2), give_back(next, next.size());
      throw;
    }
    give_back(operands, 2), give_back(next, next.size());
    ++optimiser->steps;
  });
}

metac_status metac_optimiser_slot(metac_optimiser* optimiser, int32_t parameter, int32_t slot, metac_var** var,
                                  const char** name) {
  return answered([&] {
    need(optimiser, "optimiser"), need(var, "var"), need(name, "name");
    const size_t slots = optimiser->slot_names.size();
    if (parameter < 0 || static_cast<size_t>(parameter) >= optimiser->parameters.size() || slot < 0 ||
        static_cast<size_t>(slot) >= slots)
      refuse("there is no slot ", slot, " of parameter ", parameter);
    const InGraph graph;
    *var = optimiser->slots[static_cast<size_t>(parameter) * slots + static_cast<size_t>(slot)];
    ++(*var)->holders;
    *name = optimiser->slot_names[static_cast<size_t>(slot)].c_str();
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

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
  for (const metac_optimiser::Updated& parameter : optimiser->parameters) {
    release_var(parameter.var);
    for (metac_var* slot : parameter.slots) release_var(slot);
  }
  if (optimiser->taken) release_var(optimiser->taken);
  optimiser->update.reset();
  delete optimiser;
}

}  // namespace

int64_t metac::library::steps_taken(const metac_optimiser& optimiser) {
  if (!optimiser.taken) return optimiser.steps;
  lazy::LazyGraph::of_process().evaluate(&optimiser.taken->value, 1, {});
  return integer_at(lazy::tensor_of(*optimiser.taken->value), 0);
}

metac_status metac_var_loss(const char* loss, metac_var* output, metac_var* target, metac_var** result,
                            const metac_site* site) {
  return append_loss(loss, output, target, result, site, false);
}

metac_status metac_var_losses(const char* loss, metac_var* output, metac_var* target, metac_var** result,
                              const metac_site* site) {
  return append_loss(loss, output, target, result, site, true);
}

metac_status metac_optimiser_make(const char* text, metac_var* const* parameters, int32_t count, metac_optimiser** made) {
  return metac_optimiser_make_named(text, parameters, nullptr, count, made);
}

metac_status metac_optimiser_make_named(const char* text, metac_var* const* parameters, const char* const* names,
                                        int32_t count, metac_optimiser** made) {
  return answered([&] {
    need(text, "optimiser"), need(made, "made");
    if (count < 1 || count > 1 << 20) refuse("count is ", count);
    need(parameters, "parameters");
    const InGraph graph;
    std::vector<NamedType> types;
    for (int32_t k = 0; k < count; ++k) {
      need(parameters[k], "a parameter");
      if (names) need(names[k], "a name");
      types.push_back({names ? names[k] : std::to_string(k), typed(parameters[k]->value)});
      if (!is_float(types.back().type.dtype)) refuse("parameters[", k, "] is ", lazy::text_of(*parameters[k]->value->type));
    }
    const UpdateFunction update = update_function(text, types);
    auto optimiser = std::unique_ptr<metac_optimiser, void (*)(metac_optimiser*)>(new metac_optimiser, free_optimiser);
    optimiser->about_slots = update.slots;
    optimiser->rate = update.rate;
    optimiser->accumulate = update.accumulate;
    optimiser->update = std::make_unique<lazy::CalledModel>(update.model);
    if (update.skips_non_finite) optimiser->taken = new metac_var{scalar<int64_t>(DType::i64, 0)};
    for (size_t k = 0; k < types.size(); ++k) {
      metac_var* const parameter = parameters[k];
      optimiser->parameters.push_back({parameter, update.trains[k], {}});
      ++parameter->holders;
      if (!update.trains[k]) continue;
      std::vector<metac_var*>& slots = optimiser->parameters.back().slots;
      for (const SlotOfUpdate& slot : update.slots) {
        const TypedShape& type = types[k].type;
        slots.push_back(
            new metac_var{(*graph).data(parameter->value->type, filled_tensor(type.dtype, type.shape, slot.initial).bytes)});
        if (slot.from_parameter) assign_value(slots.back(), parameter->value, {});
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

metac_status metac_optimiser_trains(metac_optimiser* optimiser, int32_t parameter, int32_t* trains) {
  return answered([&] {
    need(optimiser, "optimiser"), need(trains, "trains");
    if (parameter < 0 || static_cast<size_t>(parameter) >= optimiser->parameters.size())
      refuse("there is no parameter ", parameter);
    *trains = optimiser->parameters[static_cast<size_t>(parameter)].trains;
  });
}

metac_status metac_optimiser_step(metac_optimiser* optimiser, metac_var* const* gradients, int32_t count, double rate,
                                  const metac_site* site) {
  return answered([&] {
    need(optimiser, "optimiser"), need(gradients, "gradients");
    std::vector<const metac_optimiser::Updated*> trained;
    for (const metac_optimiser::Updated& parameter : optimiser->parameters)
      if (parameter.trains) trained.push_back(&parameter);
    if (count < 0 || static_cast<size_t>(count) != trained.size())
      refuse(count, " gradients for ", trained.size(), " parameters",
             trained.size() < optimiser->parameters.size() ? " that train" : "");
    const InGraph in_graph;
    lazy::LazyGraph& graph = *in_graph;
    for (size_t k = 0; k < trained.size(); ++k) {
      need(gradients[k], "a gradient");
      const lazy::TensorType* const own = trained[k]->var->value->type;
      if (gradients[k]->value->type != own)
        refuse("gradients[", k, "] is ", lazy::text_of(*gradients[k]->value->type), ", the parameter is ",
               lazy::text_of(*own));
    }
    std::vector<lazy::Value*> slopes, means;
    for (size_t k = 0; k < trained.size(); ++k) slopes.push_back(gradients[k]->value);
    if (optimiser->processes) slopes = means = averaged(*optimiser->processes, slopes, site_of(site));
    std::vector<lazy::Value*> operands = {scalar(DType::f64, rate < 0 ? optimiser->rate : rate)};
    if (!optimiser->taken) {
      operands.push_back(scalar(DType::i64, optimiser->steps / optimiser->accumulate));
      if (optimiser->accumulate > 1)
        operands.push_back(scalar<uint8_t>(DType::boolean, (optimiser->steps + 1) % optimiser->accumulate == 0));
    }
    const size_t made = operands.size();
    if (optimiser->taken) operands.push_back(optimiser->taken->value);
    for (size_t k = 0; k < trained.size(); ++k) {
      operands.push_back(trained[k]->var->value);
      operands.push_back(slopes[k]);
      for (const metac_var* slot : trained[k]->slots) operands.push_back(slot->value);
    }
    const auto give_back = [&](const std::vector<lazy::Value*>& values, size_t until) {
      for (size_t k = 0; k < until; ++k) graph.release(values[k]);
    };
    std::vector<lazy::Value*> next;
    try {
      next = optimiser->update->call(graph, operands, site_of(site), true);
      size_t at = 0;
      if (optimiser->taken) assign_value(optimiser->taken, next[at++], site_of(site));
      for (const metac_optimiser::Updated* parameter : trained) {
        assign_value(parameter->var, next[at++], site_of(site));
        for (metac_var* slot : parameter->slots) assign_value(slot, next[at++], site_of(site));
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
    const auto& parameters = optimiser->parameters;
    if (parameter < 0 || static_cast<size_t>(parameter) >= parameters.size() || slot < 0 ||
        static_cast<size_t>(slot) >= parameters[static_cast<size_t>(parameter)].slots.size())
      refuse("there is no slot ", slot, " of parameter ", parameter);
    const InGraph graph;
    *var = parameters[static_cast<size_t>(parameter)].slots[static_cast<size_t>(slot)];
    ++(*var)->holders;
    *name = optimiser->about_slots[static_cast<size_t>(slot)].name.c_str();
  });
}

metac_status metac_optimiser_steps(metac_optimiser* optimiser, int64_t* steps, int32_t set) {
  return answered([&] {
    need(optimiser, "optimiser"), need(steps, "steps");
    const InGraph graph;
    if (!set) {
      *steps = steps_taken(*optimiser);
      return;
    }
    optimiser->steps = *steps;
    if (!optimiser->taken) return;
    lazy::Value* const value = scalar(DType::i64, *steps);
    assign_value(optimiser->taken, value, {});
    (*graph).release(value);
  });
}

// The functions of @name@.h as the table of metac_model.h. Fixed text.
#include "../include/@name@.h"

namespace {

// A function that takes a context, as the table has it: contexts of all models have one name there.
template <auto function>
struct Tabled;
template <class Result, class... Rest, Result (*function)(@name@_context*, Rest...)>
struct Tabled<function> {
  static Result call(metac_model_context* context, Rest... rest) { return function(reinterpret_cast<@name@_context*>(context), rest...); }
};
template <class Result, class... Rest, Result (*function)(const @name@_context*, Rest...)>
struct Tabled<function> {
  static Result call(const metac_model_context* context, Rest... rest) { return function(reinterpret_cast<const @name@_context*>(context), rest...); }
};

metac_model_status create(const metac_model_options* options, metac_model_context** context) {
  if (context == nullptr) return METAC_MODEL_INVALID_ARGUMENT;
  @name@_context* made = nullptr;
  const metac_model_status status = @name@_create(options, &made);
  *context = reinterpret_cast<metac_model_context*>(made);
  return status;
}

@derivative_rows@constexpr metac_model table_of_functions() {
  metac_model table{};
  table.size = sizeof table;
  table.interface = METAC_MODEL_INTERFACE;
  table.inputs = @NAME@_INPUTS;
  table.outputs = @NAME@_OUTPUTS;
  table.parameters = @NAME@_PARAMETERS;
  table.name = "@name@";
  table.version = @name@_version;
  table.model_hash = @name@_model_hash;
  table.cpu = @name@_cpu;
  table.cpu_of = Tabled<@name@_cpu_of>::call;
  table.input = @name@_input;
  table.output = @name@_output;
  table.parameter = @name@_parameter;
  table.create = create;
  table.destroy = Tabled<@name@_destroy>::call;
  table.last_error = Tabled<@name@_last_error>::call;
  table.run = Tabled<@name@_run>::call;
  table.output_shapes = Tabled<@name@_output_shapes>::call;
  table.find_non_finite = Tabled<@name@_find_non_finite>::call;
  table.set_weights = Tabled<@name@_set_weights>::call;
  table.write_weights = Tabled<@name@_write_weights>::call;
  table.static_arena_bytes = @name@_static_arena_bytes;
  table.arena_bytes = Tabled<@name@_arena_bytes>::call;
  table.held_bytes = Tabled<@name@_held_bytes>::call;
  table.profile = Tabled<@name@_profile>::call;
  table.profile_row = Tabled<@name@_profile_row>::call;
  table.cancel = Tabled<@name@_cancel>::call;
  table.profile_work = Tabled<@name@_profile_work>::call;
  table.arena_create = @name@_arena_create;
  table.arena_destroy = @name@_arena_destroy;
  table.queue_create = @name@_queue_create;
  table.queue_destroy = @name@_queue_destroy;
  table.queue_stop = @name@_queue_stop;
  table.queue_run = @name@_queue_run;
  table.queue_submit = @name@_queue_submit;
  table.queue_wait = @name@_queue_wait;
  table.queue_poll = @name@_queue_poll;
  table.queue_cancel = @name@_queue_cancel;
  table.queue_release = @name@_queue_release;
  table.queue_count = @name@_queue_count;
  table.queue_last_error = @name@_queue_last_error;
@derivative_members_of_table@@state_members_of_table@@jit_members_of_table@@device_members_of_table@  return table;
}
constexpr metac_model table = table_of_functions();

}  // namespace

extern "C" {

const metac_model* @name@_model(void) { return &table; }

// What metac_model_open() looks for. Weak: a program may have several of these libraries linked into it.
__attribute__((weak)) @NAME@_API const metac_model* metac_model_v1(void);
const metac_model* metac_model_v1(void) { return &table; }

}  // extern "C"

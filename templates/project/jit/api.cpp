@name@_status @name@_specialised(const @name@_context* context, @name@_specialisation* result, const char** problem) {
  if (context == nullptr || result == nullptr) return @NAME@_INVALID_ARGUMENT;
  Failure failure;
  if (!check_size("result", result->size, sizeof(@name@_specialisation), failure)) return answer(*context, failure);
  MetacReport report{};
  context->specialised.report(report);
  const @name@_specialisation told = {sizeof told, context->specialised.runs(), context->specialised.specialised_runs(), report.specialisations, report.waiting};
  give_struct(told, result);
  if (problem != nullptr) *problem = context->specialised.problem();
  return @NAME@_OK;
}


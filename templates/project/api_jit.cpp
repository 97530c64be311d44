@name@_status @name@_specialised(const @name@_context* context, @name@_specialisation* result, const char** problem) {
  if (context == nullptr || result == nullptr) return @NAME@_INVALID_ARGUMENT;
  MetacReport report{};
  context->specialised.report(report);
  *result = {context->specialised.runs(), context->specialised.specialised_runs(), report.specialisations, report.waiting};
  if (problem != nullptr) *problem = context->specialised.problem();
  return @NAME@_OK;
}


const metac_model_function functions[] = {
@derivatives@};
const metac_model_function* derivative(int32_t index) {
  return index >= 0 && index < static_cast<int32_t>(sizeof functions / sizeof *functions) ? &functions[index] : nullptr;
}


/* Runs any library that metac compiled, on zeros, with open dims of 1: run_any LIBRARY. Built without any model. */
#include <metac_model.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t element_bytes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1}; /* by metac_model_dtype */

static void print_tensor(const char* name, const metac_model_tensor* tensor) {
  printf("%s:", name);
  for (int32_t d = 0; d < tensor->rank; ++d) printf(" %lld", (long long)tensor->dims[d]);
  printf("\n");
}

int main(int count, char** values) {
  const char* why = "usage: run_any LIBRARY";
  const metac_model* model = count == 2 ? metac_model_open(values[1], &why) : NULL;
  if (model == NULL) return fprintf(stderr, "%s\n", why), 2;
  metac_model_context* context = NULL;
  metac_model_tensor* inputs = calloc((size_t)model->inputs + 1, sizeof *inputs);
  metac_model_tensor* outputs = calloc((size_t)model->outputs + 1, sizeof *outputs);
  metac_model_status status = model->create(NULL, &context);
  for (int32_t i = 0; status == METAC_MODEL_OK && i < model->inputs; ++i) {
    const metac_model_port* port = model->input(i);
    inputs[i].rank = port->rank;
    inputs[i].type = METAC_MODEL_TYPE(port->dtype);
    inputs[i].bytes = element_bytes[port->dtype];
    for (int32_t d = 0; d < port->rank; ++d) inputs[i].bytes *= inputs[i].dims[d] = port->dims[d] < 0 ? 1 : port->dims[d];
    inputs[i].data = calloc(1, (size_t)inputs[i].bytes + 1);
    print_tensor(port->name, &inputs[i]);
  }
  if (status == METAC_MODEL_OK) status = model->run(context, inputs, model->inputs, outputs, model->outputs);
  for (int32_t i = 0; status == METAC_MODEL_OK && i < model->outputs; ++i) print_tensor(model->output(i)->name, &outputs[i]);
  if (status != METAC_MODEL_OK) fprintf(stderr, "%s\n", model->last_error(context));
  model->destroy(context);
  for (int32_t i = 0; i < model->inputs; ++i) free(inputs[i].data);
  free(inputs);
  free(outputs);
  return status != METAC_MODEL_OK;
}

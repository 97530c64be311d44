/* Loads a library that metac compiled, whatever its model, and runs it on zeros but for the first input's first element.
 *
 *   any_model LIBRARY DIM...          the first input's dims
 *
 * Prints the library's name, its ports and the first output's first element. Knows metac_model.h alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metac_model.h"

static int fail(const char* why) { return fprintf(stderr, "%s\n", why), 1; }

int main(int count, char** values) {
  const char* why = "";
  const metac_model* model = count < 2 ? NULL : metac_model_open(values[1], &why);
  if (model == NULL) return fail(why);
  if (model->interface != METAC_MODEL_INTERFACE) return fail("another interface");
  printf("%s: %s, %d inputs, %d outputs, %d parameters\n", model->name, model->version(), model->inputs, model->outputs,
         model->parameters);
  printf("states %d, vjp %d, none of the next version's: %d\n", METAC_MODEL_HAS(model, state) ? model->states : 0,
         METAC_MODEL_HAS(model, derivative) ? model->derivative(0)->inputs : 0, model->input(model->inputs) == NULL);
  metac_model_options options = {0};
  metac_model_context* context = NULL;
  if (model->create(&options, &context) != METAC_MODEL_INVALID_ARGUMENT) return fail("options without a size are taken");
  printf("without a size: %s\n", model->last_error(context));
  model->destroy(context);
  options.size = sizeof options;
  options.threads = 1;
#ifdef SETS_NEXT
  options.next_member = 1;
#endif
  if (model->create(&options, &context) != METAC_MODEL_OK) return fail(model->last_error(context));
  metac_model_tensor input = {0}, output = {0};
  const metac_model_port* port = model->input(0);
  int64_t elements = 1;
  for (int k = 2; k < count; ++k) elements *= input.dims[input.rank++] = atoll(values[k]);
  input.data = calloc((size_t)elements, 8);
  ((float*)input.data)[0] = 3;
  input.type = METAC_MODEL_TYPE(port->dtype);
  if (model->run(context, &input, 1, &output, 1) != METAC_MODEL_OK) return fail(model->last_error(context));
  printf("%s -> %s: %g of %lld bytes, rank %d\n", port->name, model->output(0)->name, ((float*)output.data)[0],
         (long long)output.bytes, output.rank);
  model->destroy(context);
  free(input.data);
  return 0;
}

/* Reads a digit through the C interface of a compiled library. */
#include <digits.h>
#include <stdio.h>

#include "read_pgm.h"

int main(int argc, char** argv) {
  float image[64], probabilities[10];
  if (argc != 2 || read_pgm(argv[1], image, 64)) return 2;

  digits_options options = {0};
  options.size = sizeof options;
  options.weights = WEIGHTS;
  digits_context* context = NULL;
  if (digits_create(&options, &context) != DIGITS_OK) {
    fprintf(stderr, "%s\n", digits_last_error(context));
    digits_destroy(context);
    return 1;
  }
  digits_tensor input = {.data = image, .bytes = sizeof image, .rank = 4, .dims = {1, 1, 8, 8}};
  digits_tensor output = {.data = probabilities, .bytes = sizeof probabilities};
  digits_status status = digits_run(context, &input, 1, &output, 1);
  if (status != DIGITS_OK) fprintf(stderr, "%s\n", digits_last_error(context));
  digits_destroy(context);
  if (status != DIGITS_OK) return 1;

  int best = 0;
  for (int k = 1; k < 10; ++k)
    if (probabilities[k] > probabilities[best]) best = k;
  printf("%d\n", best);
  return 0;
}

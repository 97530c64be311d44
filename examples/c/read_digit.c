/* Reads a handwritten digit: read_digit FILE.npy. */
#include <digits.h>
#include <stdio.h>

/* The 64 floats at the end of a .npy file of an 8 x 8 image. */
static int read_image(const char* path, float* image) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return 0;
  const int good = fseek(file, -64 * (long)sizeof(float), SEEK_END) == 0 && fread(image, sizeof(float), 64, file) == 64;
  fclose(file);
  return good;
}

int main(int count, char** values) {
  float image[64], probabilities[10];
  if (count != 2 || !read_image(values[1], image)) return fprintf(stderr, "usage: read_digit FILE.npy\n"), 2;

  digits_options options = {0}; /* zero is every default */
  options.size = sizeof options;
  options.threads = 1; /* a network this small is done before a second thread has begun */
  digits_context* context = NULL;
  digits_status status = digits_create(&options, &context);

  if (status == DIGITS_OK) {
    /* The batch is open in this model: it is what the call says. Size and type are checked, as they are given. */
    digits_tensor input = {image, sizeof image, 4, {1, 1, 8, 8}, DIGITS_TYPE(DIGITS_FLOAT32)};
    digits_tensor output = {probabilities, sizeof probabilities, 0, {0}, 0};
    status = digits_run(context, &input, 1, &output, 1);
  }
  if (status != DIGITS_OK) fprintf(stderr, "%s\n", digits_last_error(context));
  digits_destroy(context);
  if (status != DIGITS_OK) return 1;

  int best = 0;
  for (int k = 1; k < 10; ++k)
    if (probabilities[k] > probabilities[best]) best = k;
  printf("%d\n", best);
  return 0;
}

/* The same by the library's own header, net.h: linked with one version of the library and run with another. */
#include <net.h>
#include <stdio.h>

int main(void) {
  net_options options = {0};
  options.size = sizeof options;
  net_context* context = NULL;
  if (net_create(&options, &context) != NET_OK) return fprintf(stderr, "%s\n", net_last_error(context)), 1;
  float x[4] = {3, -1, 0, 2};
  net_tensor input = {x, sizeof x, 2, {1, 4}, NET_TYPE(NET_FLOAT32)}, outputs[NET_OUTPUTS + 1] = {{0}};
  if (net_run(context, &input, 1, outputs, NET_OUTPUTS) != NET_OK)
    return fprintf(stderr, "%s\n", net_last_error(context)), 1;
  const float* y = (const float*)outputs[0].data;
  printf("%s %s %d: %g %g, %lld bytes\n", net_input(0)->name, net_input(0)->dim_names[1], net_output(0)->rank, y[0], y[3],
         (long long)outputs[0].bytes);
  net_destroy(context);
  return 0;
}

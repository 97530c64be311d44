/* Loaded before libmetac: notes what runs are given and answer, so that a test can compare addresses. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <metac/metac.h>

static const void* given[16];
static const void* answered;

const void* observed_input(int index) { return given[index]; }
const void* observed_output(void) { return answered; }

typedef metac_status (*session_run)(metac_session*, const metac_tensor*, int32_t, metac_result**);

metac_status metac_session_run(metac_session* session, const metac_tensor* inputs, int32_t input_count,
                               metac_result** result) {
  session_run next = (session_run)dlsym(RTLD_NEXT, "metac_session_run");
  for (int32_t i = 0; i < input_count && i < 16; ++i) given[i] = inputs[i].data;
  metac_status status = next(session, inputs, input_count, result);
  answered = status == METAC_OK ? metac_result_output(*result, 0)->data : 0;
  return status;
}

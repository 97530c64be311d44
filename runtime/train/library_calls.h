// METAC_TRAIN_LIBRARY(net_step, NET_STEP) makes the functions of a Library (train_tables.h) out of the C interface in
// net_step.h, in the namespace net_step_calls: create, run, find_non_finite, profile, profile_row, profile_work, destroy,
// last_error. All shapes are static, so a call is the addresses of its tensors. METAC_TRAIN_INFERENCE(net) does the same for
// an Inference, in net_calls.
#pragma once
#include <vector>

#include "train_tables.h"

namespace metac::train {

// Fills `tensors` for the ports that `port` has by position.
template <class Tensor, class PortOf>
void place_tensors(Tensor* tensors, int32_t count, PortOf port, void* const* data) {
  static const int64_t sizes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1};
  for (int32_t i = 0; i < count; ++i) {
    const auto* about = port(i);
    tensors[i] = Tensor();
    tensors[i].data = data[i];
    tensors[i].rank = about->rank;
    tensors[i].type = static_cast<int32_t>(about->dtype) + 1;
    tensors[i].bytes = sizes[static_cast<int32_t>(about->dtype)];
    for (int32_t d = 0; d < about->rank; ++d) {
      tensors[i].dims[d] = about->dims[d];
      tensors[i].bytes *= about->dims[d];
    }
  }
}

// Values as a library's interface has them.
template <class Value>
int32_t average_exchanged(const Exchanger& exchanger, const Value* values, int32_t count, void* stream) {
  std::vector<ExchangedValue> same;
  for (int32_t k = 0; k < count; ++k)
    same.push_back({values[k].data, static_cast<ScalarType>(values[k].dtype), values[k].bytes});
  return exchanger.average(exchanger.user, same.data(), count, stream);
}

}  // namespace metac::train

// Contexts are passed as void*, whatever the library calls them. Arrays have one element more: there may be none.
#define METAC_TRAIN_LIBRARY(name, NAME)                                                                                     \
  namespace name##_calls {                                                                                                  \
    inline int32_t create(int32_t threads, void** context) {                                                                \
      name##_options options = name##_options();                                                                            \
      options.size = sizeof options;                                                                                        \
      options.threads = threads;                                                                                            \
      name##_context* made = nullptr;                                                                                       \
      const int32_t status = static_cast<int32_t>(name##_create(&options, &made));                                          \
      *context = made;                                                                                                      \
      return status;                                                                                                        \
    }                                                                                                                       \
    inline int32_t run(void* context, void* const* inputs, void* const* outputs) {                                          \
      name##_tensor in[NAME##_INPUTS + 1], out[NAME##_OUTPUTS + 1];                                                         \
      metac::train::place_tensors(in, NAME##_INPUTS, name##_input, inputs);                                                 \
      metac::train::place_tensors(out, NAME##_OUTPUTS, name##_output, outputs);                                             \
      return static_cast<int32_t>(                                                                                          \
          name##_run(static_cast<name##_context*>(context), in, NAME##_INPUTS, out, NAME##_OUTPUTS));                       \
    }                                                                                                                       \
    inline int32_t find_non_finite(void* context, void* const* inputs, void* const* outputs, char* report, int64_t bytes) { \
      name##_tensor in[NAME##_INPUTS + 1], out[NAME##_OUTPUTS + 1];                                                         \
      metac::train::place_tensors(in, NAME##_INPUTS, name##_input, inputs);                                                 \
      metac::train::place_tensors(out, NAME##_OUTPUTS, name##_output, outputs);                                             \
      name##_context* const to = static_cast<name##_context*>(context);                                                     \
      return static_cast<int32_t>(name##_find_non_finite(to, in, NAME##_INPUTS, out, NAME##_OUTPUTS, report, bytes));       \
    }                                                                                                                       \
    inline int32_t profile(void* context, int32_t enable) {                                                                 \
      return static_cast<int32_t>(name##_profile(static_cast<name##_context*>(context), enable));                           \
    }                                                                                                                       \
    inline const char* profile_row(const void* context, int32_t index, int64_t* runs, int64_t* nanoseconds) {               \
      return name##_profile_row(static_cast<const name##_context*>(context), index, runs, nanoseconds);                     \
    }                                                                                                                       \
    inline int32_t profile_work(const void* context, int32_t index, double* operations, double* bytes) {                    \
      return static_cast<int32_t>(                                                                                          \
          name##_profile_work(static_cast<const name##_context*>(context), index, operations, bytes));                      \
    }                                                                                                                       \
    inline void destroy(void* context) { name##_destroy(static_cast<name##_context*>(context)); }                           \
    inline const char* last_error(const void* context) {                                                                    \
      return name##_last_error(static_cast<const name##_context*>(context));                                                \
    }                                                                                                                       \
  }

// Beside METAC_TRAIN_LIBRARY, for a library that exchanges gradients. The exchanger must outlive the context.
#define METAC_TRAIN_EXCHANGE(name)                                                                      \
  namespace name##_calls {                                                                              \
    inline int32_t exchange(void* context, const metac::train::Exchanger* exchanger) {                  \
      name##_exchanger to = {const_cast<metac::train::Exchanger*>(exchanger), nullptr, nullptr};        \
      to.begin = [](void* user, int32_t index, void* data, name##_dtype dtype, int64_t bytes) {         \
        const metac::train::Exchanger* own = static_cast<const metac::train::Exchanger*>(user);         \
        return own->begin(own->user, index, data, static_cast<metac::train::ScalarType>(dtype), bytes); \
      };                                                                                                \
      to.wait = [](void* user, int32_t index) {                                                         \
        const metac::train::Exchanger* own = static_cast<const metac::train::Exchanger*>(user);         \
        return own->wait(own->user, index);                                                             \
      };                                                                                                \
      return static_cast<int32_t>(name##_exchange(static_cast<name##_context*>(context), &to));         \
    }                                                                                                   \
  }

// The same on a GPU.
#define METAC_TRAIN_EXCHANGE_ON_DEVICE(name)                                                     \
  namespace name##_calls {                                                                       \
    inline int32_t exchange(void* context, const metac::train::Exchanger* exchanger) {           \
      name##_exchanger to = {const_cast<metac::train::Exchanger*>(exchanger), nullptr};          \
      to.average = [](void* user, const name##_exchanged* values, int32_t count, void* stream) { \
        const metac::train::Exchanger* own = static_cast<const metac::train::Exchanger*>(user);  \
        return metac::train::average_exchanged(*own, values, count, stream);                     \
      };                                                                                         \
      return static_cast<int32_t>(name##_exchange(static_cast<name##_context*>(context), &to));  \
    }                                                                                            \
  }

#define METAC_TRAIN_INFERENCE(name)                                                                                      \
  namespace name##_calls {                                                                                               \
    inline int32_t create(void** context) {                                                                              \
      name##_context* made = nullptr;                                                                                    \
      const int32_t status = static_cast<int32_t>(name##_create(nullptr, &made));                                        \
      *context = made;                                                                                                   \
      return status;                                                                                                     \
    }                                                                                                                    \
    inline int32_t write_weights(void* context, const void* const* parameters, int32_t count, const char* path) {        \
      return static_cast<int32_t>(name##_write_weights(static_cast<name##_context*>(context), parameters, count, path)); \
    }                                                                                                                    \
    inline void destroy(void* context) { name##_destroy(static_cast<name##_context*>(context)); }                        \
    inline const char* last_error(const void* context) {                                                                 \
      return name##_last_error(static_cast<const name##_context*>(context));                                             \
    }                                                                                                                    \
  }

// Gradients of processes with a GPU each, averaged from card to card by NCCL. MPI carries the id by which NCCL's processes
// find each other, and all that is not a gradient (processes.h).
//
// The communicator is never left: leaving is for all together, and who ends in trouble must not wait for the others.
#pragma once
#include "nccl_library.h"
#include "processes.h"

namespace metac::train {

class CardExchange {
 public:
  // Every process calls it at the same time, with its own device chosen. sums: values are added up, not averaged.
  CardExchange(Processes& processes, bool sums) : operation_(sums ? NcclLibrary::sum : NcclLibrary::mean) {
    NcclLibrary::Id id{};
    if (processes.first()) expect_good(library_.get_id(&id), "making an id");
    processes.broadcast(&id, sizeof id);
    expect_good(library_.join(&communicator_, processes.size(), id, processes.rank()), "meeting the other processes");
  }
  CardExchange(const CardExchange&) = delete;
  CardExchange& operator=(const CardExchange&) = delete;

  // Puts it onto a stream (cudaStream_t), as one start of NCCL's kernel. 0: good.
  int32_t average(const ExchangedValue* values, int32_t count, void* stream) {
    int status = library_.group_start();
    for (int32_t k = 0; k < count && status == 0; ++k) {
      const auto [type, size] = type_of(values[k].dtype);
      status = library_.all_reduce(values[k].data, values[k].data, static_cast<size_t>(values[k].bytes / size), type,
                                   operation_, communicator_, stream);
    }
    const int ended = library_.group_end();
    if (status == 0) status = ended;
    if (status != 0) std::fprintf(stderr, "NCCL: averaging gradients: %s\n", library_.error_text(status));
    return status;
  }

 private:
  static std::pair<int, int64_t> type_of(ScalarType dtype) {
    switch (dtype) {
      case ScalarType::f64:
        return {NcclLibrary::float64, 8};
      case ScalarType::f16:
        return {NcclLibrary::float16, 2};
      case ScalarType::bf16:
        return {NcclLibrary::bfloat16, 2};
      default:
        return {NcclLibrary::float32, 4};
    }
  }
  void expect_good(int status, const char* what) {
    if (status != 0) fail("NCCL: ", what, ": ", library_.error_text(status));
  }

  NcclLibrary library_;
  NcclLibrary::Communicator communicator_ = nullptr;
  const int operation_;
};

}  // namespace metac::train

// A context of a batching queue, and how it runs a batch: together, or one request after another where that fails.
#pragma once
#include "rows.h"

namespace METAC_RUNTIME_NAMESPACE {

class QueueContext {
 public:
  QueueContext() = default;
  QueueContext(const QueueContext&) = delete;
  QueueContext& operator=(const QueueContext&) = delete;
  ~QueueContext() { close(); }

  bool open(const metac_model& model, const metac_model_options& options, Failure& failure) {
    close();
    model_ = &model;
    if (!together_.allocate(model.inputs) || !memory_.allocate(model.inputs) || !made_.allocate(model.outputs))
      return failure.set(Status::out_of_memory, "no memory for a queue");
    const metac_model_status status = model.create(&options, &context_);
    return status == METAC_MODEL_OK || failure.set(static_cast<Status>(status), "%s", model.last_error(context_));
  }
  void close() {
    if (context_ != nullptr) model_->destroy(context_);
    context_ = nullptr;
  }
  bool is_open() const { return context_ != nullptr; }

  // Does the model take so many rows? It is asked where all other dims are fixed.
  bool takes(int64_t rows, Failure& failure) {
    for (int32_t i = 0; i < model_->inputs; ++i) {
      const metac_model_port& port = *model_->input(i);
      together_[i] = metac_model_tensor();
      together_[i].rank = port.rank;
      together_[i].dims[0] = rows;
      for (int32_t axis = 1; axis < port.rank; ++axis) {
        if (port.dims[axis] < 0) return true;
        together_[i].dims[axis] = port.dims[axis];
      }
    }
    const metac_model_status status =
        model_->output_shapes(context_, together_.data(), model_->inputs, made_.data(), model_->outputs);
    return status == METAC_MODEL_OK || failure.set(static_cast<Status>(status), "max_batch is %lld: %s",
                                                   static_cast<long long>(rows), model_->last_error(context_));
  }

  // Runs a list of requests. Each has its own answer or failure then: what is wrong with one's data touches no other.
  void run(QueueRequest* batch) {
    if (batch->next != nullptr && run_together(batch)) return;
    for (QueueRequest* r = batch; r != nullptr; r = r->next) run_alone(*r);
  }

 private:
  // False: not all of it went well.
  bool run_together(QueueRequest* batch) {
    int64_t rows = 0;
    for (const QueueRequest* r = batch; r != nullptr; r = r->next) rows += r->rows;
    for (int32_t i = 0; i < model_->inputs; ++i)
      if (!gather_rows(*model_->input(i), batch, rows, i, memory_[i], together_[i])) return false;
    clear_outputs();
    if (model_->run(context_, together_.data(), model_->inputs, made_.data(), model_->outputs) != METAC_MODEL_OK)
      return false;
    for (int32_t o = 0; o < model_->outputs; ++o)
      if (made_[o].rank < 1 || made_[o].dims[0] != rows) return false;
    for (int32_t o = 0; o < model_->outputs; ++o) scatter_rows(*model_->output(o), batch, o, made_[o]);
    return true;
  }

  // Where inputs and outputs are.
  void run_alone(QueueRequest& r) {
    clear_outputs();
    metac_model_status status = METAC_MODEL_OK;
    bool given = true;
    for (int32_t o = 0; o < model_->outputs; ++o) given &= r.outputs[o].data != nullptr;
    if (!given) status = model_->output_shapes(context_, r.inputs, model_->inputs, made_.data(), model_->outputs);
    if (status != METAC_MODEL_OK) return fail(r, status);
    for (int32_t o = 0; o < model_->outputs; ++o) {
      metac_model_tensor& made = made_[o];
      const int64_t bytes = made.bytes;
      if (r.outputs[o].data != nullptr) {
        made = r.outputs[o];
      } else if (made = metac_model_tensor(); bytes >= 0) {
        made.data = memory_of_output(*model_->output(o), r, o, bytes);
        made.bytes = bytes;
        if (made.data == nullptr) return;
      }
    }
    status = model_->run(context_, r.inputs, model_->inputs, made_.data(), model_->outputs);
    if (status != METAC_MODEL_OK) return fail(r, status);
    for (int32_t o = 0; o < model_->outputs; ++o) {
      const void* const own = r.memory[o].data();
      const bool there = r.outputs[o].data != nullptr || (own != nullptr && made_[o].data == own);
      void* const to = there ? made_[o].data : memory_of_output(*model_->output(o), r, o, made_[o].bytes);
      if (to == nullptr) return;
      if (!there && made_[o].bytes > 0) std::memcpy(to, made_[o].data, static_cast<size_t>(made_[o].bytes));
      r.outputs[o] = made_[o];
      r.outputs[o].data = to;
    }
  }

  void fail(QueueRequest& r, metac_model_status status) {
    r.failure.set(static_cast<Status>(status), "%s", model_->last_error(context_));
  }
  void clear_outputs() {
    for (int32_t o = 0; o < model_->outputs; ++o) made_[o] = metac_model_tensor();
  }

  const metac_model* model_ = nullptr;
  metac_model_context* context_ = nullptr;
  Array<metac_model_tensor> together_, made_;  // inputs and outputs of a batch
  Array<Block> memory_;                        // of its inputs
};

}  // namespace METAC_RUNTIME_NAMESPACE

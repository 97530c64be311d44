// non_max_suppression(boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold) -> selected int64 [n, 3].
#pragma once
#include "order.h"

namespace METAC_RUNTIME_NAMESPACE {

struct Corners {
  float y1, x1, y2, x2;
};

inline Corners corners_of(const float* box, bool center) {
  if (center) return {box[1] - box[3] / 2, box[0] - box[2] / 2, box[1] + box[3] / 2, box[0] + box[2] / 2};
  Corners c;  // any two diagonal corners
  c.y1 = box[0] < box[2] ? box[0] : box[2];
  c.y2 = box[0] < box[2] ? box[2] : box[0];
  c.x1 = box[1] < box[3] ? box[1] : box[3];
  c.x2 = box[1] < box[3] ? box[3] : box[1];
  return c;
}

inline bool overlap_more(const Corners& a, const Corners& b, float threshold) {
  const float top = a.y1 > b.y1 ? a.y1 : b.y1, left = a.x1 > b.x1 ? a.x1 : b.x1;
  const float bottom = a.y2 < b.y2 ? a.y2 : b.y2, right = a.x2 < b.x2 ? a.x2 : b.x2;
  const float height = bottom > top ? bottom - top : 0, width = right > left ? right - left : 0;
  const float shared = height * width;
  const float all = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - shared;
  return all > 0 && shared / all > threshold;
}

inline bool non_max_suppression(RoutineCall& call) {
  const RoutineTensor &boxes = call.inputs[0], &scores = call.inputs[1];
  auto given = [&](int32_t i) { return call.input_count > i && call.inputs[i].data != nullptr; };
  const int64_t most = given(2) ? *call.inputs[2].as<int64_t>() : 0;
  const float iou = given(3) ? *call.inputs[3].as<float>() : 0.0f;
  const float least = given(4) ? *call.inputs[4].as<float>() : -__builtin_inff();
  const bool center = call.integer("center_point_box", 0) != 0;
  const int64_t batches = scores.dims[0], classes = scores.dims[1], count = scores.dims[2];
  const int64_t kept_at_most = most < 0 ? 0 : most < count ? most : count;
  int64_t room = 0;
  const bool fits =
      !__builtin_mul_overflow(batches * classes, 3 * kept_at_most, &room) && !__builtin_add_overflow(room, 3 * count, &room);
  int64_t* const order = fits ? call.work(room) : nullptr;
  if (order == nullptr) return routine_memory(call, "non_max_suppression");
  int64_t *const space = order + count, *const kept = space + count, *const selected = kept + count;
  int64_t found = 0;
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t klass = 0; klass < classes; ++klass) {
      const float* score = scores.as<float>() + (batch * classes + klass) * count;
      const float* box = boxes.as<float>() + batch * boxes.dims[1] * 4;
      int64_t candidates = 0, kept_count = 0;
      for (int64_t i = 0; i < count; ++i)
        if (score[i] > least) order[candidates++] = i;
      sort_indices(order, space, candidates, [&](int64_t a, int64_t b) { return compare_elements(score[a], score[b]) > 0; });
      for (int64_t c = 0; c < candidates && kept_count < kept_at_most; ++c) {
        const Corners corners = corners_of(box + 4 * order[c], center);
        bool suppressed = false;
        for (int64_t j = 0; j < kept_count && !suppressed; ++j)
          suppressed = overlap_more(corners, corners_of(box + 4 * kept[j], center), iou);
        if (suppressed) continue;
        kept[kept_count++] = order[c];
        const int64_t row[3] = {batch, klass, order[c]};
        std::memcpy(&selected[3 * found++], row, sizeof(row));
      }
    }
  }
  if (call.symbol_count > 0) call.symbols[0] = found;
  if (!call.prepare_outputs()) return false;
  if (found > 0) std::memcpy(call.outputs[0].data, selected, static_cast<size_t>(found) * 3 * sizeof(int64_t));
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE

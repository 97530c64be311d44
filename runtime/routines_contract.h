// The external routines that operators call (Graph::external), by name: what they read, write and bind. The runtime
// implements them in routines.h, the reference evaluator in compiler/oracle/evaluate_external.cpp, both by this text.
//
// All tensors are contiguous and row-major. Output shapes are known from the graph except for dims that are a symbol the
// routine binds (Op::symbols); it must bind every symbol it lists, and its outputs have the bound extents. Attributes are
// integers. No routine fails on any data: NaN, ties and out-of-range values have the answers below.
//
// top_k(x) -> values, indices
//     attributes axis (0 <= axis < rank), largest (1: greatest first, 0: least first), sorted (1, or 0: any order allowed)
//     values: dtype of x; indices: int64, positions along the axis. Both have x's shape with the axis's extent replaced
//     by k: k is read from the outputs' shape, 0 <= k <= extent. Ties: the lower index first. NaN is greater than every
//     number. dtypes: all numeric.
//
// nonzero(x) -> indices
//     indices: int64 [rank, n]; symbols[0] = n, the number of elements that are not zero (bool: true; NaN is not zero).
//     Column c holds the position of the c-th of them in row-major order. Rank 0: [0, n] with n = 0 or 1.
//     dtypes: all numeric and bool.
//
// unique(x) -> values, indices, inverse, counts
//     attributes axis, sorted. Slices of x along the axis are compared as a whole (rank 1: single elements).
//     symbols[0] = n, the number of distinct slices. values: x's shape with n along the axis; indices, counts: int64 [n]:
//     the first position of each and how often it occurs; inverse: int64 [extent of the axis]: for each slice its position
//     among the values. sorted = 1: ascending, slices lexicographically; 0: in the order of first occurrence.
//     NaN equals NaN and is greatest. dtypes: all numeric and bool.
//
// non_max_suppression(boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold) -> selected
//     attribute center_point_box (0: y1, x1, y2, x2 of any two diagonal corners; 1: x_center, y_center, width, height)
//     boxes: float32 [batches, boxes, 4]; scores: float32 [batches, classes, boxes]; then rank-0 int64, float32, float32
//     selected: int64 [n, 3] = (batch, class, box); symbols[0] = n. Per batch and class: boxes with score >
//     score_threshold, by falling score (ties: lower index first), each kept unless its intersection over union with a kept
//     one is > iou_threshold, until max_output_boxes_per_class are kept (<= 0: none).
//
// reinterpret_bits(x) -> y
//     x's bytes as another type of the same size and shape. dtypes: all numeric.
//
// draw_number() -> n
//     n: int64, rank 0: how often this routine has been called before in this context. The counter of random operators.
#pragma once

namespace metac_routines {

constexpr const char* top_k = "top_k";
constexpr const char* nonzero = "nonzero";
constexpr const char* unique = "unique";
constexpr const char* reinterpret_bits = "reinterpret_bits";
constexpr const char* draw_number = "draw_number";
constexpr const char* non_max_suppression = "non_max_suppression";

}  // namespace metac_routines

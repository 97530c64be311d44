// Pictures of any size to one size: bilinear, and where it gets smaller every source pixel counts (a triangle as wide as the
// scale, as Pillow's BILINEAR does), so that fine patterns do not alias. The sides are scaled independently.
// Written here and not taken from stb_image_resize, which is forty times as long.
#pragma once
#include <algorithm>
#include <cmath>

#include "decoders.h"

namespace metac::train {

struct ResizeWeights {
  struct Row {
    int64_t first;
    std::vector<double> weights;
  };
  std::vector<Row> rows;  // of each target position

  ResizeWeights(int64_t from, int64_t to) {
    const double scale = static_cast<double>(from) / static_cast<double>(to), support = std::max(1.0, scale);
    for (int64_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * scale;
      const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - support + 0.5)),
                    last = std::min(from, static_cast<int64_t>(centre + support + 0.5));
      Row row{first, {}};
      double sum = 0;
      for (int64_t k = first; k < last; ++k) {
        row.weights.push_back(std::max(0.0, 1 - std::fabs((static_cast<double>(k) + 0.5 - centre) / support)));
        sum += row.weights.back();
      }
      for (double& w : row.weights) w /= sum;
      rows.push_back(std::move(row));
    }
  }
};

// [channels, height, width] in `to`, 0 to 255.
inline void resize_picture(const Picture& picture, int64_t height, int64_t width, double* to) {
  const ResizeWeights across(picture.width, width), down(picture.height, height);
  std::vector<double> narrow(static_cast<size_t>(picture.height * width));
  for (int64_t c = 0; c < picture.channels; ++c) {
    for (int64_t y = 0; y < picture.height; ++y) {
      const unsigned char* line = picture.pixels.data() + y * picture.width * picture.channels + c;
      for (int64_t x = 0; x < width; ++x) {
        const ResizeWeights::Row& row = across.rows[static_cast<size_t>(x)];
        double sum = 0;
        for (size_t k = 0; k < row.weights.size(); ++k)
          sum += row.weights[k] * line[(row.first + static_cast<int64_t>(k)) * picture.channels];
        narrow[static_cast<size_t>(y * width + x)] = sum;
      }
    }
    for (int64_t y = 0; y < height; ++y) {
      const ResizeWeights::Row& row = down.rows[static_cast<size_t>(y)];
      for (int64_t x = 0; x < width; ++x) {
        double sum = 0;
        for (size_t k = 0; k < row.weights.size(); ++k)
          sum += row.weights[k] * narrow[static_cast<size_t>((row.first + static_cast<int64_t>(k)) * width + x)];
        *to++ = sum;
      }
    }
  }
}

}  // namespace metac::train

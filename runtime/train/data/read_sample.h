// One sample of one field, from the file's elements to the model's: axes in order, augmented, scaled, normalised, converted.
#pragma once
#include <algorithm>

#include "../random.h"
#include "dataset.h"

namespace metac::train {

// What decides the random choices for a sample; the same for all its fields.
struct Augmentation {
  bool on = false;
  int64_t seed = 0, epoch = 0, position = 0;  // position: of the sample within the epoch
};

class SampleReader {  // one a thread: it keeps its memory
 public:
  void read(const Column& column, const FieldSource& source, const Field& field, int64_t sample,
            const Augmentation& augmentation, char* to) {
    if (is_copy(column, source, field, augmentation)) return copy(column, sample, 1, to);
    const int64_t count = elements(field);
    const bool moved = is_moved(source, augmentation);
    values_.resize(static_cast<size_t>(count));
    if (column.decode) {
      column.decode(sample, values_.data());
    } else {
      const char* from = column.data + sample * column.stride;
      if (column.fetch) {
        raw_.resize(static_cast<size_t>(column.stride));
        copy(column, sample, 1, raw_.data());
        from = raw_.data();
      }
      read_elements(column.dtype, from, count, values_.data());
    }
    if (source.channels_last && field.rank == 3 && !column.decode) put_channels_first(field);
    if (moved && field.rank >= 2) move(source, field, augmentation);
    scale(source, field);
    const int64_t wrong = write_elements(field.dtype, values_.data(), count, to);
    if (wrong >= 0)
      fail(column.origin, ", sample ", sample, ": ", values_[static_cast<size_t>(wrong)],
           " is no value of the integer type that the model's ", quoted(field.name), " has");
  }

  // One behind the other, the first of them at `augmentation.position`. Those that follow each other in the file are copied
  // at once.
  void read_all(const Column& column, const FieldSource& source, const Field& field, const std::vector<int64_t>& samples,
                Augmentation augmentation, char* to) {
    const bool copied = is_copy(column, source, field, augmentation);
    const int64_t bytes = elements(field) * size_of(field.dtype);
    for (size_t k = 0, run = 1; k < samples.size(); k += run, augmentation.position += static_cast<int64_t>(run)) {
      char* const place = to + static_cast<int64_t>(k) * bytes;
      for (run = 1; copied && k + run < samples.size() && samples[k + run] == samples[k] + static_cast<int64_t>(run);) ++run;
      if (copied)
        copy(column, samples[k], static_cast<int64_t>(run), place);
      else
        read(column, source, field, samples[k], augmentation, place);
    }
  }

 private:
  static bool is_moved(const FieldSource& source, const Augmentation& augmentation) {
    return augmentation.on && (source.flip || source.crop_padding > 0);
  }

  static bool is_copy(const Column& column, const FieldSource& source, const Field& field,
                      const Augmentation& augmentation) {
    return !column.decode && column.dtype == field.dtype && !is_moved(source, augmentation) && !source.channels_last &&
           source.channels == 0 && source.scale == 1;
  }

  static void copy(const Column& column, int64_t sample, int64_t count, char* to) {
    if (column.fetch)
      column.fetch(sample * column.stride, count * column.stride, to);
    else
      std::memcpy(to, column.data + sample * column.stride, static_cast<size_t>(count * column.stride));
  }

  void put_channels_first(const Field& field) {
    const int64_t channels = field.dims[0], area = field.dims[1] * field.dims[2];
    other_.resize(values_.size());
    for (int64_t p = 0; p < area; ++p)
      for (int64_t c = 0; c < channels; ++c)
        other_[static_cast<size_t>(c * area + p)] = values_[static_cast<size_t>(p * channels + c)];
    values_.swap(other_);
  }

  // Crop: as if zeros stood around the last two axes and a window of the old size were cut out of that.
  void move(const FieldSource& source, const Field& field, const Augmentation& a) {
    const int64_t width = field.dims[field.rank - 1], height = field.dims[field.rank - 2],
                  planes = elements(field) / std::max<int64_t>(1, width * height);
    int64_t down = 0, across = 0;
    if (source.crop_padding > 0) {
      const uint64_t bits = random_bits(a.seed, Stream::crop, a.epoch, a.position);
      const int64_t choices = 2 * int64_t{source.crop_padding} + 1;
      down = random_below(bits << 32, choices) - source.crop_padding;
      across = random_below(bits & ~uint64_t{0xffffffff}, choices) - source.crop_padding;
    }
    const bool mirror = source.flip && (random_bits(a.seed, Stream::flip, a.epoch, a.position) & 1) != 0;
    other_.assign(values_.size(), 0.0);
    for (int64_t p = 0; p < planes; ++p) {
      for (int64_t y = std::max<int64_t>(0, -down); y < std::min(height, height - down); ++y) {
        for (int64_t x = std::max<int64_t>(0, -across); x < std::min(width, width - across); ++x) {
          const int64_t there = mirror ? width - 1 - x : x;
          other_[static_cast<size_t>((p * height + y) * width + there)] =
              values_[static_cast<size_t>((p * height + y + down) * width + x + across)];
        }
      }
    }
    values_.swap(other_);
  }

  void scale(const FieldSource& source, const Field& field) {
    if (source.scale == 1 && source.channels == 0) return;
    const int64_t count = elements(field), channels = std::max<int64_t>(1, source.channels), each = count / channels;
    for (int64_t c = 0; c < channels; ++c) {
      const double mean = source.channels > 0 ? source.mean[c] : 0,
                   deviation = source.channels > 0 ? source.deviation[c] : 1;
      for (int64_t k = c * each; k < (c + 1) * each; ++k)
        values_[static_cast<size_t>(k)] = (values_[static_cast<size_t>(k)] * source.scale - mean) / deviation;
    }
  }

  std::vector<double> values_, other_;
  std::vector<char> raw_;
};

}  // namespace metac::train

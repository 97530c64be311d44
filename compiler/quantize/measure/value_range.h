// The range of a value that its quantised form covers, by one of four methods, from what runs have shown of it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"

namespace metac {

enum class Calibration {
  minmax,      // all that was seen
  percentile,  // all but the outermost elements at either end
  entropy,     // the least Kullback-Leibler divergence of the quantised distribution from the one seen
  mse,         // the least mean square error
};
std::optional<Calibration> calibration_named(const std::string& name);

struct ValueRange {
  double low = 0, high = 0;
};

// Elements of a value, first their ends, then how they spread between them: in this order, each over all samples.
class ValueStatistics {
 public:
  static constexpr int bins = 4096;

  // False: there is a NaN or an infinity.
  bool note_ends(const Tensor& tensor);
  void note_spread(const Tensor& tensor);
  bool empty() const { return low_ > high_; }

  // `levels`: steps of the quantised type less one. The range holds 0.
  ValueRange range(Calibration method, double percentile, int levels) const;

 private:
  ValueRange by_percentile(double percentile) const;
  ValueRange by_entropy(int levels) const;
  ValueRange by_square_error(int levels) const;
  double error_of(ValueRange range, int levels) const;
  double width() const { return (high_ - low_) / bins; }
  double middle(int bin) const { return low_ + (bin + 0.5) * width(); }

  double low_ = 1e300, high_ = -1e300;
  // Zeros, of which a Relu leaves many and which are always represented exactly, are counted apart.
  double zeros_ = 0;
  std::vector<double> counts_;
};

struct Affine {
  float scale = 1;
  int64_t zero_point = 0;
};
// scale * (stored - zero_point) for all integers of the type over the range.
Affine affine_of(ValueRange range, DType type);

}  // namespace metac

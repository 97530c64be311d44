// curves.svg: loss, metrics and learning rate over the updates, drawn from the log.
#pragma once
#include <fstream>

#include "run_log.h"

namespace metac::train {

struct CurvePoint {
  double x, y;
};
struct Curve {
  std::string name, colour;
  bool marks;  // a dot at every point
  std::vector<CurvePoint> points;
  bool noisy = false;  // pale, with its moving mean over it
};
struct Panel {
  std::string title;
  std::vector<Curve> curves;
  bool watched = false;  // the best epoch is told here
  bool falling = false;  // what falls by orders of magnitude gets a logarithmic axis, to show its end too
};

struct Epochs {
  std::vector<CurvePoint> ends;   // updates and, y, epochs
  double best = -1, best_at = 0;  // the best epoch, -1: none, and its update
};

// Numbers as axes have them: 0.25, 1500, 3e-05.
inline std::string tick_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value == 0 ? 0 : value);
  for (char& c : text)
    if (c == ',') c = '.';
  return text;
}

inline std::vector<double> ticks(double low, double high, int about) {
  const double rough = (high - low) / about, power = std::pow(10, std::floor(std::log10(rough))), share = rough / power;
  const double step = power * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
  std::vector<double> found;
  for (double v = std::ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    found.push_back(std::fabs(v) < step * 1e-9 ? 0 : v);
  return found;
}

// At most `most` points: means of neighbours.
inline std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<CurvePoint> few;
  for (size_t k = 0; k < most; ++k) {
    const size_t begin = k * points.size() / most, end = (k + 1) * points.size() / most;
    CurvePoint sum{0, 0};
    for (size_t i = begin; i < end; ++i) sum.x += points[i].x, sum.y += points[i].y;
    few.push_back({sum.x / static_cast<double>(end - begin), sum.y / static_cast<double>(end - begin)});
  }
  return few;
}

// The mean of each point and its `reach` neighbours on either side, of fewer at the ends.
inline std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points, size_t reach) {
  std::vector<CurvePoint> means;
  std::vector<double> sums = {0};
  for (const CurvePoint& p : points) sums.push_back(sums.back() + p.y);
  for (size_t k = 0; k < points.size(); ++k) {
    const size_t room = std::min({reach, k, points.size() - 1 - k}), begin = k - room, end = k + room + 1;
    means.push_back({points[k].x, (sums[end] - sums[begin]) / static_cast<double>(end - begin)});
  }
  return means;
}

class CurvesPage {
 public:
  static std::string draw(const std::string& title, const std::vector<Panel>& panels, double last_x, const Epochs& epochs) {
    CurvesPage page;
    page.epochs_ = epochs;
    const double height = top + static_cast<double>(panels.size()) * (panel_height + gap) + 46;
    page.out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
              << "\" viewBox=\"0 0 " << width << ' ' << height
              << "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
                 "fill=\"#ffffff\"/>\n";
    page.text(left, 28, title, "font-size=\"16\" font-weight=\"bold\" fill=\"#222222\"");
    for (size_t k = 0; k < panels.size(); ++k)
      page.panel(panels[k], top + static_cast<double>(k) * (panel_height + gap), std::max(1.0, last_x),
                 k + 1 == panels.size());
    page.out_ << "</svg>\n";
    return page.out_.str();
  }

 private:
  static constexpr double width = 900, left = 76, right = 24, top = 64, panel_height = 210, gap = 48;

  CurvesPage() { out_.imbue(std::locale::classic()); }

  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '<')
        out += "&lt;";
      else if (c == '&')
        out += "&amp;";
      else
        out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
    }
    return out;
  }
  void text(double x, double y, const std::string& what, const std::string& style) {
    out_ << "<text x=\"" << x << "\" y=\"" << y << "\" " << style << '>' << escaped(what) << "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    out_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\"" << colour
         << "\"/>\n";
  }

  void panel(const Panel& panel, double y0, double last_x, bool lowest) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (const Curve& curve : panel.curves)
      for (const CurvePoint& p : curve.points) low = std::min(low, p.y), high = std::max(high, p.y);
    if (!(low <= high)) low = 0, high = 1;
    const bool logarithmic = panel.falling && low > 0 && high / low > 30;
    auto scaled = [&](double v) { return logarithmic ? std::log10(v) : v; };
    double from = scaled(low), to = scaled(high);
    if (to - from < 1e-12 * std::max(1.0, std::fabs(to)))
      from -= std::max(0.5e-3, std::fabs(from) * 0.05), to += std::max(0.5e-3, std::fabs(to) * 0.05);
    const double margin = (to - from) * 0.05;
    from -= margin, to += margin;
    const double bottom = y0 + panel_height, plot_width = width - left - right;
    auto x_of = [&](double x) { return left + x / last_x * plot_width; };
    auto y_of = [&](double v) { return bottom - (scaled(v) - from) / (to - from) * panel_height; };
    text(left, y0 - 10, panel.title + (logarithmic ? " (logarithmic)" : ""),
         "font-size=\"13\" font-weight=\"bold\" fill=\"#222222\"");
    std::vector<double> values = logarithmic ? std::vector<double>() : ticks(from, to, 5);
    for (double power = std::pow(10, std::floor(from)); logarithmic && power <= std::pow(10, to); power *= 10)
      for (const double digit : {1.0, 2.0, 5.0})
        if (scaled(power * digit) >= from && scaled(power * digit) <= to && (digit == 1 || to - from < 3))
          values.push_back(power * digit);
    for (const double v : values) {
      line(left, y_of(v), width - right, y_of(v), "#e6e6e6");
      text(left - 8, y_of(v) + 4, tick_text(v), "text-anchor=\"end\" fill=\"#555555\"");
    }
    for (const double x : ticks(0, last_x, 8)) {
      line(x_of(x), bottom, x_of(x), bottom + 5, "#999999");
      text(x_of(x), bottom + 19, tick_text(x), "text-anchor=\"middle\" fill=\"#555555\"");
    }
    line(left, bottom, width - right, bottom, "#999999");
    if (lowest) {
      text(width - right, bottom + 34, "updates", "text-anchor=\"end\" fill=\"#555555\"");
      epoch_axis(bottom + 44, x_of);
    }
    if (epochs_.best >= 0) {
      out_ << "<line x1=\"" << x_of(epochs_.best_at) << "\" y1=\"" << y0 << "\" x2=\"" << x_of(epochs_.best_at) << "\" y2=\""
           << bottom << "\" stroke=\"#8a6d3b\" stroke-dasharray=\"4 3\"/>\n";
      const bool at_right = epochs_.best_at > last_x / 2;
      if (panel.watched)
        text(x_of(epochs_.best_at) + (at_right ? -6 : 6), y0 + 14, "best: epoch " + tick_text(epochs_.best),
             std::string("fill=\"#8a6d3b\" text-anchor=\"") + (at_right ? "end" : "start") + "\"");
    }
    double legend = width - right;
    for (size_t k = panel.curves.size(); k-- > 0;) {
      const Curve& curve = panel.curves[k];
      if (!curve.points.empty()) draw_curve(curve, x_of, y_of);
      if (panel.curves.size() < 2 || curve.points.empty()) continue;
      text(legend, y0 - 10, curve.name, "text-anchor=\"end\" fill=\"#333333\"");
      legend -= 7.0 * static_cast<double>(curve.name.size()) + 8;
      out_ << "<line x1=\"" << legend - 18 << "\" y1=\"" << y0 - 14 << "\" x2=\"" << legend << "\" y2=\"" << y0 - 14
           << "\" stroke=\"" << curve.colour << "\" stroke-width=\"3\"/>\n";
      legend -= 36;
    }
  }

  // Where epochs end, some of them.
  template <class X>
  void epoch_axis(double y, X x_of) {
    if (epochs_.ends.empty()) return;
    const size_t step = (epochs_.ends.size() + 11) / 12;
    line(left, y, width - right, y, "#999999");
    for (size_t k = step - 1; k < epochs_.ends.size(); k += step) {
      line(x_of(epochs_.ends[k].x), y, x_of(epochs_.ends[k].x), y + 5, "#999999");
      text(x_of(epochs_.ends[k].x), y + 18, tick_text(epochs_.ends[k].y), "text-anchor=\"middle\" fill=\"#555555\"");
    }
    text(left - 8, y + 18, "epochs", "text-anchor=\"end\" fill=\"#555555\"");
  }

  template <class X, class Y>
  void draw_curve(const Curve& curve, X x_of, Y y_of) {
    const std::vector<CurvePoint> points = thinned(curve.points, 600);
    const bool pale = curve.noisy && points.size() > 20;
    draw_line(curve, points, pale ? 0.35 : 1, x_of, y_of);
    if (pale) draw_line(curve, smoothed(points, points.size() / 40 + 1), 1, x_of, y_of);
    for (const CurvePoint& p : points)
      if (curve.marks && points.size() <= 60)
        out_ << "<circle cx=\"" << x_of(p.x) << "\" cy=\"" << y_of(p.y) << "\" r=\"3\" fill=\"" << curve.colour << "\"/>\n";
  }

  template <class X, class Y>
  void draw_line(const Curve& curve, const std::vector<CurvePoint>& points, double opacity, X x_of, Y y_of) {
    out_ << "<polyline fill=\"none\" stroke=\"" << curve.colour << "\" stroke-opacity=\"" << opacity << "\" stroke-width=\""
         << (curve.marks || curve.noisy ? 2 : 1.5) << "\" stroke-linejoin=\"round\" points=\"";
    char pair[64];
    for (const CurvePoint& p : points) {
      std::snprintf(pair, sizeof pair, "%d.%d,%d.%d ", static_cast<int>(x_of(p.x)), static_cast<int>(x_of(p.x) * 10) % 10,
                    static_cast<int>(y_of(p.y)), static_cast<int>(y_of(p.y) * 10) % 10);
      out_ << pair;
    }
    out_ << "\"/>\n";
  }

  std::ostringstream out_;
  Epochs epochs_;
};

// Reads the log again: it is the whole story, of earlier starts too.
inline void draw_curves(const TrainTables& tables, const std::string& log_path, const std::string& path) {
  const char *training = "#4c78a8", *validation = "#e4572e";
  std::vector<Panel> panels = {{std::string("loss: ") + tables.loss,
                                {{"training", training, false, {}, true}, {"validation", validation, true, {}}},
                                tables.settings.watched < 0,
                                true}};
  for (int32_t m = 0; m < tables.metric_count; ++m)
    panels.push_back({tables.metrics[m].name,
                      {{"training", training, false, {}, true}, {"validation", validation, true, {}}},
                      m == tables.settings.watched});
  panels.push_back({"learning rate", {{"rate", "#59a14f", false, {}}}});
  std::ifstream log(log_path);
  double last = 0, best = 0;
  Epochs epochs;
  const int32_t watched = tables.settings.watched;
  const bool greater = watched >= 0 && tables.metrics[watched].greater_is_better;
  const std::string judged = std::string("validation ") + (watched >= 0 ? tables.metrics[watched].name : "loss");
  for (std::string text; std::getline(log, text);) {
    const Json line = JsonReader::read(text.data(), text.data() + text.size());
    const Json *event = line.find("event"), *update = line.find("update");
    if (event == nullptr || update == nullptr) continue;
    auto put = [&](const std::string& name, Curve* curve) {
      const Json* value = line.find(name);
      if (value != nullptr && value->kind == Json::Kind::number)
        curve->points.push_back({update->number, value->number}), last = std::max(last, update->number);
    };
    const bool step = event->string == "train";
    if (!step && event->string != "epoch") continue;
    const std::string prefix = step ? "" : "validation ";
    put(prefix + "loss", &panels[0].curves[step ? 0 : 1]);
    for (int32_t m = 0; m < tables.metric_count; ++m)
      put(prefix + tables.metrics[m].name, &panels[static_cast<size_t>(m) + 1].curves[step ? 0 : 1]);
    if (step) put("rate", &panels.back().curves[0]);
    const Json *epoch = line.find("epoch"), *value = line.find(judged);
    if (step || epoch == nullptr) continue;
    epochs.ends.push_back({update->number, epoch->number});
    if (value == nullptr || value->kind != Json::Kind::number) continue;
    if (epochs.best < 0 || (greater ? value->number > best : value->number < best))
      best = value->number, epochs.best = epoch->number, epochs.best_at = update->number;
  }
  const std::string page = CurvesPage::draw(std::string(tables.name) + ": " + tables.optimiser, panels, last, epochs);
  WholeFile file(path);
  file.write(page.data(), page.size());
  file.commit();
}

}  // namespace metac::train

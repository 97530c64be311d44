// What a person sees of a run: one line that moves on a terminal, plain lines elsewhere.
#pragma once
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "../fault.h"

namespace metac::train {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::string duration_text(double seconds) {
  char text[48];
  const long long s = static_cast<long long>(seconds + 0.5);
  if (seconds < 0 || seconds > 8.64e7) return "?";
  if (s >= 86400)
    std::snprintf(text, sizeof text, "%lldd %lldh", s / 86400, s % 86400 / 3600);
  else if (s >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s % 3600 / 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  return text;
}

inline std::string short_number(double value) {
  char text[32];
  if (value >= 1e4 && value < 1e15) {
    const char* unit = value < 1e6 ? "k" : value < 1e9 ? "M" : "G";
    value /= value < 1e6 ? 1e3 : value < 1e9 ? 1e6 : 1e9;
    std::snprintf(text, sizeof text, "%.3g %s", value, unit);
  } else {
    std::snprintf(text, sizeof text, "%.4g", value);
  }
  return text;
}

class Progress {
 public:
  Progress(bool quiet, FILE* to) : to_(to), terminal_(!quiet && isatty(fileno(to)) != 0), quiet_(quiet) {
    winsize size{};
    if (terminal_ && ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 20) columns_ = size.ws_col;
  }
  ~Progress() { clear(); }

  bool terminal() const { return terminal_; }

  // A line that stays.
  void say(const std::string& line) {
    clear();
    if (!quiet_) std::fprintf(to_, "%s\n", line.c_str());
    std::fflush(to_);
  }
  // A line that stays even where --quiet asked for none.
  void warn(const std::string& line) {
    clear();
    std::fprintf(to_, "%s\n", line.c_str());
    std::fflush(to_);
  }

  // `head` bar percentage `keep` `tail`, no longer than the terminal is wide: first the bar goes, then the pieces of `tail`
  // (two blanks part them) from its end on.
  static std::string line(int columns, const std::string& head, double share, const std::string& keep, std::string tail) {
    char percent[16];
    std::snprintf(percent, sizeof percent, "%3.0f%%", 100 * share);
    const auto room = [&] {
      const size_t others = head.size() + keep.size() + tail.size() + (keep.empty() ? 0 : 2) + (tail.empty() ? 0 : 2);
      return columns - static_cast<int>(others) - 6;
    };
    while (room() < 0 && !tail.empty()) {
      const size_t piece = tail.rfind("  ");
      tail.resize(piece == std::string::npos ? 0 : piece);
    }
    std::string text = head + " ";
    if (room() >= 11) text += bar(share, room() < 31 ? room() - 1 : 30) + " ";
    text += percent;
    if (!keep.empty()) text += "  " + keep;
    if (!tail.empty()) text += "  " + tail;
    return text;
  }

  // The line that moves. Elsewhere than on a terminal it comes every ten seconds.
  bool due(double now) const { return !quiet_ && now - last_ >= (terminal_ ? 0.1 : 10); }
  void show(double now, const std::string& head, double share, const std::string& keep, const std::string& tail) {
    last_ = now;
    if (!terminal_) {
      std::fprintf(to_, "%s %3.0f%%  %s  %s\n", head.c_str(), 100 * share, keep.c_str(), tail.c_str());
      return void(std::fflush(to_));
    }
    std::fprintf(to_, "\r\033[K%s", line(columns_, head, share, keep, tail).c_str());
    std::fflush(to_);
    shown_ = true;
  }
  void start(double now) { last_ = now; }

 private:
  static std::string bar(double share, int cells) {
    const int filled = static_cast<int>(share * cells * 2 + 0.5);
    std::string text;
    for (int k = 0; k < cells; ++k)
      text += 2 * k + 2 <= filled ? "\xe2\x94\x81" : 2 * k + 1 <= filled ? "\xe2\x95\xb8" : "\xe2\x94\x80";
    return text;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", to_);
    shown_ = false;
  }

  FILE* to_;
  bool terminal_, quiet_, shown_ = false;
  int columns_ = 80;
  double last_ = 0;
};

}  // namespace metac::train

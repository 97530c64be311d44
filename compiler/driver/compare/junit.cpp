#include "compiler/driver/compare/junit.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// XML 1.0 has no control characters, and bytes that are no UTF-8 end its reader: '?' stands for all that is not plain.
std::string xml_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\n')
      result += "&#10;";
    else
      result += byte < 32 || byte > 126 ? '?' : c;
  }
  return result;
}

}  // namespace

std::string junit_text(const std::vector<CaseResult>& results) {
  const auto count = [&](CaseStatus status) {
    return std::count_if(results.begin(), results.end(), [&](const CaseResult& r) { return r.status == status; });
  };
  const std::string sums = concat("tests=\"", results.size(), "\" failures=\"", count(CaseStatus::failed), "\" skipped=\"",
                                  count(CaseStatus::skipped), "\"");
  std::string text = concat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ", sums,
                            ">\n  <testsuite name=\"metac verify\" ", sums, ">\n");
  for (const CaseResult& r : results) {
    const std::string head =
        concat("    <testcase classname=\"", xml_text(r.op.empty() ? "model" : r.op), "\" name=\"", xml_text(r.path), '"');
    if (r.status == CaseStatus::passed)
      text += head + "/>\n";
    else
      text += concat(head, ">\n      <", r.status == CaseStatus::failed ? "failure" : "skipped", " message=\"",
                     xml_text(r.detail), "\"/>\n    </testcase>\n");
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace metac

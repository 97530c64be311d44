// What Unicode says of code points, by utf8proc (Unicode 15): sets for classes of regular expressions, normal forms.
#pragma once
#include <string>
#include <vector>

#include "runtime/generate/tokenizer/table.h"

namespace metac {

namespace tok = metac_runtime;

using CodeSet = std::vector<tok::TableRange>;  // ascending, no two touch

CodeSet union_of(CodeSet a, const CodeSet& b);
CodeSet complement_of(const CodeSet& set);  // within U+0000 to U+10FFFF
CodeSet intersection_of(const CodeSet& a, const CodeSet& b);
CodeSet white_space();
// A general category ("L", "Lu", "N", "Nd") or a script that patterns name ("Han"). Empty: not known.
CodeSet property_set(const std::string& name);

// Full decompositions, a row for each two code points; compositions, and canonical combining classes.
void normal_form(bool compatible, std::vector<tok::TableDecomposition>* decompositions,
                 std::vector<tok::TableComposition>* compositions, std::vector<tok::TableCombining>* combining);

}  // namespace metac

// Templates are real files under templates/; @name@ stands for a value. No logic.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace metac {

using TemplateValues = std::map<std::string, std::string>;

// The template with every @key@ replaced. A key without a value, or a value that no key asks for in any template of the
// project, is a bug of ours.
std::string fill_template(const std::string& path, const TemplateValues& values);

// Sets values to filled templates: pieces are "VALUE=FILE of templates/project"; to nothing where they are not to be filled.
void fill_pieces(TemplateValues& values, bool filled, const std::vector<std::string>& pieces);

// Model text in generated files.
std::string c_string(const std::string& text);      // a C++ string literal: octal escapes for all but plain characters
std::string comment_text(const std::string& text);  // our own remarks for a // comment: everything unusual becomes '_'
// A name for a comment where it matches [A-Za-z0-9_./:-]{1,80}, else `otherwise`.
std::string comment_name(const std::string& name, const std::string& otherwise);

}  // namespace metac

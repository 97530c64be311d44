// What states and --generate add to a project: to its interface, and a program that continues texts.
#pragma once
#include "compiler/codegen/project.h"
#include "compiler/codegen/text/fill_template.h"

namespace metac {

void fill_states(const ProjectOptions& options, const CompiledProgram& run, TemplateValues& values);
// Behind the states' values, which its templates have. Adds files and a program to the project.
void fill_generation(const ProjectOptions& options, const CompiledProgram& run, TemplateValues& values, Project& project);

}  // namespace metac

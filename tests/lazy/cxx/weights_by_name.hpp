// What the programs of this folder share: Vars out of files by their names, and checks that end the program.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <metac/nn.hpp>
#include <metac/optim.hpp>
#include <string>

inline void expect(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

inline metac::Var named(const metac::NamedVars& vars, const std::string& name) {
  for (const auto& [own, var] : vars)
    if (own == name) return var;
  expect(false, "there is no " + name);
  return {};
}

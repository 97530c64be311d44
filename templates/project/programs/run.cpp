// @name@_run: the model from the command line. What it does is in runtime/run/program.h, for all models the same text.
#include "../include/@name@.h"
#include "runtime/run/library.h"

int main(int count, char** values) { return run_program::run_main(*@name@_model(), count, values); }

// The command line of a library, for all models the same text.
#define METAC_RUNTIME_NAMESPACE run_program
#include "runtime/run/program.h"

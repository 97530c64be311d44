// The generation program of a library, for all models the same text.
#define METAC_RUNTIME_NAMESPACE generate_program
#include "runtime/generate/program/program.h"

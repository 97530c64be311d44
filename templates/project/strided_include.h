#include "runtime/strided.h"

#include "runtime/async_call.h"

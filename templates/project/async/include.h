#include "runtime/caller/async_call.h"

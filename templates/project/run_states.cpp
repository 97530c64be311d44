  if (@name@_state_reset(context) != @NAME@_OK) return false;  // each run by itself, however many there are

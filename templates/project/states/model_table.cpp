  table.states = @NAME@_STATES;
  table.state = @name@_state;
  table.state_reset = Tabled<@name@_state_reset>::call;
  table.state_get = Tabled<@name@_state_get>::call;
  table.state_set = Tabled<@name@_state_set>::call;
  table.state_truncate = Tabled<@name@_state_truncate>::call;
  table.state_fork = [](metac_model_context* context, metac_model_context* from) {
    return @name@_state_fork(reinterpret_cast<@name@_context*>(context), reinterpret_cast<@name@_context*>(from));
  };

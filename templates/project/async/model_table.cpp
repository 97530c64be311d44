  table.run_async = Tabled<@name@_run_async>::call;
  table.wait = Tabled<@name@_wait>::call;
  table.poll = Tabled<@name@_poll>::call;

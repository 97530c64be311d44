  table.run_async = Tabled<@name@_run_async>::call;
  table.from_dlpack = Tabled<@name@_from_dlpack>::call;
  table.to_dlpack = Tabled<@name@_to_dlpack>::call;

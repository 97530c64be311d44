  table.run_strided = Tabled<@name@_run_strided>::call;

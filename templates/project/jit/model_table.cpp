  table.specialised = Tabled<@name@_specialised>::call;

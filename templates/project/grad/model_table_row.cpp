    {"@function@", @NAME@_@FUNCTION@_INPUTS, @NAME@_@FUNCTION@_OUTPUTS, @name@_@function@_input, @name@_@function@_output, Tabled<@name@_@function@>::call},

# find_package(@name@): the libraries @name@::@name@ (shared) and @name@::@name@_static, wherever this folder was moved to.
get_filename_component(_@name@_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_package(Threads REQUIRED)@find_packages@
if(NOT TARGET @name@::@name@)
  add_library(@name@::@name@ SHARED IMPORTED)
  set_target_properties(@name@::@name@ PROPERTIES
    IMPORTED_LOCATION "${_@name@_root}/lib/lib@name@.so.1"
    IMPORTED_SONAME "lib@name@.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_@name@_root}/@include@")
endif()
if(NOT TARGET @name@::@name@_static)
  add_library(@name@::@name@_static STATIC IMPORTED)
  set_target_properties(@name@::@name@_static PROPERTIES
    IMPORTED_LOCATION "${_@name@_root}/lib/lib@name@.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_@name@_root}/@include@"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m;stdc++@static_libraries@")
endif()
# The weights, for programs that link the static library and ship the file themselves.
set(@name@_WEIGHTS "${_@name@_root}/@name@.weights")
if(NOT EXISTS "${@name@_WEIGHTS}")
  set(@name@_WEIGHTS "${_@name@_root}/share/@name@/@name@.weights")
endif()
set(@name@_FOUND TRUE)
unset(_@name@_root)

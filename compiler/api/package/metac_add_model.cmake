# metac_add_model(NAME MODEL net.onnx [TARGET cpu] [SHAPE input=1x3x8x8 ...] [DIM batch=1..64 ...] [OPTIONS ...])
#
# Compiles a model while building, again whenever the model or metac changes, and makes the target NAME::NAME to link:
#
#   find_package(metac REQUIRED)
#   metac_add_model(net MODEL net.onnx)
#   target_link_libraries(app PRIVATE net::net)      # then: #include <net.h> or <net.hpp>
#
# The library is a static one with its weights inside, so that the program stands alone. NAME is a C identifier. SHAPE,
# DIM and OPTIONS are passed to `metac compile` as they are. The output is in ${CMAKE_CURRENT_BINARY_DIR}/NAME.metac.
function(metac_add_model name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODEL;TARGET" "SHAPE;DIM;OPTIONS")
  if(NOT arg_MODEL)
    message(FATAL_ERROR "metac_add_model(${name}): MODEL is missing")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "metac_add_model(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT name MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "metac_add_model(${name}): the name must be a C identifier")
  endif()
  get_filename_component(model "${arg_MODEL}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  set(options ${arg_OPTIONS})
  if(arg_TARGET)
    list(APPEND options --target ${arg_TARGET})
  endif()
  foreach(shape IN LISTS arg_SHAPE)
    list(APPEND options --shape "${shape}")
  endforeach()
  foreach(dim IN LISTS arg_DIM)
    list(APPEND options --dim "${dim}")
  endforeach()

  set(out "${CMAKE_CURRENT_BINARY_DIR}/${name}.metac")
  set(library "${out}/lib/lib${name}.a")
  add_custom_command(
    OUTPUT "${library}"
    BYPRODUCTS "${out}/include/${name}.h" "${out}/include/${name}.hpp"
    COMMAND metac::metac compile "${model}" -o "${out}" --name ${name} --embed-weights ${options}
    COMMAND "${CMAKE_COMMAND}" -E touch "${library}"
    DEPENDS "${model}" metac::metac
    COMMENT "metac compile ${arg_MODEL}"
    VERBATIM)
  add_custom_target(${name}_metac DEPENDS "${library}")

  find_package(Threads REQUIRED)
  file(MAKE_DIRECTORY "${out}/include")  # an interface include directory must exist when configuring
  add_library(${name}::${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name}::${name} PROPERTIES
    IMPORTED_LOCATION "${library}"
    INTERFACE_INCLUDE_DIRECTORIES "${out}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m;stdc++")
  add_dependencies(${name}::${name} ${name}_metac)
endfunction()

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

  # The library is copied out of the folder: Ninja makes the folders of a command's outputs before it runs, and `metac
  # compile` writes into no folder that somebody else made.
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${name}.metac")
  set(library "${CMAKE_CURRENT_BINARY_DIR}/lib${name}.metac.a")
  add_custom_command(
    OUTPUT "${library}"
    COMMAND metac::program compile "${model}" -o "${out}" --name ${name} --embed-weights ${options}
    COMMAND "${CMAKE_COMMAND}" -E copy "${out}/lib/lib${name}.a" "${library}"
    DEPENDS "${model}" metac::program
    COMMENT "metac compile ${arg_MODEL}"
    VERBATIM)
  add_custom_target(${name}_metac DEPENDS "${library}")

  # An interface library and no imported one, whose include folder would have to exist when configuring.
  find_package(Threads REQUIRED)
  add_library(${name}_model INTERFACE)
  target_include_directories(${name}_model INTERFACE "${out}/include")
  target_link_libraries(${name}_model INTERFACE "${library}" Threads::Threads ${CMAKE_DL_LIBS} m stdc++)
  if(arg_TARGET STREQUAL "cuda")
    find_package(CUDAToolkit REQUIRED)
    target_link_libraries(${name}_model INTERFACE CUDA::cudart_static)
  endif()
  add_dependencies(${name}_model ${name}_metac)
  add_library(${name}::${name} ALIAS ${name}_model)
endfunction()

# metac_add_model(NAME MODEL net.onnx [TARGET cpu] [SHAPE input=1x3x8x8 ...] [DIM batch=1..64 ...] [DEPENDS file ...]
#                 [OPTIONS ...])
#
# Compiles a model while building, again whenever the model, metac or what DEPENDS names changes, and makes the target
# NAME::NAME to link. External data that lies beside the model as MODEL.data or MODEL_data (what exporters call it) and a file
# of --tune-from or --train are known to be needed; name others with DEPENDS.
#
#   find_package(metac REQUIRED)
#   metac_add_model(net MODEL net.onnx)
#   target_link_libraries(app PRIVATE net::net)      # then: #include <net.h> or <net.hpp>
#
# The library is a static one with its weights inside, so that the program stands alone. NAME is a C identifier. SHAPE,
# DIM and OPTIONS are passed to `metac compile` as they are. The output is in ${CMAKE_CURRENT_BINARY_DIR}/NAME.metac.
function(metac_add_model name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODEL;TARGET" "SHAPE;DIM;DEPENDS;OPTIONS")
  if(NOT arg_MODEL)
    message(FATAL_ERROR "metac_add_model(${name}): MODEL is missing")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "metac_add_model(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT name MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "metac_add_model(${name}): the name must be a C identifier")
  endif()
  if(TARGET ${name}_model)
    get_target_property(other ${name}_model METAC_MODEL)
    message(FATAL_ERROR "metac_add_model(${name}): there is a model of this name already, of ${other}; give this one another name")
  endif()
  get_filename_component(model "${arg_MODEL}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  get_source_file_property(generated "${model}" GENERATED)  # by another command of the build
  if(NOT EXISTS "${model}" AND NOT generated)
    message(FATAL_ERROR "metac_add_model(${name}): there is no model ${model}")
  endif()
  set(needed "")
  foreach(file "${model}.data" "${model}_data")
    if(EXISTS "${file}")
      list(APPEND needed "${file}")
    endif()
  endforeach()
  set(before "")
  foreach(word IN LISTS arg_DEPENDS arg_OPTIONS)
    if(word IN_LIST arg_DEPENDS OR before MATCHES "^--(tune-from|train)$")
      get_filename_component(file "${word}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
      list(APPEND needed "${file}")
    endif()
    if(word MATCHES "^--(tune-from|train)=(.*)")
      get_filename_component(file "${CMAKE_MATCH_2}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
      list(APPEND needed "${file}")
    endif()
    set(before "${word}")
  endforeach()
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
    DEPENDS "${model}" ${needed} metac::program
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "metac compile ${arg_MODEL}"
    VERBATIM)
  add_custom_target(${name}_metac DEPENDS "${library}")

  # An interface library and no imported one, whose include folder would have to exist when configuring.
  find_package(Threads REQUIRED)
  add_library(${name}_model INTERFACE)
  set_target_properties(${name}_model PROPERTIES METAC_MODEL "${model}")
  target_include_directories(${name}_model INTERFACE "${out}/include")
  target_link_libraries(${name}_model INTERFACE "${library}" Threads::Threads ${CMAKE_DL_LIBS} m stdc++)
  if(arg_TARGET STREQUAL "cuda")
    find_package(CUDAToolkit REQUIRED)
    target_link_libraries(${name}_model INTERFACE CUDA::cudart_static)
  endif()
  add_dependencies(${name}_model ${name}_metac)
  add_library(${name}::${name} ALIAS ${name}_model)
endfunction()

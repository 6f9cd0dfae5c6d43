# What a project that trains its own families calls; this project builds its modrun with the same functions.

# modular_generate(<target> FAMILIES <family>… [ROOT <dir>] [OUTPUT_DIR <dir>])
#   Generates <dir>/modular/<family>.h of each family when its spec, or one that ships with modgen, changed. <target> carries the include
#   folder, for programs that include "generated/<family>.h". ROOT is the calling folder by default. OUTPUT_DIR, a folder named "generated",
#   lies in the build folder by default; name one in the source tree to commit what is generated, as modcheck expects it.
function(modular_generate target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ROOT;OUTPUT_DIR" "FAMILIES")
  if(NOT arg_FAMILIES)
    message(FATAL_ERROR "modular_generate(${target}): name the families to generate: FAMILIES <family>…")
  endif()
  if(NOT arg_ROOT)
    set(arg_ROOT ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  if(NOT arg_OUTPUT_DIR)
    set(arg_OUTPUT_DIR ${CMAKE_CURRENT_BINARY_DIR}/modular/generated)
  endif()
  cmake_path(ABSOLUTE_PATH arg_ROOT NORMALIZE)
  cmake_path(ABSOLUTE_PATH arg_OUTPUT_DIR BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  cmake_path(GET arg_OUTPUT_DIR FILENAME folder_name)
  if(NOT folder_name STREQUAL "generated")
    message(FATAL_ERROR "modular_generate(${target}): OUTPUT_DIR ${arg_OUTPUT_DIR} must be named generated, as programs include it")
  endif()

  set(headers)
  foreach(family ${arg_FAMILIES})
    if(NOT EXISTS ${arg_ROOT}/modular/${family}.h)
      message(FATAL_ERROR "modular_generate(${target}): there is no spec ${arg_ROOT}/modular/${family}.h")
    endif()
    list(APPEND headers ${arg_OUTPUT_DIR}/${family}.h)
  endforeach()
  # A family may derive from any other: modgen itself finds in milliseconds which of them a change concerns.
  file(GLOB specs CONFIGURE_DEPENDS ${arg_ROOT}/modular/*.h)
  file(GLOB shipped CONFIGURE_DEPENDS ${MODULAR_SHIPPED_DIR}/modular/*.h ${MODULAR_SHIPPED_DIR}/runtime/model/*.h)
  set(stamp ${CMAKE_CURRENT_BINARY_DIR}/modular/${target}.stamp)
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/modular)
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${headers}
    COMMAND modular::modgen --root ${arg_ROOT} --output-dir ${arg_OUTPUT_DIR} --shipped ${MODULAR_SHIPPED_DIR}
            --torch ${MODULAR_TORCH_DIR} ${arg_FAMILIES}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${specs} ${shipped} modular::modgen
    COMMENT "modgen ${arg_FAMILIES}"
    VERBATIM)
  add_custom_target(${target}_files DEPENDS ${stamp})
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_files)
  cmake_path(GET arg_OUTPUT_DIR PARENT_PATH include_folder)
  target_include_directories(${target} INTERFACE ${include_folder})
  target_link_libraries(${target} INTERFACE modular::model)
endfunction()

# modular_executable(<name> FAMILIES <family>… [LIBRARIES <target>…])
#   A modrun that trains these families. Each is compiled in a file of its own, so that a changed spec compiles one model; the object library
#   <name>_families holds them for other programs too. LIBRARIES names the targets of modular_generate that hold those families that do not
#   ship with modular.
function(modular_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FAMILIES;LIBRARIES")
  if(NOT arg_FAMILIES)
    message(FATAL_ERROR "modular_executable(${name}): name the families to train: FAMILIES <family>…")
  endif()
  set(sources)
  foreach(family ${arg_FAMILIES})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_families/${family}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Registers the family's entries.\n#include \"generated/${family}.h\"\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(${name}_families OBJECT ${sources})
  target_link_libraries(${name}_families PRIVATE ${arg_LIBRARIES} modular::model)
  foreach(library ${arg_LIBRARIES})
    if(TARGET ${library}_files)
      add_dependencies(${name}_families ${library}_files)
    endif()
  endforeach()
  if(TARGET modular_pch)
    target_precompile_headers(${name}_families REUSE_FROM modular_pch)
  endif()
  add_executable(${name} $<TARGET_OBJECTS:${name}_families>)
  target_link_libraries(${name} PRIVATE modular::modrun)
  if(TARGET modular_cuda)
    add_dependencies(${name} modular_cuda)  # loaded at run time
  endif()
endfunction()

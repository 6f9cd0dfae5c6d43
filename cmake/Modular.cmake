# Functions for projects that train their own families; this project builds its modrun with them too.

# modular_generate(<target> FAMILIES <family>… [ROOT <dir>] [OUTPUT_DIR <dir>])
#   Generates <dir>/modular/<family>.h of each family when its spec, or a spec that ships with modgen, changes. <target> carries the include
#   folder, for programs that include "generated/<family>.h"; modular_executable and modular_parity_test find it by the family. ROOT defaults
#   to the calling folder. OUTPUT_DIR must be named "generated" and defaults to a folder in the build folder; name one in the source
#   tree to commit the generated files, as modcheck expects.
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
    message(FATAL_ERROR "modular_generate(${target}): OUTPUT_DIR ${arg_OUTPUT_DIR} must be named generated: programs include generated/<family>.h")
  endif()

  set(headers)
  foreach(family ${arg_FAMILIES})
    if(NOT EXISTS ${arg_ROOT}/modular/${family}.h)
      message(FATAL_ERROR "modular_generate(${target}): ${arg_ROOT}/modular/${family}.h does not exist: add the spec, or fix FAMILIES or ROOT")
    endif()
    list(APPEND headers ${arg_OUTPUT_DIR}/${family}.h)
  endforeach()
  # A family may derive from any other; modgen finds out in milliseconds which families a change affects.
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
  foreach(family ${arg_FAMILIES})
    set_property(GLOBAL APPEND PROPERTY MODULAR_GENERATED_${family} ${target})
  endforeach()
  cmake_path(GET arg_OUTPUT_DIR PARENT_PATH include_folder)
  target_include_directories(${target} INTERFACE ${include_folder})
  target_link_libraries(${target} INTERFACE modular::model)
endfunction()

# modular_precompiled_header(<name> [HEADERS <header>…] [OPTIONS <option>…] [LIBRARIES <target>…])
#   Defines a precompiled header of libtorch and these headers, compiled with the flags of the calling folder and these options.
function(modular_precompiled_header name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;OPTIONS;LIBRARIES")
  add_library(${name} OBJECT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/pch.cc)
  target_precompile_headers(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/pch.h ${arg_HEADERS})
  target_link_libraries(${name} PUBLIC modular::torch ${arg_LIBRARIES})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
endfunction()

# modular_precompile(<target>…)
#   Makes targets share one precompiled header of libtorch, with which a file compiles in half of the time. It is built with the flags of the
#   first folder that calls this; a folder with other flags sets MODULAR_PCH to the name of its own.
function(modular_precompile)
  set(pch modular_pch)
  if(DEFINED MODULAR_PCH)
    set(pch ${MODULAR_PCH})
  endif()
  if(NOT TARGET ${pch})
    modular_precompiled_header(${pch})
  endif()
  foreach(target ${ARGV})
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endforeach()
endfunction()

# A model's file only calls libtorch and our kernels in order: more optimization makes it slower to compile and no faster to run.
set(MODULAR_FAMILY_OPTIMIZATION -O1 CACHE STRING "How far a release build optimizes models")

# modular_family_objects(<result> FAMILIES <family>… [LIBRARIES <target>…])
#   Sets <result> to the objects that register these families. Each family is compiled from a file of its own, once for all programs of the
#   project, so that a change of a spec recompiles one model.
function(modular_family_objects result)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FAMILIES;LIBRARIES")
  set(optimization $<$<CONFIG:Release>:${MODULAR_FAMILY_OPTIMIZATION}>)
  set(pch modular_family_pch)
  if(DEFINED MODULAR_PCH)  # a folder with other flags
    set(pch ${MODULAR_PCH}_of_families)
  endif()
  set(objects)
  foreach(family ${arg_FAMILIES})
    set(target modular_family_${family})
    if(NOT TARGET ${target})
      set(source ${CMAKE_CURRENT_BINARY_DIR}/modular/families/${family}.cc)
      file(CONFIGURE OUTPUT ${source} CONTENT "// Registers the family's entries.\n#include \"generated/${family}.h\"\n")
      add_library(${target} OBJECT ${source})
      get_property(generated GLOBAL PROPERTY MODULAR_GENERATED_${family})
      set(libraries ${arg_LIBRARIES} ${generated})
      list(REMOVE_DUPLICATES libraries)
      target_link_libraries(${target} PRIVATE ${libraries} modular::model)
      target_compile_options(${target} PRIVATE ${optimization})
      foreach(library ${libraries})
        if(TARGET ${library}_files)
          add_dependencies(${target} ${library}_files)
        endif()
      endforeach()
      if(NOT TARGET ${pch})
        modular_precompiled_header(${pch} HEADERS [["runtime/model/model.h"]] OPTIONS ${optimization} LIBRARIES modular::model)
      endif()
      target_precompile_headers(${target} REUSE_FROM ${pch})
    endif()
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# modular_executable(<name> FAMILIES <family>… [LIBRARIES <target>…])
#   Builds a modrun that trains these families: those that ship with modular and those of modular_generate targets. LIBRARIES selects
#   the target if several generate the same family.
function(modular_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FAMILIES;LIBRARIES")
  if(NOT arg_FAMILIES)
    message(FATAL_ERROR "modular_executable(${name}): name the families to train: FAMILIES <family>…")
  endif()
  modular_family_objects(objects FAMILIES ${arg_FAMILIES} LIBRARIES ${arg_LIBRARIES})
  add_executable(${name} ${objects})
  target_link_libraries(${name} PRIVATE modular::modrun)
  # CMake's default RPATH for installed programs omits libraries in the source tree, such as those in .venv.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH ${MODULAR_TORCH_DIR}/lib)
  if(TARGET modular_cuda)
    add_dependencies(${name} modular_cuda)  # loaded at run time
  endif()
endfunction()

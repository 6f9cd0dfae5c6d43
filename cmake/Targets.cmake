# torch ships fmt's headers but not its library.
add_library(modular_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt.cc)
target_include_directories(modular_fmt SYSTEM PRIVATE ${MODULAR_TORCH_DIR}/include)
target_link_libraries(modular::torch INTERFACE modular_fmt)
set_target_properties(modular_fmt PROPERTIES EXPORT_NAME fmt)
set_property(GLOBAL PROPERTY MODULAR_LIBRARIES modular_fmt)

# Compiles programs with the flags of the libraries: g++ uses a precompiled header only with the flags that it was built with.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})

# Adds the library modular_<part> to the installed package as modular::<part>, and defines that alias in this tree too.
function(modular_installed_library name)
  string(REGEX REPLACE "^modular_" "" part ${name})
  add_library(modular::${part} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${part})
  set_property(GLOBAL APPEND PROPERTY MODULAR_LIBRARIES ${name})
endfunction()

# modular_library(modular_<part> SOURCES … [DEPENDS …]) defines a static library of the runtime, installed as modular::<part>. All of these
# libraries share one precompiled header of libtorch.
modular_precompile()
function(modular_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/modular>)
  target_link_libraries(${name} PUBLIC modular::torch ${arg_DEPENDS})
  modular_precompile(${name})
  modular_installed_library(${name})
endfunction()

# modular_python_program(name) writes name.py as a string literal to name.inc in this folder, so that installed programs do not need the file.
function(modular_python_program name)
  file(READ ${name}.py program)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${folder}/${name}.inc CONTENT "R\"python(@program@)python\"" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${name}.py)
endfunction()

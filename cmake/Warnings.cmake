# Warnings, and sanitizers, for everything in the tree.
option(MODULAR_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
set(MODULAR_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them")

# Compilers also warn of designated initializers that leave the rest to the members' defaults, as option structs are for.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # The second: what std::stable_sort of g++ 12's library uses.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-designated-field-initializers>
                      $<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
if(MODULAR_WARNINGS_AS_ERRORS)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(MODULAR_SANITIZE)
  # The libraries of torch and Clang are not instrumented: what crosses into them must not be mistaken for an error (CMakePresets.json sets
  # ASAN_OPTIONS so).
  # No -g for torch's templates: with it a debug object is ten times as large and the machine swaps.
  add_compile_options(-fsanitize=${MODULAR_SANITIZE} -fno-sanitize-recover=all -fno-sanitize=vptr -fno-omit-frame-pointer -g1 -O1)
  add_link_options(-fsanitize=${MODULAR_SANITIZE})
endif()

# Warnings, sanitizers and coverage for the full tree.
option(MODULAR_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
option(MODULAR_COVERAGE "Record which lines run (scripts/coverage)" OFF)
set(MODULAR_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them")

# Option structs are initialized by designated initializers that leave the rest to default member initializers; silence the warnings about that.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # The second one is for std::stable_sort in g++ 12's library, which uses a deprecated function.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-designated-field-initializers>
                      $<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
if(MODULAR_WARNINGS_AS_ERRORS)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(MODULAR_SANITIZE)
  # The libraries of torch and Clang are not instrumented, so checks of data that crosses into them would report false errors
  # (CMakePresets.json sets ASAN_OPTIONS accordingly).
  # -g1, not -g, because torch's templates would make debug objects ten times as large and the machine swap.
  add_compile_options(-fsanitize=${MODULAR_SANITIZE} -fno-sanitize-recover=all -fno-sanitize=vptr -fno-omit-frame-pointer -g1 -O1)
  add_link_options(-fsanitize=${MODULAR_SANITIZE})
endif()
if(MODULAR_COVERAGE)
  # Relocated counters are written while a process runs, so that one that is killed is counted too.
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping "SHELL:-mllvm -runtime-counter-relocation")
  add_link_options(-fprofile-instr-generate)
endif()

# Finds LLVM and Clang 19 and defines modular::clang (the shared libclang-cpp and libLLVM). Uses llvm-config instead of the CMake packages,
# which pick up the static libraries of another release if two are installed.
find_program(LLVM_CONFIG NAMES llvm-config-19 llvm-config HINTS /usr/lib/llvm-19/bin)
if(NOT LLVM_CONFIG)
  message(FATAL_ERROR "modgen needs LLVM and Clang 19: run scripts/setup, or configure with -DMODULAR_GENERATOR=OFF")
endif()
execute_process(COMMAND ${LLVM_CONFIG} --version OUTPUT_VARIABLE MODULAR_LLVM_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --includedir OUTPUT_VARIABLE llvm_include OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --libdir OUTPUT_VARIABLE llvm_libraries OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT MODULAR_LLVM_VERSION MATCHES "^19\\.")
  message(FATAL_ERROR "modgen needs LLVM 19, found ${MODULAR_LLVM_VERSION} by ${LLVM_CONFIG}")
endif()
file(REAL_PATH ${llvm_libraries}/libclang-cpp.so MODULAR_CLANG_LIBRARY)
file(REAL_PATH ${llvm_libraries}/libLLVM.so MODULAR_LLVM_LIBRARY)

add_library(modular_clang INTERFACE)
add_library(modular::clang ALIAS modular_clang)
target_include_directories(modular_clang SYSTEM INTERFACE ${llvm_include})
# With inlining, g++ 12 emits false warnings for Clang's lazy pointers and std::string's operator+.
target_compile_options(modular_clang INTERFACE -fno-rtti
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-nonnull> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
target_link_libraries(modular_clang INTERFACE ${MODULAR_CLANG_LIBRARY} ${MODULAR_LLVM_LIBRARY})
file(REAL_PATH ${llvm_libraries}/clang/19 MODULAR_CLANG_RESOURCE_DIR)

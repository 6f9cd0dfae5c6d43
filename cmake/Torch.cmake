# Finds libtorch in a Python installation of torch and defines
#   modular::torch  the CPU part of libtorch: headers, libtorch_cpu and libc10
# The installed package includes this file too.
# It does not use find_package(Torch), because without a CUDA toolkit the wheel's package file stops with an error.
set(MODULAR_TORCH_DIR "$ENV{MODULAR_TORCH_DIR}" CACHE PATH
    "Folder of an installed torch (the one that holds include/ and lib/); from the environment variable of this name by default")

if(NOT MODULAR_TORCH_DIR)
  foreach(python ${PROJECT_SOURCE_DIR}/.venv/bin/python3 $ENV{VIRTUAL_ENV}/bin/python3 python3)
    execute_process(COMMAND ${python} -c "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
                    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND EXISTS "${found}/lib/libtorch_cpu.so")
      set(MODULAR_TORCH_DIR ${found} CACHE PATH "" FORCE)
      break()
    endif()
  endforeach()
endif()
if(NOT EXISTS "${MODULAR_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "No torch found: run scripts/setup, or set -DMODULAR_TORCH_DIR=<site-packages>/torch")
endif()
file(STRINGS ${MODULAR_TORCH_DIR}/version.py torch_version REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = '([0-9.]+).*" "\\1" MODULAR_TORCH_VERSION "${torch_version}")
message(STATUS "torch ${MODULAR_TORCH_VERSION}: ${MODULAR_TORCH_DIR}")

add_library(modular::torch INTERFACE IMPORTED GLOBAL)
target_include_directories(modular::torch SYSTEM INTERFACE
  ${MODULAR_TORCH_DIR}/include ${MODULAR_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(modular::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_compile_features(modular::torch INTERFACE cxx_std_20)
# libtorch is compiled by g++. Clang mangles constrained templates like g++ only with its ABI from before version 18.
target_compile_options(modular::torch INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fclang-abi-compat=17>)
target_link_libraries(modular::torch INTERFACE ${MODULAR_TORCH_DIR}/lib/libtorch_cpu.so ${MODULAR_TORCH_DIR}/lib/libc10.so)
# libtorch_cpu finds its CUDA runtime at load time; the linker does not have to resolve it.
target_link_options(modular::torch INTERFACE -Wl,--unresolved-symbols=ignore-in-shared-libs)

# Uses the fastest installed linker unless one was chosen: lld links modrun in a quarter of GNU ld's time.
if(NOT CMAKE_LINKER_TYPE AND NOT "${CMAKE_EXE_LINKER_FLAGS} $ENV{LDFLAGS}" MATCHES "-fuse-ld=")
  include(CheckLinkerFlag)
  foreach(linker mold lld)
    check_linker_flag(CXX -fuse-ld=${linker} MODULAR_HAS_LINKER_${linker})
    if(MODULAR_HAS_LINKER_${linker})
      target_link_options(modular::torch INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()

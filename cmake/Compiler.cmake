# Prefers Clang 19 if it is installed, as it is wherever modgen is built, unless $CXX or -DCMAKE_CXX_COMPILER names a compiler: it compiles
# libtorch's headers in half of g++'s time. Both use the C++ library and ABI that libtorch was built with.
if(NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(MODULAR_CLANGXX_19 clang++-19)
  mark_as_advanced(MODULAR_CLANGXX_19)
  if(MODULAR_CLANGXX_19)
    set(CMAKE_CXX_COMPILER ${MODULAR_CLANGXX_19})
  endif()
endif()

# Uses ccache when it is installed. The sloppiness is what its manual asks for with precompiled headers.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(modular_ccache ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                     CCACHE_MAXSIZE=8G CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${modular_ccache})
endif()

# Compiler settings shared by every target: C++20, warnings as errors, sanitizers on request.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

add_library(dualpath_options INTERFACE)
target_include_directories(dualpath_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
# GCC 12 reports false positives of these two inside the standard library at -O2.
target_compile_options(dualpath_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Werror
                                                  -Wno-restrict -Wno-maybe-uninitialized>)
if(DUALPATH_SANITIZE)
  target_compile_options(dualpath_options INTERFACE -fsanitize=${DUALPATH_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(dualpath_options INTERFACE -fsanitize=${DUALPATH_SANITIZE})
  if(DUALPATH_SANITIZE MATCHES "undefined")
    # The headers of CAF bind references to null.
    target_compile_options(dualpath_options INTERFACE -fno-sanitize=null)
  endif()
  if(DUALPATH_SANITIZE MATCHES "thread")
    # ThreadSanitizer does not see fences. The one there is orders bytes for other processes, which it does not see either.
    target_compile_options(dualpath_options INTERFACE -Wno-tsan)
  endif()
endif()
find_package(Threads REQUIRED)
target_link_libraries(dualpath_options INTERFACE Threads::Threads)

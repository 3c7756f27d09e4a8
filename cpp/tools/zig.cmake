# Cross-compiles with zig, which brings clang, libc++ and the C libraries of other systems; scripts/check_portable.py uses it.
#   pip install ziglang
#   cmake -S . -B build/x -G Ninja --toolchain cpp/tools/zig.cmake -DHUSHVEC_ZIG=<path of zig> -DHUSHVEC_TARGET=aarch64-macos
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HUSHVEC_ZIG HUSHVEC_TARGET)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${HUSHVEC_TARGET}")
# musl as a shared library: zig would otherwise compile all of it first. Its loader is Debian's package musl.
set(target "${HUSHVEC_TARGET}")
set(optimized -O1)
if(HUSHVEC_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
elseif(HUSHVEC_TARGET MATCHES "wasi")
  set(CMAKE_SYSTEM_NAME WASI)
  string(APPEND target " -mcpu=generic+simd128")   # what every browser has had since 2023
  set(optimized -Os)   # the module is downloaded; its loops have options of their own
elseif(HUSHVEC_TARGET MATCHES "windows")
  set(CMAKE_SYSTEM_NAME Windows)
  set(CMAKE_CROSSCOMPILING_EMULATOR wine)
else()
  set(CMAKE_SYSTEM_NAME Linux)
  if(HUSHVEC_TARGET MATCHES "musl")
    string(APPEND target " -dynamic")
  endif()
endif()
# CMake takes one program for each tool. zig's linker crashes on a bundle of macOS, which differs from a shared library in its header.
function(hushvec_zig_tool name arguments)
  set(script "${CMAKE_BINARY_DIR}/zig/${name}")
  file(WRITE ${script} "#!/bin/sh\nfor option; do\n  shift\n  test \"$option\" != -bundle || option=-shared\n  set -- \"$@\" \"$option\"\ndone\n"
       "exec '${HUSHVEC_ZIG}' ${arguments} \"$@\"\n")
  file(CHMOD ${script} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()
hushvec_zig_tool(c++ "c++ -target ${target} ${optimized}")   # asked from the first call on: zig makes its libraries for each way to optimize
hushvec_zig_tool(ar ar)
hushvec_zig_tool(ranlib ranlib)
set(CMAKE_CXX_COMPILER "${CMAKE_BINARY_DIR}/zig/c++")
set(CMAKE_AR "${CMAKE_BINARY_DIR}/zig/ar")
set(CMAKE_RANLIB "${CMAKE_BINARY_DIR}/zig/ranlib")

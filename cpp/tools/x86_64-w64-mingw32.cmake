# Cross-compiles for 64-bit Windows with Debian's mingw-w64, and lets ctest run the programs under Wine.
#   apt-get install g++-mingw-w64-x86-64-posix wine64
# Debian's GCC 12 spills vectors with unaligned moves, which plain GCC does not (its bug 54412: the stack of Windows is aligned to 16 bytes).
# Its std::fma rounds twice (27 % of random products and sums differ under Wine), on which calibration relies, and test_products and
# test_aes_memory fail: for trying out, not for packages.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)      # no libraries of the compiler beside the program
set(CMAKE_MODULE_LINKER_FLAGS_INIT -static)
set(CMAKE_CROSSCOMPILING_EMULATOR wine)

// The whole test framework: count, name what failed, close with 'N passed, N failed'.
#pragma once

#include <cstdio>
#include <string>

namespace hushvec::test {

inline int passed = 0;
inline int failed = 0;

inline void check(bool condition, const std::string& what) {
    (condition ? passed : failed) += 1;
    if (!condition) std::printf("FAILED: %s\n", what.c_str());
}

// The exit code of the program.
inline int summary() {
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

}  // namespace hushvec::test

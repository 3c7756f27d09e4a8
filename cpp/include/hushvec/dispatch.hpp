// Which instruction sets this library was compiled with, which this machine has, and which one is in use.
#pragma once

#include <string>
#include <vector>

namespace hushvec {

std::vector<std::string> compiled_backends();    // widest first
std::vector<std::string> available_backends();   // those this machine can run
std::string active_backend();

// Environment variable that forces one: portable, avx2, avx512 or neon. Read once, at first use.
inline constexpr const char* kBackendVariable = "HUSHVEC_BACKEND";

// Throws std::invalid_argument if the variable names a backend that is unknown or that this machine lacks.
void check_backend_variable();

}  // namespace hushvec

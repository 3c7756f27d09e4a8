// Which instruction sets this library was compiled with, which this machine has, and which one is in use.
#pragma once

#include <string>
#include <vector>

#include "hushvec/keystream.hpp"

namespace hushvec {

std::vector<std::string> compiled_backends();    // widest first
std::vector<std::string> available_backends();   // those this machine can run
std::string active_backend();

// The same for AES-256, whose implementation is chosen by itself: all give the same words.
std::vector<std::string> compiled_aes();
std::vector<std::string> available_aes();
std::string active_aes_name();

// Of a generator that is keyed by the operating system: AES-256 where the processor has instructions for it, else ChaCha20.
Cipher default_cipher();

// Environment variables that force one: portable, avx2, avx512 or neon; portable, aesni, vaes256, vaes512 or neon. Read once, at first use.
inline constexpr const char* kBackendVariable = "HUSHVEC_BACKEND";
inline constexpr const char* kAesVariable = "HUSHVEC_AES";

// Throws std::invalid_argument if one of the variables names something that is unknown or that this machine lacks.
void check_backend_variables();

}  // namespace hushvec

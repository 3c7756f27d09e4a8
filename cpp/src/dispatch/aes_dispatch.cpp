#include "dispatch/aes_dispatch.hpp"

#include "dispatch/choice.hpp"
#include "dispatch/cpu_features.hpp"
#include "hushvec/dispatch.hpp"

namespace hushvec {
namespace {

const Choice<AesKernels>& implementations() {
    static const Choice<AesKernels> all(kAesVariable, {
#if defined(__x86_64__)
                                                          {kAesVaes512, [] { return has_vaes() && has_avx512(); }},
                                                          {kAesVaes256, has_vaes},
                                                          {kAesNi, has_aes_ni},
#elif defined(__aarch64__)
                                                          {kAesNeon, has_neon_aes},
#endif
                                                          {kAesPortable, always},
                                                      });
    return all;
}

}  // namespace

const AesKernels& active_aes() {
    static const AesKernels& chosen = implementations().best();
    return chosen;
}

const AesKernels& aes_by_name(std::string_view name) { return implementations().by_name(name); }

std::vector<std::string> compiled_aes() { return implementations().compiled(); }
std::vector<std::string> available_aes() { return implementations().available(); }
std::string active_aes_name() { return active_aes().name; }

Cipher default_cipher() { return &active_aes() == &kAesPortable ? Cipher::chacha20 : Cipher::aes256; }

}  // namespace hushvec

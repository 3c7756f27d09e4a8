#include "dispatch/dispatch.hpp"

#include "dispatch/aes_dispatch.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/cpu_features.hpp"
#include "hushvec/dispatch.hpp"

namespace hushvec {
namespace {

// Widest first.
const Choice<Backend>& backends() {
    static const Choice<Backend> all(kBackendVariable, {
#if defined(__x86_64__)
                                                           {kAvx512Backend, has_avx512},
                                                           {kAvx2Backend, has_avx2},
#elif defined(__aarch64__)
                                                           {kNeonBackend, always},
#endif
                                                           {kPortableBackend, always},
                                                       });
    return all;
}

}  // namespace

std::vector<std::string> compiled_backends() { return backends().compiled(); }
std::vector<std::string> available_backends() { return backends().available(); }
std::string active_backend() { return active_kernels().name; }

const Kernels& active_kernels() {
    static const Kernels& chosen = backends().best();
    return chosen;
}

const Kernels& kernels_by_name(std::string_view name) { return backends().by_name(name); }
const WordKernels& word_kernels_by_name(std::string_view name) { return backends().by_name(name).on_words; }

void check_backend_variables() {
    active_kernels();
    active_aes();
}

}  // namespace hushvec

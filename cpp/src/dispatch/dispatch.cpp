#include "dispatch/dispatch.hpp"

#include "dispatch/aes_dispatch.hpp"
#include "dispatch/choice.hpp"
#include "dispatch/cpu_features.hpp"
#include "hushvec/dispatch.hpp"

namespace hushvec {
namespace {

// Widest first.
const Choice<Kernels>& backends() {
    static const Choice<Kernels> all(kBackendVariable, {
#if defined(__x86_64__)
                                                           {kAvx512Kernels, has_avx512},
                                                           {kAvx2Kernels, has_avx2},
#elif defined(__aarch64__)
                                                           {kNeonKernels, always},
#endif
                                                           {kPortableKernels, always},
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

void check_backend_variables() {
    active_kernels();
    active_aes();
}

}  // namespace hushvec

#include "dispatch/dispatch.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <stdexcept>

#include "hushvec/dispatch.hpp"

namespace hushvec {
namespace {

struct Backend {
    const Kernels& kernels;
    bool (*runs_here)();
};

#if defined(__x86_64__)
bool has_f16c() {   // Clang 14 rejects the name in __builtin_cpu_supports
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif
bool always() { return true; }

// Widest first: the first that runs here is used.
const std::vector<Backend>& backends() {
    static const std::vector<Backend> list = {
#if defined(__x86_64__)
        {kAvx512Kernels, has_avx512},
        {kAvx2Kernels, has_avx2},
#elif defined(__aarch64__)
        {kNeonKernels, always},
#endif
        {kPortableKernels, always},
    };
    return list;
}

std::string join(const std::vector<std::string>& names) {
    std::string joined;
    for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
    return joined;
}

const Kernels& choose() {
    const char* forced = std::getenv(kBackendVariable);
    if (forced != nullptr && *forced != '\0') return kernels_by_name(forced);
    for (const Backend& backend : backends()) {
        if (backend.runs_here()) return backend.kernels;
    }
    return kPortableKernels;
}

}  // namespace

std::vector<std::string> compiled_backends() {
    std::vector<std::string> names;
    for (const Backend& backend : backends()) names.emplace_back(backend.kernels.name);
    return names;
}

std::vector<std::string> available_backends() {
    std::vector<std::string> names;
    for (const Backend& backend : backends()) {
        if (backend.runs_here()) names.emplace_back(backend.kernels.name);
    }
    return names;
}

std::string active_backend() { return active_kernels().name; }

const Kernels& active_kernels() {
    static const Kernels& chosen = choose();
    return chosen;
}

const Kernels& kernels_by_name(std::string_view name) {
    for (const Backend& backend : backends()) {
        if (name == backend.kernels.name && backend.runs_here()) return backend.kernels;
    }
    throw std::invalid_argument(std::string(kBackendVariable) + " must be one of " + join(available_backends()) + " on this machine, got " +
                                std::string(name));
}

void check_backend_variable() { active_kernels(); }

}  // namespace hushvec

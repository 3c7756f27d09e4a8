// Calls that XLA programs make without Python: clip, clip_and_noise and noisy sums of clipped rows for hushvec.integrations.jax.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bindings.hpp"
#include "hushvec/clip.hpp"
#include "hushvec/clipped_sum.hpp"
#include "hushvec/generator.hpp"
#include "law_argument.hpp"
#include "noise_source.hpp"
#include "xla_call.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

// Generators by the names that programs hold. A program may be kept on disk and run by another process, where an address would name
// anything: a name is random, so it is found by the process that gave it and by no other. What was named stays: a compiled program
// does not say when it is gone.
class NamedGenerators {
public:
    void add(const std::string& name, const std::shared_ptr<Generator>& generator) {
        const std::lock_guard lock(mutex_);
        generators_.emplace(name, generator);
    }

    Generator& find(std::string_view name) {
        const std::lock_guard lock(mutex_);
        const auto found = generators_.find(name);
        if (found != generators_.end()) return *found->second;
        throw std::runtime_error("generator must be of the process that runs the program, got one of another process: trace the function again");
    }

private:
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Generator>, std::less<>> generators_;
};

NamedGenerators& named_generators() {
    static NamedGenerators generators;
    return generators;
}

// Without a name: the generator of the process that runs the program.
Generator& generator_named(std::string_view name) { return name.empty() ? *default_generator() : named_generators().find(name); }

xla::Error* clip_handler(xla::Call* call) {
    return xla::handle(*call, [](const xla::Call& made) {
        const xla::RowsOfCall rows(made);
        clip(rows.x, xla::number(made, "clip_norm"), rows.out, Output::fresh);
    });
}

xla::Error* clip_and_noise_handler(xla::Call* call) {
    return xla::handle(*call, [](const xla::Call& made) {
        const xla::RowsOfCall rows(made);
        const double clip_norm = xla::number(made, "clip_norm"), noise = xla::number(made, "noise");
        const Law law = law_named(xla::text(made, "law"));
        const bool exact = xla::flag(made, "exact");
        const WipedStream stream = generator_named(xla::text(made, "generator")).reserve();
        clip_and_noise(stream, rows.x, clip_norm, noise, law, exact, rows.out, Output::fresh);
    });
}

// Exact sums of rows in parts, clipped by their common norm; each part draws from its own nonce, in their order. No rows: noise alone.
xla::Error* noisy_sums_handler(xla::Call* call) {
    return xla::handle(*call, [](const xla::Call& made) {
        const xla::PartsOfCall of(made);
        const std::size_t rows = of.parts.front().rows;
        ClippedSum sum(of.columns, xla::number(made, "clip_norm"), xla::number(made, "sigma"), std::max(rows, std::size_t{1}), Clipping::exact);
        Generator& generator = generator_named(xla::text(made, "generator"));
        if (rows > 0) sum.add(of.parts);
        for (std::size_t part = 0; part < of.parts.size(); ++part) {
            float* const out = reinterpret_cast<float*>(of.sums[part].data);
            if (sum.has_noise()) {
                const WipedStream stream = generator.reserve();
                sum.release(part, stream, out);
            } else {
                sum.release(part, KeyStream{}, out);
            }
        }
    });
}

py::capsule handler_capsule(xla::Handler& handler) { return py::capsule(reinterpret_cast<void*>(&handler)); }

}  // namespace

void bind_xla(py::module_& module) {
    define(module, "xla_handlers", [] {
        py::dict handlers;
        handlers["hushvec_clip"] = handler_capsule(clip_handler);
        handlers["hushvec_clip_and_noise"] = handler_capsule(clip_and_noise_handler);
        handlers["hushvec_noisy_sums"] = handler_capsule(noisy_sums_handler);
        return handlers;
    });
    define(module, "name_generator", [](const std::string& name, const std::shared_ptr<Generator>& generator) {
        named_generators().add(name, generator);
    }, py::arg("name"), py::arg("generator"));
}

}  // namespace hushvec::python

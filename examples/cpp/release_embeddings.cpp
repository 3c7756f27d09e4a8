// Clips rows of float32 to unit length and adds Gaussian noise that gives each row (epsilon, delta)-DP, in place.
#include <hushvec/calibrate.hpp>
#include <hushvec/clip.hpp>
#include <hushvec/dispatch.hpp>
#include <hushvec/float_modes.hpp>
#include <hushvec/generator.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

namespace {

constexpr std::size_t kRows = 1000, kColumns = 384;
constexpr double kClipNorm = 1.0, kEpsilon = 8.0, kDelta = 1e-6;
constexpr double kSensitivity = 2 * kClipNorm;   // one row is replaced by any other of norm <= kClipNorm

hushvec::MatrixView view_of(std::vector<float>& values) {
    return {.data = reinterpret_cast<std::byte*>(values.data()),
            .dtype = hushvec::DType::float32,
            .rows = kRows,
            .columns = kColumns,
            .row_stride = kColumns * sizeof(float),
            .column_stride = sizeof(float)};
}

void release() {
    const hushvec::FloatModes modes;   // results are computed in the default floating-point modes
    std::vector<float> rows(kRows * kColumns, 0.25F);   // stand-ins for embeddings, of norm 4.9

    hushvec::Generator generator;   // AES-256 where the processor has instructions for it, else ChaCha20; its key is from the operating system
    const double sigma = hushvec::gaussian_sigma(kEpsilon, kDelta, kSensitivity);
    const hushvec::WipedStream stream = generator.reserve();   // every call needs its own stream
    const hushvec::MatrixView view = view_of(rows);
    const float grid = hushvec::clip_and_noise(stream, view, kClipNorm, sigma, hushvec::Law::gaussian, true, view);

    const double clipped = kClipNorm / std::sqrt(static_cast<double>(kColumns));   // what is left of each 0.25
    double squares = 0;
    for (const float value : rows) squares += (value - clipped) * (value - clipped);
    std::printf("kernels %s, sigma %.4f, grid %g, measured noise %.4f\n", hushvec::active_backend().c_str(), sigma,
                static_cast<double>(grid), std::sqrt(squares / static_cast<double>(rows.size())));
}

}  // namespace

int main() {
    try {
        release();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

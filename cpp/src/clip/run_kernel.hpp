// The kernel of one law, grade and version on one run.
#pragma once

#include "dispatch/dispatch.hpp"
#include "hushvec/clip.hpp"

namespace hushvec {

struct RunKernel {
    const KeyStream& stream;
    Law law;
    ExactGrid grid;       // grid 0: float grade
    float sigma;          // of the float grade
    bool half_words;      // the exact grade of version 3

    void operator()(const NoiseRun<float>& run) const {
        const Kernels& kernels = active_kernels();
        const bool gaussian = law == Law::gaussian;
        if (grid.grid == 0) return gaussian ? kernels.add_gaussian(stream, run, sigma) : kernels.add_laplace(stream, run, sigma);
        if (gaussian) return (half_words ? kernels.half_gaussian : kernels.exact_gaussian)(stream, run, scale(), kernels.gaussian_bound);
        (half_words ? kernels.half_laplace : kernels.exact_laplace)(stream, run, scale(), kernels.laplace_bound);
    }
    void operator()(const NoiseRun<double>& run) const {
        const Kernels& kernels = active_kernels();
        if (law == Law::gaussian) {
            return (half_words ? kernels.half_gaussian_f64 : kernels.exact_gaussian_f64)(stream, run, scale(), kernels.gaussian_bound);
        }
        (half_words ? kernels.half_laplace_f64 : kernels.exact_laplace_f64)(stream, run, scale(), kernels.laplace_bound);
    }

private:
    GridScale scale() const { return {grid.sigma / grid.grid, grid.grid}; }
};

}  // namespace hushvec

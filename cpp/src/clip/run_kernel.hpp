// The kernel of one law, grade and version on one run.
#pragma once

#include "dispatch/dispatch.hpp"
#include "hushvec/clip.hpp"
#include "noise/open_queue.hpp"

namespace hushvec {

struct RunKernel {
    const KeyStream& stream;
    Law law;
    ExactGrid grid;       // grid 0: float grade
    float sigma;          // of the float grade
    bool half_words;      // the exact grade of version 3

    template <class Element>
    void operator()(const NoiseRun<Element>& run) const {
        const auto queue = new_open_queue<Element>();
        run_and_settle(run, *queue);
    }

    template <class Element>
    void run_and_settle(const NoiseRun<Element>& run, OpenQueue<Element>& queue) const {
        (*this)(run, queue);
        settle(queue);
    }

    // Output is final when the queue is settled.
    void operator()(const NoiseRun<float>& run, OpenQueue<float>& queue) const {
        const Kernels& kernels = active_kernels();
        const bool gaussian = law == Law::gaussian;
        if (grid.grid == 0) return gaussian ? kernels.add_gaussian(stream, run, sigma) : kernels.add_laplace(stream, run, sigma);
        if (half_words) return (gaussian ? kernels.half_gaussian : kernels.half_laplace)(stream, run, scale(), bound(), queue);
        (gaussian ? kernels.exact_gaussian : kernels.exact_laplace)(stream, run, scale(), bound());
    }
    void operator()(const NoiseRun<double>& run, OpenQueue<double>& queue) const {
        const Kernels& kernels = active_kernels();
        const bool gaussian = law == Law::gaussian;
        if (half_words) return (gaussian ? kernels.half_gaussian_f64 : kernels.half_laplace_f64)(stream, run, scale(), bound(), queue);
        (gaussian ? kernels.exact_gaussian_f64 : kernels.exact_laplace_f64)(stream, run, scale(), bound());
    }

    void settle(OpenQueue<float>& queue) const {
        if (queue.size == 0) return;
        const Kernels& kernels = active_kernels();
        (law == Law::gaussian ? kernels.settle_gaussian : kernels.settle_laplace)(stream, scale(), bound(), queue);
    }
    void settle(OpenQueue<double>& queue) const {
        if (queue.size == 0) return;
        const Kernels& kernels = active_kernels();
        (law == Law::gaussian ? kernels.settle_gaussian_f64 : kernels.settle_laplace_f64)(stream, scale(), bound(), queue);
    }

private:
    GridScale scale() const { return {grid.sigma / grid.grid, grid.grid}; }
    ErrorBound bound() const { return law == Law::gaussian ? active_kernels().gaussian_bound : active_kernels().laplace_bound; }
};

}  // namespace hushvec

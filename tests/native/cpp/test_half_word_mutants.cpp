// Faults that the kernels of half words could have, each in a copy of their header (CMakeLists.txt makes it): the comparison with joined
// words finds every one of them, and none in the copy without a fault.
#include <string>
#include <vector>

#include "check.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/wiped_stream.hpp"
#include "joined_runs.hpp"
#include "lanes/in_step.hpp"
#include "lanes/portable.hpp"
#include "noise/exact_round.hpp"
#include "noise/group_kernels.hpp"
#include "noise/half_words.hpp"
#include "noise/open_queue.hpp"
#include "noise/settle_lanes.hpp"
#include "rng/chacha_lanes.hpp"
#include "test_stream.hpp"

// A copy of the header in a namespace of its own, with what it names from outside.
#define HUSHVEC_MUTANT(name)   \
    namespace name::hushvec {  \
    using namespace ::hushvec; \
    }
HUSHVEC_MUTANT(no_fault)
HUSHVEC_MUTANT(loses_the_last)
HUSHVEC_MUTANT(refinement_of_a_neighbor)
HUSHVEC_MUTANT(gaussian_halves_swapped)
HUSHVEC_MUTANT(laplace_halves_swapped)
HUSHVEC_MUTANT(samples_of_the_group_before)
HUSHVEC_MUTANT(words_of_the_group_before)
HUSHVEC_MUTANT(second_half_as_the_first)
HUSHVEC_MUTANT(third_of_a_register_lost)
HUSHVEC_MUTANT(first_element_twice)
HUSHVEC_MUTANT(rest_is_dropped)
HUSHVEC_MUTANT(rest_stays_behind)

namespace no_fault {
#include "no_fault.hpp"
}
namespace loses_the_last {
#include "loses_the_last.hpp"
}
namespace refinement_of_a_neighbor {
#include "refinement_of_a_neighbor.hpp"
}
namespace gaussian_halves_swapped {
#include "gaussian_halves_swapped.hpp"
}
namespace laplace_halves_swapped {
#include "laplace_halves_swapped.hpp"
}
namespace samples_of_the_group_before {
#include "samples_of_the_group_before.hpp"
}
namespace words_of_the_group_before {
#include "words_of_the_group_before.hpp"
}
namespace second_half_as_the_first {
#include "second_half_as_the_first.hpp"
}
namespace third_of_a_register_lost {
#include "third_of_a_register_lost.hpp"
}
namespace first_element_twice {
#include "first_element_twice.hpp"
}
namespace rest_is_dropped {
#include "rest_is_dropped.hpp"
}
namespace rest_stays_behind {
#include "rest_stays_behind.hpp"
}

namespace {

using namespace hushvec;
using test::check;
using test::half_run;
using test::JoinedRun;

constexpr float kScale = 12.8f;

// How many integers of these kernels differ from those of joined words, all samples being left open by level 0.
template <class Gaussian, class Laplace, class Settle>
std::size_t wrong_integers(Gaussian gaussian, Settle settle_gaussian, Laplace laplace, Settle settle_laplace) {
    const Kernels& kernels = kernels_by_name("portable");
    const WipedStream stream(test::test_stream(Cipher::chacha8));
    std::size_t wrong = 0;
    const auto compare = [&](const std::vector<float>& got, const std::vector<float>& wanted) {
        for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != wanted[i];
    };
    for (const std::uint64_t first_group : {std::uint64_t{0}, std::uint64_t{5}}) {
        for (const std::size_t groups : {1u, 2u, 37u}) {
            const JoinedRun joined(kernels, stream, first_group, groups);
            std::vector<double> x = joined.undecided(kernels, kScale), y = joined.undecided_laplace(kernels, kScale);
            compare(half_run(gaussian, settle_gaussian, stream, first_group, x, kScale, kernels.gaussian_bound),
                    joined.gaussian(kernels, stream, x, kScale, false));
            compare(half_run(laplace, settle_laplace, stream, first_group, y, kScale, kernels.laplace_bound),
                    joined.laplace(kernels, stream, y, kScale, false));
            for (std::size_t i = 0; i < x.size(); ++i) {   // the queue fills to numbers that are no whole vectors
                if (i % kHalfGroup % 3 != 0) x[i] = y[i] = 0;
            }
            compare(half_run(gaussian, settle_gaussian, stream, first_group, x, kScale, kernels.gaussian_bound),
                    joined.gaussian(kernels, stream, x, kScale, false));
            compare(half_run(laplace, settle_laplace, stream, first_group, y, kScale, kernels.laplace_bound),
                    joined.laplace(kernels, stream, y, kScale, false));
        }
    }
    return wrong;
}

#define HUSHVEC_KERNEL(name, kernel) name::hushvec::kernel<Portable, ChaChaLanes<Portable>, double>
#define HUSHVEC_WRONG_INTEGERS(name)                                                               \
    wrong_integers(HUSHVEC_KERNEL(name, half_gaussian_run), HUSHVEC_KERNEL(name, settle_gaussian), \
                   HUSHVEC_KERNEL(name, half_laplace_run), HUSHVEC_KERNEL(name, settle_laplace))
#define HUSHVEC_FINDS(name) check(HUSHVEC_WRONG_INTEGERS(name) > 0, "a kernel with the fault " #name " is found")

}  // namespace

int main() {
    check(HUSHVEC_WRONG_INTEGERS(no_fault) == 0, "the kernel without a fault");
    HUSHVEC_FINDS(loses_the_last);
    HUSHVEC_FINDS(refinement_of_a_neighbor);
    HUSHVEC_FINDS(gaussian_halves_swapped);
    HUSHVEC_FINDS(laplace_halves_swapped);
    HUSHVEC_FINDS(samples_of_the_group_before);
    HUSHVEC_FINDS(words_of_the_group_before);
    HUSHVEC_FINDS(second_half_as_the_first);
    HUSHVEC_FINDS(third_of_a_register_lost);
    HUSHVEC_FINDS(first_element_twice);
    HUSHVEC_FINDS(rest_is_dropped);
    HUSHVEC_FINDS(rest_stays_behind);
    return test::summary();
}

// The operations that the package calls, of float32 rows under ChaCha: they take the place of cpp/src/tables, whose others
// would be half of the module. A missing one stops the program.
#include "lanes/aes/kernels.hpp"
#include "lanes/portable.hpp"
#include "tables/kernel_table.hpp"

namespace hushvec {
namespace {

using V = Portable;
using Words = ChaChaLanes<V>;

constexpr Backend float32_backend() {
    Backend made{};
    made.name = "simd128";
    made.gaussian_bound = kPortableGaussianBound;
    made.laplace_bound = kPortableLaplaceBound;
    made.keystream = keystream<V, Words>;
    made.fill_gaussian = fill_gaussian<V, Words>;
    made.fill_gaussian_f64 = fill_gaussian_f64<V, Words>;   // of the ladder of privunit
    made.fill_laplace = fill_laplace<V, Words>;
    made.exact_gaussian = exact_gaussian_run<V, Words, float>;
    made.exact_laplace = exact_laplace_run<V, Words, float>;
    made.half_gaussian = half_gaussian_run<V, Words, float>;
    made.half_laplace = half_laplace_run<V, Words, float>;
    made.settle_gaussian = settle_gaussian<V, Words, float>;
    made.settle_laplace = settle_laplace<V, Words, float>;
    made.sum_of_squares = sum_of_squares<V, float>;
    made.sum_of_squares_f64 = sum_of_squares<V, double>;
    made.half_of_squares = half_of_squares<V, float>;
    made.copy_and_square = copy_and_square<V, float>;
    made.all_finite = all_finite<V, float>;
    made.scale_row = scale_row<V>;
    made.unit_normals = unit_normals<V, Words>;
    made.privunit_round = privunit_round<V>;
    made.direction_products = direction_products<V>;
    made.round_row = round_row<V>;
    made.inner_products = inner_products<V, float>;
    return made;
}

}  // namespace

constinit const Backend kPortableBackend = float32_backend();
constinit const AesKernels kAesPortable = {"none", nullptr, nullptr, nullptr};

}  // namespace hushvec

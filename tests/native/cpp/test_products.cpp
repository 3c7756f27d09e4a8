// Inner products and the Walsh-Hadamard transform. Every pair summed as products/product_kernels.hpp says, to the bit, wherever its rows lie and whatever is beside them.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "check.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/dispatch.hpp"
#include "hushvec/hadamard.hpp"
#include "hushvec/inner_products.hpp"
#include "hushvec/threads.hpp"
#include "plain_products.hpp"
#include "plain_rows.hpp"
#include "products/product_kernels.hpp"

namespace {

using namespace hushvec;
using test::by_definition;
using test::check;
using test::view_of;

void run_kernel(const Kernels& kernels, const ProductRun<float>& run) { kernels.inner_products(run); }
void run_kernel(const Kernels& kernels, const ProductRun<double>& run) { kernels.inner_products_f64(run); }

// Sizes between 2^-9 and 2^9, both signs: sums that round at every step.
template <class Element>
std::vector<Element> numbers(std::size_t count, std::uint32_t seed) {
    std::vector<Element> found(count);
    for (Element& number : found) {
        seed = seed * 1664525u + 1013904223u;
        number = static_cast<Element>(std::ldexp(1 + static_cast<double>(seed >> 8) * 0x1p-24, static_cast<int>(seed % 19) - 9) * (seed & 64 ? 1 : -1));
    }
    return found;
}

template <class Element>
bool equal_bits(const std::vector<Element>& a, const std::vector<Element>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Element)) == 0;
}

// Around the sizes of tiles, of the few rows that are read alone, and of partial sums.
template <class Element>
void products_follow_the_definition(const Kernels& kernels) {
    const bool fused = std::string(kernels.name) != "portable";
    for (const std::size_t columns : {0u, 1u, 15u, 16u, 17u, 32u, 45u}) {
        for (const std::size_t a_rows : {1u, 3u, 4u, 5u, 9u}) {
            for (const std::size_t b_rows : {1u, 2u, 3u, 4u, 7u, 16u, 17u, 22u}) {
                const auto a = numbers<Element>(a_rows * columns, 1), b = numbers<Element>(b_rows * columns, 2);
                std::vector<Element> expected, found(a_rows * b_rows, Element{-1});
                for (std::size_t i = 0; i < a_rows; ++i) {
                    for (std::size_t j = 0; j < b_rows; ++j) {
                        expected.push_back(by_definition(a.data() + i * columns, b.data() + j * columns, columns, fused));
                    }
                }
                run_kernel(kernels, {a.data(), columns, a_rows, b.data(), columns, b_rows, columns, found.data(), b_rows});
                check(equal_bits(found, expected), std::string(kernels.name) + " products of " + std::to_string(a_rows) + " and " +
                                                       std::to_string(b_rows) + " rows of " + std::to_string(columns));
            }
        }
    }
}

// Enough work for several threads and several blocks of b; every row is one and the same.
template <class Element>
void equal_rows_have_equal_products() {
    constexpr std::size_t a_rows = 300, b_rows = 2000, columns = 77;
    const auto row = numbers<Element>(columns, 3);
    std::vector<Element> a, b, found(a_rows * b_rows);
    for (std::size_t i = 0; i < a_rows; ++i) a.insert(a.end(), row.begin(), row.end());
    for (std::size_t i = 0; i < b_rows; ++i) b.insert(b.end(), row.begin(), row.end());
    for (const std::size_t threads : {1u, 3u}) {
        set_num_threads(threads);
        inner_products(view_of(a, dtype_of<Element>, a_rows, columns), view_of(b, dtype_of<Element>, b_rows, columns),
                       view_of(found, dtype_of<Element>, a_rows, b_rows));
        const std::vector<Element> same(found.size(), by_definition(row.data(), row.data(), columns, active_backend() != "portable"));
        check(equal_bits(found, same), "equal rows of " + std::to_string(8 * sizeof(Element)) + " bits, threads " + std::to_string(threads));
    }
    set_num_threads(1);
}

// Two rows, all butterflies of one width before the next: below and above the sizes that are kept in a cache.
void transforms_follow_the_definition() {
    constexpr std::size_t rows = 2;
    for (std::size_t columns = 1; columns <= 8192; columns *= 2) {
        auto found = numbers<double>(rows * columns, 4), expected = found;
        for (std::size_t half = 1; half < columns; half *= 2) {
            for (std::size_t i = 0; i < rows * columns; ++i) {
                if (i & half) continue;
                const double a = expected[i], b = expected[i + half];
                expected[i] = a + b;
                expected[i + half] = a - b;
            }
        }
        hadamard_transform(view_of(found, DType::float64, rows, columns));
        check(equal_bits(found, expected), "transforms of " + std::to_string(columns) + " columns");
    }
}

}  // namespace

int main() {
    for (const std::string& name : available_backends()) {
        products_follow_the_definition<float>(kernels_by_name(name));
        products_follow_the_definition<double>(kernels_by_name(name));
    }
    equal_rows_have_equal_products<float>();
    equal_rows_have_equal_products<double>();
    transforms_follow_the_definition();
    return test::summary();
}

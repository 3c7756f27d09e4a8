#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "discrete/gumbel_bracket.hpp"
#include "discrete/response_intervals.hpp"
#include "discrete/staircase.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/discrete_noise.hpp"
#include "key_capsule.hpp"
#include "noise_source.hpp"
#include "response_law_argument.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

// C-contiguous and of this very dtype: the caller of the core arranges it.
template <class T>
using Array = py::array_t<T, py::array::c_style>;

std::string dtype_name(const py::array& array) { return py::str(array.dtype()); }

// ---- randomized response ----

py::tuple response_law_of(double epsilon, std::uint64_t labels) {
    const ResponseLaw law = response_law(epsilon, labels);
    return py::make_tuple(law.truth, law.other);
}

template <class Code>
Array<Code> respond(const Array<Code>& codes, const ResponseLaw& law, py::handle source) {
    const auto count = static_cast<std::size_t>(codes.size());
    if (law.labels - 1 > static_cast<std::uint64_t>(std::numeric_limits<Code>::max())) {
        throw py::value_error("codes must have a dtype that holds " + std::to_string(law.labels - 1) + ", got " + dtype_name(codes));
    }
    Array<Code> out(std::vector<py::ssize_t>(codes.shape(), codes.shape() + codes.ndim()));
    const Code* in = codes.data();
    Code* result = out.mutable_data();
    {
        const py::gil_scoped_release unlocked;
        std::copy_n(in, count, result);   // the codes that are checked are those that are answered for, whoever writes to the array
        check_codes(result, count, law.labels);
    }
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    randomized_response(stream, law, result, count, result);
    return out;
}

// Tries the integer types one after the other.
template <class... Codes>
py::array respond_any(const py::array& codes, const ResponseLaw& law, py::handle source) {
    py::array out;
    const auto respond_if = [&]<class Code>(Code) {
        if (!Array<Code>::check_(codes)) return false;
        out = respond(py::reinterpret_borrow<Array<Code>>(codes), law, source);
        return true;
    };
    if (!(respond_if(Codes{}) || ...)) throw py::type_error("codes must be a C-contiguous integer array, got " + dtype_name(codes));
    return out;
}

py::array randomized_response_of(const py::array& codes, std::uint64_t labels, const std::pair<std::uint64_t, std::uint64_t>& law,
                                 py::handle source) {
    return respond_any<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(
        codes, response_law_argument(labels, law), source);
}

// ---- discrete noise ----

DiscreteLaw discrete_law(bool laplacian) { return laplacian ? DiscreteLaw::laplacian : DiscreteLaw::gaussian; }

// out is C-contiguous and writable.
void fill_discrete_of(py::array out, bool laplacian, double scale, py::handle source) {
    const DiscreteLaw law = discrete_law(laplacian);
    const auto count = static_cast<std::size_t>(out.size());
    const WipedStream stream = reserve_from(source);
    const auto fill = [&]<class Integer>(Integer* samples) {
        const py::gil_scoped_release unlocked;
        fill_discrete(stream, law, scale, samples, count);
    };
    void* const data = out.mutable_data();
    if (Array<std::int64_t>::check_(out)) return fill(static_cast<std::int64_t*>(data));
    if (Array<std::int32_t>::check_(out)) return fill(static_cast<std::int32_t*>(data));
    throw py::type_error("out must be a C-contiguous array of int64 or int32, got " + dtype_name(out));
}

template <class Integer>
Array<Integer> clip_and_add(const Array<Integer>& x, double clip_norm, bool laplacian, double scale, py::handle source) {
    Array<Integer> out(std::vector<py::ssize_t>(x.shape(), x.shape() + x.ndim()));
    const auto columns = static_cast<std::size_t>(x.shape(x.ndim() - 1)), rows = x.ndim() == 2 ? static_cast<std::size_t>(x.shape(0)) : 1;
    const Integer* in = x.data();
    Integer* result = out.mutable_data();
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    clip_and_add_discrete(stream, in, rows, columns, clip_norm, discrete_law(laplacian), scale, result);
    return out;
}

// x is C-contiguous and aligned.
py::array clip_and_add_discrete_of(const py::array& x, double clip_norm, bool laplacian, double scale, py::handle source) {
    if (x.ndim() != 1 && x.ndim() != 2) throw py::value_error("x must have 1 or 2 dimensions, got " + std::to_string(x.ndim()));
    const auto of = [&](const auto& typed) -> py::array { return clip_and_add(typed, clip_norm, laplacian, scale, source); };
    if (Array<std::int64_t>::check_(x)) return of(py::reinterpret_borrow<Array<std::int64_t>>(x));
    if (Array<std::int32_t>::check_(x)) return of(py::reinterpret_borrow<Array<std::int32_t>>(x));
    throw py::type_error("x must be a C-contiguous array of int64 or int32, got " + dtype_name(x));
}

// ---- Poisson sampling ----

constexpr std::uint64_t kMostIndices = std::uint64_t{1} << 40;

// threshold is a Python int in [0, 2^64]; at 2^64 every index is kept.
py::array_t<std::int64_t> poisson_sample_of(std::uint64_t count, const py::int_& threshold, py::handle source) {
    const py::int_ all = py::int_(1) << py::int_(64);
    if (threshold < py::int_(0) || threshold > all) {
        throw py::value_error("threshold must be in [0, 2^64], got " + std::string(py::str(threshold)));
    }
    if (count > kMostIndices) throw py::value_error("count must be <= 2^40, got " + std::to_string(count));
    const WipedStream stream = reserve_from(source);
    std::vector<std::int64_t> kept;
    if (threshold.equal(all)) {
        kept.resize(count);
        std::iota(kept.begin(), kept.end(), std::int64_t{0});
    } else {
        const auto below = threshold.cast<std::uint64_t>();
        const py::gil_scoped_release unlocked;
        kept = poisson_sample(stream, count, below);
    }
    return py::array_t<std::int64_t>(static_cast<py::ssize_t>(kept.size()), kept.data());
}

// ---- top-k ----

template <class Score>
py::tuple top_k(const Array<Score>& scores, std::size_t picks, double epsilon, double sensitivity, py::handle source,
                double bound_factor) {
    if (scores.ndim() != 2) throw py::value_error("scores must have two dimensions, got " + std::to_string(scores.ndim()));
    const auto rows = static_cast<std::size_t>(scores.shape(0));
    const TopKSelection selection = {static_cast<std::size_t>(scores.shape(1)), picks, epsilon, sensitivity};
    check_selection(selection);
    Array<std::int64_t> indices({scores.shape(0), static_cast<py::ssize_t>(picks)});
    const Score* in = scores.data();
    std::int64_t* result = indices.mutable_data();
    {
        const py::gil_scoped_release unlocked;
        check_scores(in, rows, selection.candidates);
    }
    const WipedStream stream = reserve_from(source);
    std::vector<UndecidedRow> undecided;
    {
        const py::gil_scoped_release unlocked;
        undecided = gumbel_top_k(stream, selection, in, rows, result, bound_factor);
    }
    py::list open;
    for (const UndecidedRow& row : undecided) open.append(py::make_tuple(row.row, row.candidates));
    return py::make_tuple(indices, open, key_capsule(stream));
}

py::tuple gumbel_top_k_of(const py::array& scores, std::size_t picks, double epsilon, double sensitivity, py::handle source,
                          double bound_factor) {
    const auto select = [&](const auto& typed) { return top_k(typed, picks, epsilon, sensitivity, source, bound_factor); };
    if (Array<float>::check_(scores)) return select(py::reinterpret_borrow<Array<float>>(scores));
    if (Array<double>::check_(scores)) return select(py::reinterpret_borrow<Array<double>>(scores));
    throw py::type_error("scores must be a C-contiguous float32 or float64 array, got " + dtype_name(scores));
}

// Words of a reserved stream, which settle an undecided row: of one block of a domain whose blocks stand alone, or of one lane of a
// domain that is laid out in groups.
template <Block (*words_of)(const KeyStream&, std::uint64_t, std::uint64_t)>
py::tuple words_at(const py::capsule& stream, std::uint64_t domain_id, std::uint64_t index) {
    const WipedStream ready(stream_of(stream));
    const std::uint64_t largest = max_block_index(ready.cipher);
    if (index > largest) {
        throw py::value_error("index must be below 2^" + std::to_string(std::bit_width(largest)) + ", got " + std::to_string(index));
    }
    const Block words = words_of(ready, domain_id, index);
    return py::tuple(py::cast(std::vector<std::uint32_t>(words.begin(), words.end())));
}

// ---- hooks for the tests: the arithmetic on words they choose ----

Array<std::uint32_t> response_intervals(double epsilon, std::uint64_t labels, const Array<std::uint64_t>& uniforms) {
    const ResponseIntervals intervals(response_law(epsilon, labels));
    Array<std::uint32_t> numbers(uniforms.size());
    for (py::ssize_t i = 0; i < uniforms.size(); ++i) numbers.mutable_data()[i] = intervals.number_of(uniforms.data()[i]);
    return numbers;
}

py::tuple gumbel_brackets(const Array<std::uint64_t>& prefixes) {
    Array<double> values(prefixes.size()), errors(prefixes.size());
    for (py::ssize_t i = 0; i < prefixes.size(); ++i) {
        const GumbelBracket bracket = gumbel_bracket(prefixes.data()[i]);
        values.mutable_data()[i] = bracket.value;
        errors.mutable_data()[i] = bracket.error;
    }
    return py::make_tuple(values, errors);
}

Array<double> gumbel_caps(const Array<std::uint32_t>& words) {
    Array<double> caps(words.size());
    for (py::ssize_t i = 0; i < words.size(); ++i) caps.mutable_data()[i] = gumbel_cap(words.data()[i]);
    return caps;
}

// Sample i from words[i] and lows[i]; a multiple of 16 of them. `exactly`: those that a backend leaves open are compared in fixed point.
Array<std::int64_t> discrete_of_words(const std::string& backend, bool laplacian, double scale, py::handle source, const Array<std::uint32_t>& words,
                                      const Array<std::uint32_t>& lows, bool exactly) {
    const Staircase stairs(discrete_law(laplacian), scale);
    const WipedStream stream = reserve_from(source);
    LoneBlocks attempts(stream, domain::kDiscreteAttempts);
    const auto count = static_cast<std::size_t>(words.size());
    std::vector<std::uint32_t> cells(count), open(count);
    look_up(stairs.guide, words.data(), count, cells.data());
    open.resize(kernels_by_name(backend).place_words(stairs.cell_bits, words.data(), count, cells.data(), open.data()));
    Array<std::int64_t> out(words.size());
    std::int64_t* k = out.mutable_data();
    for (std::size_t i = 0; i < count; ++i) k[i] = stairs.integer_of(cells[i], lows.data()[i]);
    for (const std::uint32_t i : open) k[i] = settle_discrete(attempts, stairs, i, words.data()[i], lows.data()[i], exactly);
    return out;
}

// The bracket of w(k) in float64.
py::tuple decay_brackets(bool laplacian, double scale, const Array<std::int64_t>& integers) {
    const Decay decay(discrete_law(laplacian), scale);
    Array<double> low(integers.size()), high(integers.size());
    for (py::ssize_t i = 0; i < integers.size(); ++i) {
        const RealBracket bracket = decay.times(1.0, integers.data()[i]);
        low.mutable_data()[i] = bracket.low;
        high.mutable_data()[i] = bracket.high;
    }
    return py::make_tuple(low, high);
}

}  // namespace

void bind_discrete(py::module_& module) {
    define(module, "response_law", &response_law_of, py::arg("epsilon"), py::arg("labels"));
    define(module, "randomized_response", &randomized_response_of, py::arg("codes"), py::arg("labels"), py::arg("law"), py::arg("source"));
    define(module, "fill_discrete", &fill_discrete_of, py::arg("out"), py::arg("laplacian"), py::arg("scale"), py::arg("source"));
    define(module, "clip_and_add_discrete", &clip_and_add_discrete_of, py::arg("x"), py::arg("clip_norm"), py::arg("laplacian"), py::arg("scale"),
           py::arg("source"));
    define(module, "poisson_sample", &poisson_sample_of, py::arg("count"), py::arg("threshold"), py::arg("source"));
    define(module, "gumbel_top_k", &gumbel_top_k_of, py::arg("scores"), py::arg("picks"), py::arg("epsilon"), py::arg("sensitivity"),
           py::arg("source"), py::arg("bound_factor") = 1.0);
    define(module, "stream_block", &words_at<stream_block>, py::arg("stream"), py::arg("domain"), py::arg("index"));
    define(module, "lane_block", &words_at<lane_block>, py::arg("stream"), py::arg("domain"), py::arg("index"));

    py::module_ testing = module.def_submodule("_testing");
    define(testing, "response_intervals", &response_intervals, py::arg("epsilon"), py::arg("labels"), py::arg("uniforms"));
    define(testing, "discrete_of_words", &discrete_of_words, py::arg("backend"), py::arg("laplacian"), py::arg("scale"), py::arg("source"),
           py::arg("words"), py::arg("lows"), py::arg("exactly") = false);
    define(testing, "decay_brackets", &decay_brackets, py::arg("laplacian"), py::arg("scale"), py::arg("integers"));
    define(testing, "gumbel_brackets", &gumbel_brackets, py::arg("prefixes"));
    define(testing, "gumbel_caps", &gumbel_caps, py::arg("words"));
}

}  // namespace hushvec::python

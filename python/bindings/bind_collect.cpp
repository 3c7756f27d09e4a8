#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "dispatch/dispatch.hpp"
#include "hushvec/collect.hpp"
#include "noise/float64_functions.hpp"
#include "noise_source.hpp"

namespace hushvec::python {

namespace py = pybind11;

namespace {

// C-contiguous and of this very dtype: the caller of the core arranges it.
template <class T>
using Array = py::array_t<T, py::array::c_style>;

// As Array, but never a converted copy: for what is written to.
template <class T>
Array<T> require_array(const py::array& array, const char* name, const char* dtype) {
    if (!Array<T>::check_(array)) {
        throw py::type_error(std::string(name) + " must be a C-contiguous array of " + dtype + ", got " + std::string(py::str(array.dtype())));
    }
    return py::reinterpret_borrow<Array<T>>(array);
}

// The caller's codes, read once: those that are checked are those that are used, whoever writes to the array meanwhile.
template <class Code>
std::vector<Code> checked_codes(const Array<Code>& given, std::uint64_t labels) {
    const Code* in = given.data();
    const auto count = static_cast<std::size_t>(given.size());
    const py::gil_scoped_release unlocked;
    std::vector<Code> codes(in, in + count);
    check_codes(codes.data(), count, labels);
    return codes;
}

void require_bits(std::size_t bits) {
    if (bits < 1 || bits > kMostReportBits) throw py::value_error("bits must be in [1, 2^24], got " + std::to_string(bits));
}

BitLaw law_of_bits(const std::pair<std::uint64_t, std::uint64_t>& law) {
    const auto [from_one, from_zero] = law;
    if (from_one == 0 || from_zero == 0) throw py::value_error("law must be of two whole numbers > 0");
    return {from_one, from_zero};
}

BitRows rows_of(const Array<std::uint32_t>& reports, std::size_t bits) {
    require_bits(bits);
    const std::size_t words = report_words(bits);
    if (reports.ndim() != 2 || static_cast<std::size_t>(reports.shape(1)) != words) {
        throw py::value_error("reports must have shape (n, " + std::to_string(words) + ") for " + std::to_string(bits) + " bits");
    }
    return {reports.data(), static_cast<std::size_t>(reports.shape(0)), bits};
}

Array<std::uint32_t> bit_reports(const py::array& given, std::size_t bits, const std::pair<std::uint64_t, std::uint64_t>& law,
                                 py::handle source) {
    require_bits(bits);
    const BitLaw bit_law = law_of_bits(law);
    const std::vector<std::int64_t> codes = checked_codes(require_array<std::int64_t>(given, "codes", "int64"), bits);
    Array<std::uint32_t> out({static_cast<py::ssize_t>(codes.size()), static_cast<py::ssize_t>(report_words(bits))});
    std::uint32_t* result = out.mutable_data();
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    one_bit_reports(stream, bit_law, codes.data(), codes.size(), bits, result);
    return out;
}

Array<std::uint32_t> perturbed_bits(const py::array& given, std::size_t bits, const std::pair<std::uint64_t, std::uint64_t>& law,
                                    py::handle source) {
    const BitLaw bit_law = law_of_bits(law);
    const auto truth = require_array<std::uint32_t>(given, "truth", "uint32");
    const BitRows rows = rows_of(truth, bits);
    check_bit_rows(rows);
    Array<std::uint32_t> out({truth.shape(0), truth.shape(1)});
    std::uint32_t* result = out.mutable_data();
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    perturb_bits(stream, bit_law, rows, result);
    return out;
}

Array<std::int64_t> require_counts(const py::array& given, std::size_t size) {
    auto counts = require_array<std::int64_t>(given, "counts", "int64");
    if (static_cast<std::size_t>(counts.size()) != size) {
        throw py::value_error("counts must have " + std::to_string(size) + " elements, got " + std::to_string(counts.size()));
    }
    return counts;
}

// Nothing is counted unless every report is sound.
void count_bits_of(const py::array& given, std::size_t bits, const py::array& given_counts) {
    const auto reports = require_array<std::uint32_t>(given, "reports", "uint32");
    const BitRows rows = rows_of(reports, bits);
    auto counts = require_counts(given_counts, bits);
    std::int64_t* result = counts.mutable_data();
    const py::gil_scoped_release unlocked;
    check_bit_rows(rows);
    count_bits(rows, result);
}

void count_bits_by_group_of(const py::array& given, std::size_t bits, const py::array& given_groups, const py::array& given_counts) {
    const auto reports = require_array<std::uint32_t>(given, "reports", "uint32");
    const auto groups = require_array<std::uint32_t>(given_groups, "groups", "uint32");
    const BitRows rows = rows_of(reports, bits);
    if (static_cast<std::size_t>(groups.size()) != rows.rows) {
        throw py::value_error("groups must have " + std::to_string(rows.rows) + " elements, got " + std::to_string(groups.size()));
    }
    if (given_counts.ndim() != 2 || given_counts.shape(0) < 1) throw py::value_error("counts must have two dimensions");
    const auto group_count = static_cast<std::size_t>(given_counts.shape(0));
    auto counts = require_counts(given_counts, group_count * bits);
    const std::vector<std::uint32_t> of_rows = checked_codes(groups, group_count);
    std::int64_t* result = counts.mutable_data();
    const py::gil_scoped_release unlocked;
    check_bit_rows(rows);
    count_bits_by_group(rows, of_rows.data(), group_count, result);
}

template <class... Codes>
void count_any(const py::array& codes, Array<std::int64_t>& counts) {
    const auto count_if = [&]<class Code>(Code) {
        if (!Array<Code>::check_(codes)) return false;
        const auto typed = py::reinterpret_borrow<Array<Code>>(codes);
        const Code* in = typed.data();
        const auto count = static_cast<std::size_t>(typed.size());
        const auto labels = static_cast<std::uint64_t>(counts.size());
        std::int64_t* result = counts.mutable_data();
        const py::gil_scoped_release unlocked;
        count_codes(in, count, labels, result);
        return true;
    };
    if (!(count_if(Codes{}) || ...)) {
        throw py::type_error("codes must be a C-contiguous integer array, got " + std::string(py::str(codes.dtype())));
    }
}

void count_codes_of(const py::array& codes, const py::array& given_counts) {
    auto counts = require_array<std::int64_t>(given_counts, "counts", "int64");
    count_any<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(codes,
                                                                                                                              counts);
}

// `law` is what response_law returned for 2 * blocks labels.
Array<std::uint32_t> hadamard_reports_of(const py::array& given, std::uint64_t words, std::uint64_t blocks, std::uint64_t order,
                                         const std::pair<std::uint64_t, std::uint64_t>& law, py::handle source) {
    constexpr std::uint64_t most = std::uint64_t{1} << 28;
    if (!std::has_single_bit(blocks) || !std::has_single_bit(order) || order < 2 || blocks > most || order > most || blocks * order > most) {
        throw py::value_error("blocks and order must be powers of two, order >= 2, their product at most 2^28");
    }
    if (words < 1 || words > blocks * (order - 1)) {
        throw py::value_error("words must be in [1, " + std::to_string(blocks * (order - 1)) + "], got " + std::to_string(words));
    }
    const auto [truth, other] = law;
    const std::uint64_t cells = 2 * blocks;
    if (other < 1 || Uint128{other} * cells > Uint128{1} << 64 || truth != 0 - (cells - 1) * other) {
        throw py::value_error("law must be that of " + std::to_string(cells) + " labels");
    }
    const std::vector<std::int64_t> codes = checked_codes(require_array<std::int64_t>(given, "codes", "int64"), words);
    Array<std::uint32_t> out(static_cast<py::ssize_t>(codes.size()));
    std::uint32_t* result = out.mutable_data();
    const WipedStream stream = reserve_from(source);
    const py::gil_scoped_release unlocked;
    hadamard_reports(stream, {blocks, order, {cells, truth, other}}, codes.data(), codes.size(), result);
    return out;
}

// ---- a hook for the tests: any instruction set ----

Array<std::int64_t> ones_by(const std::string& backend, const Array<std::uint32_t>& reports, std::size_t bits) {
    const BitRows rows = rows_of(reports, bits);
    Array<std::int64_t> counts(static_cast<py::ssize_t>(bits));
    std::fill(counts.mutable_data(), counts.mutable_data() + bits, 0);
    count_bits(kernels_by_name(backend), rows, counts.mutable_data());
    return counts;
}

}  // namespace

void bind_collect(py::module_& module) {
    define(module, "bit_reports", &bit_reports, py::arg("codes"), py::arg("bits"), py::arg("law"), py::arg("source"));
    define(module, "perturb_bits", &perturbed_bits, py::arg("truth"), py::arg("bits"), py::arg("law"), py::arg("source"));
    define(module, "count_bits", &count_bits_of, py::arg("reports"), py::arg("bits"), py::arg("counts"));
    define(module, "count_bits_by_group", &count_bits_by_group_of, py::arg("reports"), py::arg("bits"), py::arg("groups"), py::arg("counts"));
    define(module, "count_codes", &count_codes_of, py::arg("codes"), py::arg("counts"));
    define(module, "hadamard_reports", &hadamard_reports_of, py::arg("codes"), py::arg("words"), py::arg("blocks"), py::arg("order"),
           py::arg("law"), py::arg("source"));

    py::module_ testing = module.def_submodule("_testing");
    define(testing, "count_bits", &ones_by, py::arg("backend"), py::arg("reports"), py::arg("bits"));
}

}  // namespace hushvec::python

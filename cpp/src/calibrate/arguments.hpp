// The rules on the arguments of the calibration functions, and the words in which a broken rule is reported.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hushvec::calibration {

inline constexpr std::ptrdiff_t kScalar = -1;   // index of an argument that is not an element of an array

// The shortest text that reads back as the same double, with ".0" where it would look like an integer: std::to_chars, whose tables of powers
// of ten would be a third of the module for browsers.
inline std::string number_text(double value) {
    char scientific[32], plain[400];
    int digits = 0;
    do std::snprintf(scientific, sizeof scientific, "%.*e", digits, value);
    while (std::strtod(scientific, nullptr) != value && ++digits < 17);
    const char* exponent = std::strchr(scientific, 'e');
    if (exponent == nullptr) return scientific;   // no finite number
    std::snprintf(plain, sizeof plain, "%.*f", std::max(0, digits - std::atoi(exponent + 1)), value);
    std::string text = std::strlen(plain) <= std::strlen(scientific) ? plain : scientific;
    if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
    return text;
}

[[noreturn]] inline void throw_rule(std::string_view name, std::ptrdiff_t index, std::string_view rule, double value) {
    std::string text(name);
    if (index != kScalar) text.append("[").append(std::to_string(index)).append("]");
    text.append(" ").append(rule).append(", got ").append(number_text(value));
    throw std::invalid_argument(text);
}

inline void require_positive(std::string_view name, double value, std::ptrdiff_t index) {
    if (!(value > 0.0 && std::isfinite(value))) throw_rule(name, index, "must be > 0 and finite", value);
}

inline void require_not_negative(std::string_view name, double value, std::ptrdiff_t index) {
    if (!(value >= 0.0 && std::isfinite(value))) throw_rule(name, index, "must be >= 0 and finite", value);
}

inline void require_delta(double value, std::ptrdiff_t index) {
    if (!(value > 0.0 && value < 1.0)) throw_rule("delta", index, "must be > 0 and < 1", value);
}

// `name` is a result here: what the arguments ask for has no double.
inline double require_representable(std::string_view name, double value, std::ptrdiff_t index) {
    if (!std::isfinite(value)) throw_rule(name, index, "must be at most 1.7976931348623157e+308", value);
    return value;
}

inline void require_same_length(std::string_view name, std::size_t length, std::size_t expected) {
    if (length == expected) return;
    std::string text(name);
    text.append(" must have ").append(std::to_string(expected)).append(" elements");
    text.append(", got ").append(std::to_string(length));
    throw std::invalid_argument(text);
}

struct NamedArray {
    std::string_view name;
    std::span<const double> values;
};

// out[i] = compute(arrays[i]..., i), after check(arrays[i]..., i) has passed for every i.
template <class Check, class Compute, class... Arrays>
void map_elements(std::span<double> out, Check check, Compute compute, const Arrays&... arrays) {
    (require_same_length(arrays.name, arrays.values.size(), out.size()), ...);
    for (std::size_t i = 0; i < out.size(); ++i) check(arrays.values[i]..., static_cast<std::ptrdiff_t>(i));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = compute(arrays.values[i]..., static_cast<std::ptrdiff_t>(i));
}

}  // namespace hushvec::calibration

// One-shot Gumbel top-k: brackets the noisy scores in float64 and says which rows that does not decide.
//
// noisy score = a s + G with a = epsilon / (2 sensitivity). Adding one number to a whole row changes no selection, so each row is
// worked out as a (s - m) + G, m its largest score: what competes for the first places is then small, and so are its errors.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

#include "discrete/gumbel_bracket.hpp"
#include "discrete/sample_words.hpp"
#include "hushvec/discrete.hpp"
#include "hushvec/noise.hpp"
#include "os/mutex.hpp"
#include "parallel/threads.hpp"

namespace hushvec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Candidate {
    double low;    // the noisy score, less a m, lies in [low, high]
    double high;
    std::uint64_t index;
};

// x~ = a~ (s - m)~ is off by 3 e |x| and second-order terms: one rounding each of a, of the difference, and of the product, whose
// underflow loses less than 2^-1074. The sum rounds by e of itself, and so do its two ends.
constexpr double kSignalError = 0x1p-51;
constexpr double kSumError = 0x1p-51;
constexpr double kUnderflow = 0x1p-1000;

Candidate candidate(double signal, const GumbelBracket& noise, std::uint64_t index, double bound_factor) {
    const double sum = signal + noise.value;
    if (!std::isfinite(sum) || !std::isfinite(noise.error)) return {-kInfinity, kInfinity, index};
    const double error =
        bound_factor * (noise.error + kSignalError * std::abs(signal) + kSumError * std::abs(sum) + kUnderflow) * kBoundRounding;
    return {sum - error, sum + error, index};
}

// The candidates of one row that may be among the best.
class Contest {
public:
    explicit Contest(std::size_t picks) : picks_(picks) {}

    void clear() {
        contenders_.clear();
        best_lows_.clear();
    }

    // Below this, someone is behind `picks` others for certain.
    double threshold() const { return best_lows_.size() < picks_ ? -kInfinity : best_lows_.front(); }

    void enter(const Candidate& newcomer) {
        if (newcomer.high < threshold()) return;
        contenders_.push_back(newcomer);
        if (best_lows_.size() == picks_) {
            if (newcomer.low <= best_lows_.front()) return;
            std::pop_heap(best_lows_.begin(), best_lows_.end(), std::greater<>());
            best_lows_.pop_back();
        }
        best_lows_.push_back(newcomer.low);
        std::push_heap(best_lows_.begin(), best_lows_.end(), std::greater<>());
    }

    // Writes the best, the best first, and returns true; or returns false where brackets overlap.
    bool decide(std::int64_t* indices) {
        std::erase_if(contenders_, [&](const Candidate& one) { return one.high < threshold(); });
        std::sort(contenders_.begin(), contenders_.end(), [](const Candidate& a, const Candidate& b) { return a.low > b.low; });
        double highest_behind = -kInfinity;
        for (std::size_t place = contenders_.size(); place-- > 0;) {
            if (place < picks_ && !(contenders_[place].low > highest_behind)) return false;
            highest_behind = std::max(highest_behind, contenders_[place].high);
        }
        for (std::size_t place = 0; place < picks_; ++place) indices[place] = static_cast<std::int64_t>(contenders_[place].index);
        return true;
    }

    std::vector<std::uint64_t> candidates() const {
        std::vector<std::uint64_t> result;
        result.reserve(contenders_.size());
        for (const Candidate& one : contenders_) result.push_back(one.index);
        std::sort(result.begin(), result.end());
        return result;
    }

private:
    std::size_t picks_;
    std::vector<Candidate> contenders_;
    std::vector<double> best_lows_;   // the largest `picks` lower ends so far, a heap with the smallest in front
};

// Selects from rows one after the other.
template <class Score>
class Selector {
public:
    Selector(const KeyStream& stream, const TopKSelection& selection, double bound_factor)
        : selection_(selection), factor_(selection.epsilon / (2 * selection.sensitivity)), bound_factor_(bound_factor),
          high_words_(stream, domain::kGumbelHigh), low_words_(stream, domain::kGumbelLow), contest_(selection.picks) {}

    bool select(const Score* scores, std::size_t row, std::int64_t* indices) {
        contest_.clear();
        const double largest = *std::max_element(scores, scores + selection_.candidates);
        const std::uint64_t first_sample = std::uint64_t{row} * selection_.candidates;
        for (std::size_t i = 0; i < selection_.candidates; ++i) {
            const double signal = factor_ * (static_cast<double>(scores[i]) - largest);
            const std::uint32_t high_word = high_words_(first_sample + i);
            if (cannot_win(signal, high_word)) continue;
            const std::uint64_t prefix = (std::uint64_t{high_word} << 32) | low_words_(first_sample + i);
            contest_.enter(candidate(signal, gumbel_bracket(prefix), i, bound_factor_));
        }
        return contest_.decide(indices);
    }

    const Contest& contest() const { return contest_; }

private:
    // Spares most candidates both logarithms. The slack is far above every rounding here.
    bool cannot_win(double signal, std::uint32_t high_word) const {
        const double cap = gumbel_cap(high_word);
        return signal + cap + 0x1p-40 * (cap - signal) < contest_.threshold();
    }

    TopKSelection selection_;
    double factor_;
    double bound_factor_;
    SampleWords high_words_;
    SampleWords low_words_;
    Contest contest_;
};

void check_range(const char* name, double value) {
    if (value >= kSmallestScale && value <= kLargestScale) return;
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    throw std::invalid_argument(std::string(name) + " must be in [2^-100, 2^100], got " + text);
}

}  // namespace

void check_selection(const TopKSelection& selection) {
    if (selection.picks < 1) throw std::invalid_argument("k must be >= 1, got 0");
    if (selection.picks > selection.candidates) {
        throw std::invalid_argument("k must be at most the number of candidates, " + std::to_string(selection.candidates) + ", got " +
                                    std::to_string(selection.picks));
    }
    check_range("epsilon of a pick", selection.epsilon);
    check_range("sensitivity", selection.sensitivity);
}

template <class Score>
void check_scores(const Score* scores, std::size_t rows, std::size_t candidates) {
    for (std::size_t i = 0; i < rows * candidates; ++i) {
        if (std::isfinite(scores[i])) continue;
        const std::string value = std::isnan(scores[i]) ? "nan" : (scores[i] > 0 ? "inf" : "-inf");
        throw std::invalid_argument("scores must be finite, got " + value + " for candidate " + std::to_string(i % candidates) + " of row " +
                                    std::to_string(i / candidates));
    }
}

template <class Score>
std::vector<UndecidedRow> gumbel_top_k(const KeyStream& stream, const TopKSelection& selection, const Score* scores, std::size_t rows,
                                       std::int64_t* indices, double bound_factor) {
    std::vector<UndecidedRow> undecided;
    Mutex undecided_mutex;
    parallel_ranges(rows, selection.candidates, [&] {
        return [&, selector = Selector<Score>(stream, selection, bound_factor)](std::size_t begin, std::size_t end) mutable {
            for (std::size_t row = begin; row < end; ++row) {
                if (selector.select(scores + row * selection.candidates, row, indices + row * selection.picks)) continue;
                const std::lock_guard<Mutex> lock(undecided_mutex);
                undecided.push_back({row, selector.contest().candidates()});
            }
        };
    });
    std::sort(undecided.begin(), undecided.end(), [](const UndecidedRow& a, const UndecidedRow& b) { return a.row < b.row; });
    return undecided;
}

template void check_scores<float>(const float*, std::size_t, std::size_t);
template void check_scores<double>(const double*, std::size_t, std::size_t);
template std::vector<UndecidedRow> gumbel_top_k<float>(const KeyStream&, const TopKSelection&, const float*, std::size_t, std::int64_t*,
                                                       double);
template std::vector<UndecidedRow> gumbel_top_k<double>(const KeyStream&, const TopKSelection&, const double*, std::size_t,
                                                        std::int64_t*, double);

}  // namespace hushvec

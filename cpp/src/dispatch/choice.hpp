// One table of several: the first that this machine runs, or the one that a variable of the environment names.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hushvec {

template <class Table>
struct Candidate {
    const Table& table;
    bool (*runs_here)();
};

template <class Table>
class Choice {
public:
    // Best first.
    Choice(const char* variable, std::vector<Candidate<Table>> candidates) : variable_(variable), candidates_(std::move(candidates)) {}

    std::vector<std::string> compiled() const {
        std::vector<std::string> names;
        for (const auto& candidate : candidates_) names.emplace_back(candidate.table.name);
        return names;
    }

    std::vector<std::string> available() const {
        std::vector<std::string> names;
        for (const auto& candidate : candidates_) {
            if (candidate.runs_here()) names.emplace_back(candidate.table.name);
        }
        return names;
    }

    const Table& by_name(std::string_view name) const {
        for (const auto& candidate : candidates_) {
            if (name == candidate.table.name && candidate.runs_here()) return candidate.table;
        }
        std::string names;
        for (const std::string& one : available()) names += (names.empty() ? "" : ", ") + one;
        throw std::invalid_argument(std::string(variable_) + " must be one of " + names + " on this machine, got " + std::string(name));
    }

    const Table& best() const {
        const char* forced = std::getenv(variable_);
        if (forced != nullptr && *forced != '\0') return by_name(forced);
        for (const auto& candidate : candidates_) {
            if (candidate.runs_here()) return candidate.table;
        }
        return candidates_.back().table;
    }

private:
    const char* variable_;
    std::vector<Candidate<Table>> candidates_;
};

inline bool always() { return true; }

}  // namespace hushvec

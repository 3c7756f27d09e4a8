#include "memory.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "arithmetic.hpp"

namespace emulator {
namespace {

constexpr std::size_t kGap = 256;   // between allocations, so that an index off by one meets nobody's memory
constexpr std::size_t kMostPrinted = 3;

std::map<std::string, std::size_t>& faults() {
    static std::map<std::string, std::size_t> counts;
    return counts;
}

double allowed_error() {
    static const double factor = std::getenv("HUSHVEC_EMULATED_ERROR") != nullptr ? std::atof(std::getenv("HUSHVEC_EMULATED_ERROR")) : 0;
    return factor;
}

}  // namespace

Memory& memory() {
    static auto* const instance = new Memory;   // kernels register before main and are counted after it
    return *instance;
}

std::uint8_t* Memory::allocate(std::size_t bytes, int device) {
    const std::size_t rounded = (bytes + 255) / 256 * 256 + 2 * kGap;
    auto* const block = static_cast<std::uint8_t*>(std::aligned_alloc(256, rounded));
    if (block == nullptr) return nullptr;
    std::memset(block, 0xA5, rounded);
    std::uint8_t* const data = block + kGap;
    allocations_[reinterpret_cast<std::uintptr_t>(data)] = {data, bytes, device, {}};
    return data;
}

bool Memory::release(void* data) {
    const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(data));
    if (found == allocations_.end()) return false;
    std::memset(data, 0x5A, found->second.bytes);
    std::free(found->second.data - kGap);
    allocations_.erase(found);
    recent_ = {};
    return true;
}

Allocation* Memory::find(std::uint64_t address, std::size_t bytes) {
    const auto holds = [&](const Allocation& allocation) {
        const auto first = reinterpret_cast<std::uintptr_t>(allocation.data);
        return address >= first && address + bytes <= first + allocation.bytes;
    };
    for (Allocation* const recent : recent_) {
        if (recent != nullptr && holds(*recent)) return recent;
    }
    auto found = allocations_.upper_bound(address);
    if (found == allocations_.begin() || !holds((--found)->second)) return nullptr;
    return recent_[next_recent_++ % recent_.size()] = &found->second;
}

void Memory::add_constant(const void* data, std::size_t bytes) { constants_[reinterpret_cast<std::uintptr_t>(data)] = bytes; }

bool Memory::is_constant(std::uint64_t address, std::size_t bytes) const {
    auto found = constants_.upper_bound(address);
    if (found == constants_.begin()) return false;
    --found;
    return address + bytes <= found->first + found->second;
}

void report_fault(const std::string& what) {
    if (++faults()[what] == 1 && faults().size() <= kMostPrinted * 10) std::fprintf(stderr, "emulated device: %s\n", what.c_str());
}

std::size_t fault_count() {
    std::size_t count = 0;
    for (const auto& [what, times] : faults()) count += times;
    return count;
}


float perturbed(double value, double operand, double relative, double absolute) {
    const double factor = allowed_error();
    if (factor == 0 || !std::isfinite(value)) return static_cast<float>(value);
    std::uint64_t hash = std::bit_cast<std::uint64_t>(operand) ^ std::bit_cast<std::uint64_t>(value);
    for (int round = 0; round < 3; ++round) hash = (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9u;
    const double u = static_cast<double>(static_cast<std::int64_t>(hash)) * 0x1p-63;   // [-1, 1)
    return static_cast<float>(value + factor * u * (relative * std::fabs(value) + absolute));
}

}  // namespace emulator

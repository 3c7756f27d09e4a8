// Eight AES blocks as bit planes, for any machine: no load and no branch depends on the key or the data.
//
// Plane i has bit i of every byte of the state: a block is a 16-bit lane, byte 4 c + r (row r, column c) its bit 4 c + r.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lanes/aes/kernels.hpp"
#include "lanes/inline.hpp"

namespace hushvec {

// SubBytes on bit planes, plane 0 the lowest bit: Boyar and Peralta, "A depth-16 circuit for the AES S-box" (2012).
template <class Plane>
HUSHVEC_INLINE void aes_sub_bytes(Plane (&bit)[8]) {
    const Plane x0 = bit[7], x1 = bit[6], x2 = bit[5], x3 = bit[4], x4 = bit[3], x5 = bit[2], x6 = bit[1], x7 = bit[0];

    // into the tower field
    const Plane y14 = x3 ^ x5, y13 = x0 ^ x6, y9 = x0 ^ x3, y8 = x0 ^ x5, t0 = x1 ^ x2, y1 = t0 ^ x7, y4 = y1 ^ x3, y12 = y13 ^ y14;
    const Plane y2 = y1 ^ x0, y5 = y1 ^ x6, y3 = y5 ^ y8, t1 = x4 ^ y12, y15 = t1 ^ x5, y20 = t1 ^ x1, y6 = y15 ^ x7, y10 = y15 ^ t0;
    const Plane y11 = y20 ^ y9, y7 = x7 ^ y11, y17 = y10 ^ y11, y19 = y10 ^ y8, y16 = t0 ^ y11, y21 = y13 ^ y16, y18 = x0 ^ y16;

    // the inverse there
    const Plane t2 = y12 & y15, t3 = y3 & y6, t4 = t3 ^ t2, t5 = y4 & x7, t6 = t5 ^ t2, t7 = y13 & y16, t8 = y5 & y1, t9 = t8 ^ t7;
    const Plane t10 = y2 & y7, t11 = t10 ^ t7, t12 = y9 & y11, t13 = y14 & y17, t14 = t13 ^ t12, t15 = y8 & y10, t16 = t15 ^ t12;
    const Plane t17 = t4 ^ t14, t18 = t6 ^ t16, t19 = t9 ^ t14, t20 = t11 ^ t16, t21 = t17 ^ y20, t22 = t18 ^ y19, t23 = t19 ^ y21;
    const Plane t24 = t20 ^ y18, t25 = t21 ^ t22, t26 = t21 & t23, t27 = t24 ^ t26, t28 = t25 & t27, t29 = t28 ^ t22, t30 = t23 ^ t24;
    const Plane t31 = t22 ^ t26, t32 = t31 & t30, t33 = t32 ^ t24, t34 = t23 ^ t33, t35 = t27 ^ t33, t36 = t24 & t35, t37 = t36 ^ t34;
    const Plane t38 = t27 ^ t36, t39 = t29 & t38, t40 = t25 ^ t39, t41 = t40 ^ t37, t42 = t29 ^ t33, t43 = t29 ^ t40, t44 = t33 ^ t37;
    const Plane t45 = t42 ^ t41;
    const Plane z0 = t44 & y15, z1 = t37 & y6, z2 = t33 & x7, z3 = t43 & y16, z4 = t40 & y1, z5 = t29 & y7, z6 = t42 & y11;
    const Plane z7 = t45 & y17, z8 = t41 & y10, z9 = t44 & y12, z10 = t37 & y3, z11 = t33 & y4, z12 = t43 & y13, z13 = t40 & y5;
    const Plane z14 = t29 & y2, z15 = t42 & y9, z16 = t45 & y14, z17 = t41 & y8;

    // and back, with the affine map
    const Plane t46 = z15 ^ z16, t47 = z10 ^ z11, t48 = z5 ^ z13, t49 = z9 ^ z10, t50 = z2 ^ z12, t51 = z2 ^ z5, t52 = z7 ^ z8;
    const Plane t53 = z0 ^ z3, t54 = z6 ^ z7, t55 = z16 ^ z17, t56 = z12 ^ t48, t57 = t50 ^ t53, t58 = z4 ^ t46, t59 = z3 ^ t54;
    const Plane t60 = t46 ^ t57, t61 = z14 ^ t57, t62 = t52 ^ t58, t63 = t49 ^ t58, t64 = z4 ^ t59, t65 = t61 ^ t62, t66 = z1 ^ t63;
    const Plane t67 = t64 ^ t65, s3 = t53 ^ t66;
    bit[7] = t59 ^ t63;
    bit[6] = static_cast<Plane>(~(t64 ^ s3));
    bit[5] = static_cast<Plane>(~(t55 ^ t67));
    bit[4] = s3;
    bit[3] = t51 ^ t66;
    bit[2] = t47 ^ t65;
    bit[1] = static_cast<Plane>(~(t56 ^ t62));
    bit[0] = static_cast<Plane>(~(t48 ^ t60));
}

struct Bitsliced {
    static constexpr std::size_t blocks = 8;
    static constexpr std::size_t at_once = 1;
    typedef std::uint16_t Plane __attribute__((vector_size(16)));
    struct Blocks {
        Plane bit[8];
    };
    struct RoundKey {
        std::uint16_t bit[8];
    };

    struct Schedule {
        RoundKey keys[kAesRounds + 1];
        explicit Schedule(const AesRoundKeys& round_keys) {
            for (std::size_t round = 0; round <= kAesRounds; ++round) planes_of(round_keys.words + kAesBlockWords * round, keys[round].bit);
        }
        const RoundKey& operator[](std::size_t round) const { return keys[round]; }
    };

    static Blocks same(const RoundKey& key) {
        Blocks all;
        for (std::size_t i = 0; i < 8; ++i) all.bit[i] = Plane{} + key.bit[i];
        return all;
    }
    static Blocks same(const AesBlock& block) {
        RoundKey planes;
        planes_of(block.words, planes.bit);
        return same(planes);
    }
    static Blocks load(const AesBlock* p) {
        std::uint16_t planes[8][blocks];
        for (std::size_t block = 0; block < blocks; ++block) {
            std::uint16_t one[8];
            planes_of(p[block].words, one);
            for (std::size_t i = 0; i < 8; ++i) planes[i][block] = one[i];
        }
        Blocks v;
        std::memcpy(v.bit, planes, sizeof planes);
        return v;
    }
    static void store(void* p, const Blocks& v) {
        auto* bytes = static_cast<std::uint8_t*>(p);
        for (std::size_t block = 0; block < blocks; ++block) {
            std::uint64_t low = 0, high = 0;
            for (std::size_t i = 0; i < 8; ++i) {
                low |= std::uint64_t{v.bit[i][block] & 0xFFu} << (8 * i);
                high |= std::uint64_t{v.bit[i][block]} >> 8 << (8 * i);
            }
            const std::uint64_t halves[2] = {transposed(low), transposed(high)};
            std::memcpy(bytes + sizeof(AesBlock) * block, halves, sizeof halves);
        }
    }

    static Blocks bit_xor(const Blocks& a, const Blocks& b) {
        Blocks v;
        for (std::size_t i = 0; i < 8; ++i) v.bit[i] = a.bit[i] ^ b.bit[i];
        return v;
    }
    static Blocks round(Blocks state, const RoundKey& key) {
        aes_sub_bytes(state.bit);
        shift_rows(state);
        mix_columns(state);
        return bit_xor(state, same(key));
    }
    static Blocks last_round(Blocks state, const RoundKey& key) {
        aes_sub_bytes(state.bit);
        shift_rows(state);
        return bit_xor(state, same(key));
    }
    static std::uint32_t sub_word(std::uint32_t word) {
        const std::uint64_t planes = transposed(word);
        std::uint32_t bit[8];
        for (std::size_t i = 0; i < 8; ++i) bit[i] = static_cast<std::uint32_t>(planes >> (8 * i)) & 0xFu;
        aes_sub_bytes(bit);
        std::uint64_t changed = 0;
        for (std::size_t i = 0; i < 8; ++i) changed |= std::uint64_t{bit[i] & 0xFu} << (8 * i);
        return static_cast<std::uint32_t>(transposed(changed));
    }

private:
    // Eight bytes as a matrix of bits: bit j of byte i and bit i of byte j change places.
    static std::uint64_t transposed(std::uint64_t m) {
        const auto swap = [&](int distance, std::uint64_t mask) {
            const std::uint64_t changed = (m ^ (m >> distance)) & mask;
            m ^= changed ^ (changed << distance);
        };
        swap(7, 0x00AA00AA00AA00AAu);
        swap(14, 0x0000CCCC0000CCCCu);
        swap(28, 0x00000000F0F0F0F0u);
        return m;
    }
    static void planes_of(const std::uint32_t* block, std::uint16_t* planes) {
        const std::uint64_t low = transposed(block[0] | (std::uint64_t{block[1]} << 32));
        const std::uint64_t high = transposed(block[2] | (std::uint64_t{block[3]} << 32));
        for (std::size_t i = 0; i < 8; ++i) {
            planes[i] = static_cast<std::uint16_t>(((low >> (8 * i)) & 0xFF) | (((high >> (8 * i)) & 0xFF) << 8));
        }
    }

    // Row r moves r columns: a rotation by 4 r bits of its lane.
    static void shift_rows(Blocks& state) {
        for (Plane& p : state.bit) {
            p = (p & 0x1111) | (((p >> 4) | (p << 12)) & 0x2222) | (((p >> 8) | (p << 8)) & 0x4444) | (((p >> 12) | (p << 4)) & 0x8888);
        }
    }
    // a_r becomes 2 (a_r + a_(r+1)) + a_(r+1) + (a_(r+2) + a_(r+3)).
    static void mix_columns(Blocks& state) {
        Plane next[8], sum[8];
        for (std::size_t i = 0; i < 8; ++i) {
            const Plane p = state.bit[i];
            next[i] = ((p >> 1) & 0x7777) | ((p << 3) & 0x8888);
            sum[i] = p ^ next[i];
        }
        for (std::size_t i = 0; i < 8; ++i) {
            Plane doubled = sum[(i + 7) % 8];
            if (i == 1 || i == 3 || i == 4) doubled ^= sum[7];   // x^8 = x^4 + x^3 + x + 1
            state.bit[i] = doubled ^ next[i] ^ ((sum[i] >> 2) & 0x3333) ^ ((sum[i] << 2) & 0xCCCC);
        }
    }
};

}  // namespace hushvec

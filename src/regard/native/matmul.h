// Products of a few rows with a constant matrix: y = x W^T + b, in float32, bfloat16 or int8.
//
// W is packed once. Its outputs are split into panels of as many outputs as ACROSS registers hold; within a panel,
// everything for one input is contiguous. A tile of DOWN rows and one panel is summed in registers alone. Factors come
// in units of 32 bits, one float, two bfloat16 or four int8, and the loop is the same for all three:
//
//     float32   sum += x w
//     bfloat16  sum += x_1 w_1 + x_2 w_2                        (avx512_bf16)
//     int8      sum += x_1 w_1 + x_2 w_2 + x_3 w_3 + x_4 w_4    (avx512_vnni)
//
// In int8, row i of x is rounded to multiples of s_i = max |x_i| / 127, output j of W to multiples of t_j = max |w_j| /
// 127 (one scale for each output), and y_ij = s_i t_j sum + b_j. The instruction needs an unsigned left factor: 128 is
// added to it, and 128 sum_k w_jk subtracted at the end. NaN and infinity have no integer: 0 x, which is NaN for these
// and 0 otherwise, is added to a scale or a sum, so that they still reach y.

#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "vector_math.h"
#include "thread_team.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum class Precision : int { float32 = 0, bfloat16 = 1, int8 = 2 };

constexpr int ACROSS = REGISTERS == 32 ? 4 : 2;
constexpr int DOWN = 6;
constexpr int PANEL = ACROSS * LANES;
constexpr int INPUTS_AT_ONCE = 512;  // in float32, so that rows and panel stay in the L2 cache
constexpr size_t PIECE = 1 << 15;     // bytes of weights per piece of shared work

static inline bool offers(Precision precision) {
    switch (precision) {
        case Precision::float32:
            return true;
        case Precision::bfloat16:
#if defined(__AVX512BF16__)
            return true;
#else
            return false;
#endif
        case Precision::int8:
#if defined(__AVX512VNNI__)
            return true;
#else
            return false;
#endif
    }
    return false;
}

// Memory aligned to the width of a register.
template <class T>
class Aligned {
   public:
    void resize(size_t size) {
        if (size <= room) return;
        held.reset(static_cast<T*>(::operator new[](size * sizeof(T), std::align_val_t{64})));
        room = size;
    }
    T* data() { return held.get(); }
    const T* data() const { return held.get(); }

   private:
    struct Free {
        void operator()(T* what) const { ::operator delete[](what, std::align_val_t{64}); }
    };
    std::unique_ptr<T[], Free> held;
    size_t room = 0;
};

struct InFloat32 {
    using Sums = Floats;
    static constexpr int factors = 1;
    static inline Sums more(Sums sums, uint32_t x, const uint32_t* w) {
        float factor;
        std::memcpy(&factor, &x, sizeof factor);
        return sums + factor * load(reinterpret_cast<const float*>(w));
    }
};

#if defined(__AVX512BF16__)
struct InBfloat16 {
    using Sums = Floats;
    static constexpr int factors = 2;
    static inline Sums more(Sums sums, uint32_t x, const uint32_t* w) {
        return (Floats)_mm512_dpbf16_ps((__m512)sums, (__m512bh)_mm512_set1_epi32(x),
                                        (__m512bh)_mm512_load_si512(w));
    }
};
#endif

#if defined(__AVX512VNNI__)
struct InInt8 {
    using Sums = Ints;
    static constexpr int factors = 4;
    static inline Sums more(Sums sums, uint32_t x, const uint32_t* w) {
        return (Ints)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi32(x), _mm512_load_si512(w));
    }
};
#endif

// sums += x W^T for ROWS rows and one panel.
template <class Kind, int ROWS>
static inline void tile(typename Kind::Sums (&sums)[ROWS][ACROSS], const uint32_t* x, size_t stride, const uint32_t* w,
                        int units) {
    for (int unit = 0; unit < units; ++unit, w += PANEL) {
#pragma GCC unroll 8
        for (int row = 0; row < ROWS; ++row) {
#pragma GCC unroll 4
            for (int part = 0; part < ACROSS; ++part) {
                sums[row][part] = Kind::more(sums[row][part], x[row * stride + unit], w + part * LANES);
            }
        }
    }
}

static inline uint16_t to_bfloat16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FC0;  // NaN
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;    // round to nearest, ties to even
}

// One thread's scratch memory.
struct Scratch {
    Aligned<uint32_t> units;
    std::vector<float> scales;
    Aligned<float> asked, bent, scores;
    Team* team = nullptr;  // helpers for its products; null for none
    int64_t multiplied = 0;  // multiply-adds of all products so far
};

class Linear {
   public:
    int inputs = 0, outputs = 0;

    Linear() = default;

    // `weight` is outputs x inputs, as in torch; `bias` may be null. With `keep`, parts can be extracted later.
    Linear(const float* weight, const float* bias_, int outputs_, int inputs_, Precision precision_, bool keep = false)
        : inputs(inputs_), outputs(outputs_), precision(precision_) {
        units = (inputs + per_unit() - 1) / per_unit();
        std::vector<uint32_t> rows(size_t(outputs) * units);
        scales.assign(outputs, 1.0f);
        sums.assign(outputs, 0.0f);
        for (int j = 0; j < outputs; ++j) round(weight + size_t(j) * inputs, rows.data() + size_t(j) * units, j);
        std::vector<int32_t> every(outputs);
        for (int j = 0; j < outputs; ++j) every[j] = j;
        bias.assign(outputs, 0.0f);
        if (bias_) bias.assign(bias_, bias_ + outputs);
        pack(rows.data(), every.data(), bias.data(), scales.data(), sums.data());
        if (keep) {
            kept = std::move(rows);
            kept_bias.assign(bias.begin(), bias.begin() + outputs);
            kept_scales.assign(scales.begin(), scales.begin() + outputs);
            kept_sums.assign(sums.begin(), sums.begin() + outputs);
        }
    }

    // The layer restricted to some of the outputs, in the given order.
    Linear cut(const int32_t* chosen, int count) const {
        Linear part;
        part.inputs = inputs;
        part.outputs = count;
        part.precision = precision;
        part.units = units;
        part.pack(kept.data(), chosen, kept_bias.data(), kept_scales.data(), kept_sums.data());
        return part;
    }

    explicit operator bool() const { return outputs > 0; }

    // y = x W^T + b for `rows` rows, with strides of `x_stride` and `y_stride` floats.
    void apply(const float* x, size_t x_stride, int rows, float* y, size_t y_stride, Scratch& scratch) const {
        switch (precision) {
            case Precision::float32:
                return in_float32(x, x_stride, rows, y, y_stride, scratch);
            case Precision::bfloat16:
#if defined(__AVX512BF16__)
                return in_bfloat16(x, x_stride, rows, y, y_stride, scratch);
#endif
            case Precision::int8:
#if defined(__AVX512VNNI__)
                return in_int8(x, x_stride, rows, y, y_stride, scratch);
#endif
                return;
        }
    }

   private:
    Precision precision = Precision::float32;
    int units = 0;
    Aligned<uint32_t> packed;
    std::vector<float> bias, scales, sums;  // padded to the end of the last panel
    std::vector<uint32_t> kept;
    std::vector<float> kept_bias, kept_scales, kept_sums;

    int per_unit() const { return precision == Precision::float32 ? 1 : precision == Precision::bfloat16 ? 2 : 4; }

    // Convert one output's weights to units.
    void round(const float* weight, uint32_t* to, int j) {
        if (precision == Precision::float32) {
            std::memcpy(to, weight, inputs * sizeof(float));
        } else if (precision == Precision::bfloat16) {
            auto* halves = reinterpret_cast<uint16_t*>(to);
            for (int k = 0; k < inputs; ++k) halves[k] = to_bfloat16(weight[k]);
            for (int k = inputs; k < units * 2; ++k) halves[k] = 0;
        } else {
            float high = 0, none = 0;
            for (int k = 0; k < inputs; ++k) {
                high = std::fmax(high, std::fabs(weight[k]));
                none += 0.0f * weight[k];
            }
            scales[j] = high > 0 ? high / 127.0f : 1.0f;
            auto* quarters = reinterpret_cast<int8_t*>(to);
            int total = 0;
            for (int k = 0; k < inputs; ++k) {
                quarters[k] = int8_t(std::lrintf(weight[k] / scales[j]));
                total += quarters[k];
            }
            for (int k = inputs; k < units * 4; ++k) quarters[k] = 0;
            sums[j] = 128.0f * total + none;
        }
    }

    void pack(const uint32_t* rows, const int32_t* chosen, const float* biases, const float* factors,
              const float* totals) {
        const size_t panels = (outputs + PANEL - 1) / PANEL, wide = panels * PANEL;
        packed.resize(wide * units);
        std::vector<float> own_bias(wide, 0.0f), own_scales(wide, 0.0f), own_sums(wide, 0.0f);
        for (size_t panel = 0; panel < panels; ++panel) {
            uint32_t* to = packed.data() + panel * PANEL * units;
            for (int i = 0; i < PANEL; ++i) {
                const size_t j = panel * PANEL + i;
                if (j >= size_t(outputs)) {
                    for (int unit = 0; unit < units; ++unit) to[size_t(unit) * PANEL + i] = 0;
                    continue;
                }
                const uint32_t* from = rows + size_t(chosen[j]) * units;
                for (int unit = 0; unit < units; ++unit) to[size_t(unit) * PANEL + i] = from[unit];
                own_bias[j] = biases[chosen[j]];
                own_scales[j] = factors[chosen[j]];
                own_sums[j] = totals[chosen[j]];
            }
        }
        bias = std::move(own_bias);
        scales = std::move(own_scales);
        sums = std::move(own_sums);
    }

    // Write one row of a panel; the row may end within it.
    void write(float* y, size_t j, const Floats* values) const {
        if (j + PANEL <= size_t(outputs)) {
            for (int part = 0; part < ACROSS; ++part) store(y + j + part * LANES, values[part]);
        } else {
            std::memcpy(y + j, values, (outputs - j) * sizeof(float));
        }
    }

    Floats read(const float* y, size_t j, int part) const {
        const size_t first = j + part * LANES;
        if (first + LANES <= size_t(outputs)) return load(y + first);
        float rest[LANES] = {};
        if (first < size_t(outputs)) std::memcpy(rest, y + first, (outputs - first) * sizeof(float));
        return load(rest);
    }

    // Call body<n>(first row, first output) for all tiles, panel by panel, so that weights are read once. Sharing the
    // work changes no sum: each panel is computed by one thread. `deep` is the number of inputs.
    template <class Body>
    void over_tiles(int rows, int deep, Scratch& scratch, const Body& body) const {
        scratch.multiplied += int64_t(rows) * outputs * deep;
        const int panels = (outputs + PANEL - 1) / PANEL;
        const int each = int((PIECE - 1) / (size_t(PANEL) * units * sizeof(uint32_t))) + 1;
        if (!scratch.team || panels <= each) return over_panels(0, panels, rows, body);
        scratch.team->share((panels + each - 1) / each, [&](int piece) {
            over_panels(piece * each, std::min((piece + 1) * each, panels), rows, body);
        });
    }

    template <class Body>
    static void over_panels(int first, int end, int rows, const Body& body) {
        for (size_t j = size_t(first) * PANEL; j < size_t(end) * PANEL; j += PANEL) {
            int row = 0;
            for (; row + DOWN <= rows; row += DOWN) body.template operator()<DOWN>(row, j);
            switch (rows - row) {
                case 1: body.template operator()<1>(row, j); break;
                case 2: body.template operator()<2>(row, j); break;
                case 3: body.template operator()<3>(row, j); break;
                case 4: body.template operator()<4>(row, j); break;
                case 5: body.template operator()<5>(row, j); break;
            }
        }
    }

    void in_float32(const float* x, size_t x_stride, int rows, float* y, size_t y_stride, Scratch& scratch) const {
        const int step = rows <= 4 * DOWN ? inputs : INPUTS_AT_ONCE;
        for (int from = 0; from < inputs; from += step) {
            const int count = inputs - from < step ? inputs - from : step;
            over_tiles(rows, count, scratch, [&]<int ROWS>(int row, size_t j) {
                Floats total[ROWS][ACROSS];
                for (int i = 0; i < ROWS; ++i) {
                    for (int part = 0; part < ACROSS; ++part) {
                        total[i][part] = from ? read(y + (row + i) * y_stride, j, part)
                                              : load(bias.data() + j + part * LANES);
                    }
                }
                tile<InFloat32, ROWS>(total, reinterpret_cast<const uint32_t*>(x) + row * x_stride + from, x_stride,
                                      packed.data() + j * units + size_t(from) * PANEL, count);
                for (int i = 0; i < ROWS; ++i) write(y + (row + i) * y_stride, j, total[i]);
            });
        }
    }

#if defined(__AVX512BF16__)
    void in_bfloat16(const float* x, size_t x_stride, int rows, float* y, size_t y_stride, Scratch& scratch) const {
        scratch.units.resize(size_t(rows) * units);
        for (int row = 0; row < rows; ++row) {
            auto* halves = reinterpret_cast<uint16_t*>(scratch.units.data() + size_t(row) * units);
            const float* from = x + row * x_stride;
            int k = 0;
            for (; k + 16 <= inputs; k += 16) {
                const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + k));
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves + k), rounded);
            }
            for (; k < inputs; ++k) halves[k] = to_bfloat16(from[k]);
            for (; k < units * 2; ++k) halves[k] = 0;
        }
        over_tiles(rows, inputs, scratch, [&]<int ROWS>(int row, size_t j) {
            Floats total[ROWS][ACROSS];
            for (int i = 0; i < ROWS; ++i) {
                for (int part = 0; part < ACROSS; ++part) total[i][part] = load(bias.data() + j + part * LANES);
            }
            tile<InBfloat16, ROWS>(total, scratch.units.data() + size_t(row) * units, units,
                                   packed.data() + j * units, units);
            for (int i = 0; i < ROWS; ++i) write(y + (row + i) * y_stride, j, total[i]);
        });
    }
#endif

#if defined(__AVX512VNNI__)
    void in_int8(const float* x, size_t x_stride, int rows, float* y, size_t y_stride, Scratch& scratch) const {
        scratch.units.resize(size_t(rows) * units);
        scratch.scales.resize(rows);
        for (int row = 0; row < rows; ++row) {
            auto* quarters = reinterpret_cast<uint8_t*>(scratch.units.data() + size_t(row) * units);
            scratch.scales[row] = quantise(x + row * x_stride, quarters);
        }
        over_tiles(rows, inputs, scratch, [&]<int ROWS>(int row, size_t j) {
            Ints total[ROWS][ACROSS] = {};
            tile<InInt8, ROWS>(total, scratch.units.data() + size_t(row) * units, units, packed.data() + j * units,
                               units);
            for (int i = 0; i < ROWS; ++i) {
                Floats values[ACROSS];
                for (int part = 0; part < ACROSS; ++part) {
                    const size_t at = j + part * LANES;
                    const Floats whole = __builtin_convertvector(total[i][part], Floats);
                    values[part] = (whole - load(sums.data() + at)) * load(scales.data() + at) *
                                       scratch.scales[row + i] + load(bias.data() + at);
                }
                write(y + (row + i) * y_stride, j, values);
            }
        });
    }

    // Quantise a row to integers from 1 to 255, with 128 as zero; return the scale.
    float quantise(const float* x, uint8_t* to) const {
        Floats high = {}, none = {};
        int k = 0;
        for (; k + LANES <= inputs; k += LANES) {
            const Floats value = load(x + k);
            high = larger(high, value < 0.0f ? -value : value);
            none += 0.0f * value;
        }
        float highest = 0, not_one = sum(none);
        for (int i = 0; i < LANES; ++i) highest = high[i] > highest ? high[i] : highest;
        for (; k < inputs; ++k) {
            highest = std::fmax(highest, std::fabs(x[k]));
            not_one += 0.0f * x[k];
        }
        const float scale = highest > 0 ? highest / 127.0f : 1.0f, inverse = 1.0f / scale;
        for (k = 0; k + LANES <= inputs; k += LANES) {
            const __m512i whole = _mm512_cvtps_epi32((__m512)(load(x + k) * inverse));
            const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, _mm512_set1_epi32(128)));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + k), bytes);
        }
        for (; k < inputs; ++k) to[k] = uint8_t(std::lrintf(x[k] * inverse) + 128);
        for (; k < units * 4; ++k) to[k] = 128;
        return scale + not_one;
    }
#endif
};

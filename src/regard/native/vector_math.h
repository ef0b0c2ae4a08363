// Vectors of floats, as wide as the machine's registers, and the few functions that decoding needs.
//
// Written with the compiler's vector types, so that one source serves every machine; wider vectors than registers would
// be slow, and narrower ones a waste.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int LANES = 16;
constexpr int REGISTERS = 32;
#elif defined(__AVX__)
constexpr int LANES = 8;
constexpr int REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int LANES = 4;
constexpr int REGISTERS = 32;
#else
constexpr int LANES = 4;
constexpr int REGISTERS = 16;
#endif

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

constexpr float NEVER = -INFINITY;

static inline Floats load(const float* from) {
    Floats loaded;
    std::memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

static inline void store(float* to, Floats what) { std::memcpy(to, &what, sizeof what); }

static inline Floats all(float value) { return value - Floats{}; }

static inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// The sum of all lanes, by halves.
typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
typedef float Sixteen __attribute__((vector_size(64)));

static inline float sum(Four x) { return (x[0] + x[2]) + (x[1] + x[3]); }

static inline float sum(Eight x) {
    Four halves[2];
    std::memcpy(halves, &x, sizeof x);
    return sum(halves[0] + halves[1]);
}

static inline float sum(Sixteen x) {
    Eight halves[2];
    std::memcpy(halves, &x, sizeof x);
    return sum(halves[0] + halves[1]);
}

static inline size_t padded(size_t size) { return (size + LANES - 1) / LANES * LANES; }

// e^x = 2^n e^r with n = round(x / ln 2), so that |r| <= ln(2) / 2, where Taylor's polynomial of degree 7 is exact to
// the last bit of a float. NaN stays NaN; arguments out of range are clamped.
static inline Floats exponential(Floats x) {
    const Floats bounded = x < -87.0f ? all(-87.0f) : (x > 88.0f ? all(88.0f) : x);
    const float shifter = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers
    const Floats shifted = bounded * 1.44269504f + shifter;
    const Floats n = shifted - shifter;
    const Floats r = (bounded - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts
    Floats series = all(1.0f / 5040);
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    Ints bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000 + 127) << 23;  // 0x4B400000 is `shifter`
    Floats power;
    std::memcpy(&power, &bits, sizeof power);
    return series * power;
}

static inline Floats sigmoid(Floats x) { return 1.0f / (1.0f + exponential(-x)); }

static inline Floats tanh(Floats x) { return 1.0f - 2.0f / (1.0f + exponential(x + x)); }

static inline float dot(const float* a, const float* b, int size) {
    Floats lanes = {};
    int i = 0;
    for (; i + LANES <= size; i += LANES) lanes += load(a + i) * load(b + i);
    float total = sum(lanes);
    for (; i < size; ++i) total += a[i] * b[i];
    return total;
}

// to = sum_j factors_j vector(j), for `count` vectors; a few registers at a time, so that sums stay in registers.
template <class Vector>
static inline void mix(float* to, const float* factors, Vector&& vector, int count, int size) {
    constexpr int AT_ONCE = 4;
    int i = 0;
    for (; i + AT_ONCE * LANES <= size; i += AT_ONCE * LANES) {
        Floats sums[AT_ONCE] = {};
        for (int j = 0; j < count; ++j) {
            const float* from = vector(j) + i;
            for (int part = 0; part < AT_ONCE; ++part) sums[part] += factors[j] * load(from + part * LANES);
        }
        for (int part = 0; part < AT_ONCE; ++part) store(to + i + part * LANES, sums[part]);
    }
    for (; i < size; ++i) {
        float total = 0;
        for (int j = 0; j < count; ++j) total += factors[j] * vector(j)[i];
        to[i] = total;
    }
}

// Apply a function to arrays of any size; the rest is processed in a partially filled vector.
template <class Function>
static inline void each(float* to, const float* from, int size, Function function) {
    int i = 0;
    for (; i + LANES <= size; i += LANES) store(to + i, function(load(from + i)));
    if (i < size) {
        float rest[LANES] = {};
        std::memcpy(rest, from + i, (size - i) * sizeof(float));
        store(rest, function(load(rest)));
        std::memcpy(to + i, rest, (size - i) * sizeof(float));
    }
}

// weights = softmax(scores), in place; `scores` must have memory up to the next multiple of LANES.
static inline void softmax(float* scores, int size) {
    for (size_t i = size; i < padded(size); ++i) scores[i] = NEVER;
    Floats high = all(NEVER);
    for (int i = 0; i < size; i += LANES) high = larger(high, load(scores + i));
    float highest = NEVER;
    for (int i = 0; i < LANES; ++i) highest = high[i] > highest ? high[i] : highest;
    Floats total = {};
    for (int i = 0; i < size; i += LANES) {
        const Floats raised = exponential(load(scores + i) - highest);
        store(scores + i, raised);
        total += raised;
    }
    float whole = sum(total);
    // An empty position has e^-87: tiny, but not zero.
    for (size_t i = size; i < padded(size); ++i) whole -= scores[i];
    for (int i = 0; i < size; i += LANES) store(scores + i, load(scores + i) / whole);
}

// y = (x - mean) / sqrt(variance + epsilon) * scale + shift (Ba et al. 2016)
static inline void normalise(float* to, const float* from, const float* scale, const float* shift, float epsilon,
                             int size) {
    float mean = 0, variance = 0;
    int i = 0;
    Floats lanes = {};
    for (; i + LANES <= size; i += LANES) lanes += load(from + i);
    mean = sum(lanes);
    for (; i < size; ++i) mean += from[i];
    mean /= size;
    lanes = Floats{};
    for (i = 0; i + LANES <= size; i += LANES) {
        const Floats apart = load(from + i) - mean;
        lanes += apart * apart;
    }
    variance = sum(lanes);
    for (; i < size; ++i) variance += (from[i] - mean) * (from[i] - mean);
    const float factor = 1.0f / std::sqrt(variance / size + epsilon);
    for (i = 0; i + LANES <= size; i += LANES) {
        store(to + i, (load(from + i) - mean) * factor * load(scale + i) + load(shift + i));
    }
    for (; i < size; ++i) to[i] = (from[i] - mean) * factor * scale[i] + shift[i];
}

// The C interface for Python: build a model, search with it, read the results.

#include "encoder.h"
#include "beam_search.h"

// Build an object of one of two kinds; null if out of memory.
template <class Part, class First, class Second>
static void* made(int kind, Reader reader) {
    try {
        return kind == 0 ? static_cast<Part*>(new First(reader)) : static_cast<Part*>(new Second(reader));
    } catch (const std::exception&) {
        return nullptr;
    }
}

extern "C" {

// Whether this machine supports a precision: 0 float32, 1 bfloat16, 2 int8.
int regard_offers(int precision) { return offers(Precision(precision)); }

// Read a decoder: kind 0 is recurrent, 1 a Transformer. All arrays are copied.
void* regard_model(int kind, const int64_t* numbers, const float* const* arrays, int precision) {
    return made<Model, Recurrent, Transformer>(kind, Reader(numbers, arrays, Precision(precision)));
}

void regard_forget_model(void* model) { delete static_cast<Model*>(model); }

// Read an encoder and its embedding: kind 0 is recurrent, 1 a Transformer. All arrays are copied.
void* regard_encoder(int kind, const int64_t* numbers, const float* const* arrays, int precision) {
    return made<Encoder, RecurrentEncoder, TransformerEncoder>(kind, Reader(numbers, arrays, Precision(precision)));
}

void regard_forget_encoder(void* encoder) { delete static_cast<Encoder*>(encoder); }

// Encode some sentences with this many threads; return 0 if out of memory, else 1. Padding is not written.
int regard_read(const void* encoder, const int32_t* tokens, const int64_t* lengths, int count, int64_t stride,
                int threads, float* states, float* summary) {
    try {
        Scratch scratch;
        Team team(threads - 1);
        if (threads > 1) scratch.team = &team;
        static_cast<const Encoder*>(encoder)->read({tokens, lengths, count, size_t(stride), states, summary}, scratch);
        return 1;
    } catch (const std::exception&) {
        return 0;
    }
}

// A fingerprint of some arrays from a few samples of each, so that it takes no time. Training changes all of them.
uint64_t regard_fingerprint(const float* const* arrays, const int64_t* sizes, int count) {
    constexpr int64_t PLACES = 61;
    uint64_t found = 0;
    for (int array = 0; array < count; ++array) {
        const int64_t apart = std::max<int64_t>(1, sizes[array] / PLACES);
        for (int64_t at = 0; at < sizes[array]; at += apart) {
            uint32_t bits;
            std::memcpy(&bits, arrays[array] + at, sizeof bits);
            found = (found ^ bits) * 0x9E3779B97F4A7C15u;
            found ^= found >> 29;
        }
    }
    return found;
}

// Search for all sentences; the inputs are not kept.
void* regard_search(const void* model, const Options* options, const Task* tasks, const float* const* parts, int count,
                    const int32_t* prefixes, const int32_t* words, const int32_t* banned, int banned_count) {
    auto result = std::make_unique<Result>();
    try {
        Search(*static_cast<const Model*>(model), *options, tasks, parts, count, prefixes, words, banned, banned_count)
            .run(*result);
    } catch (const std::exception& error) {
        result->error = error.what();
    }
    return result.release();
}

int64_t regard_broken(const void* result) { return static_cast<const Result*>(result)->broken; }
const char* regard_error(const void* result) { return static_cast<const Result*>(result)->error.c_str(); }

// One of the arrays of a result, and its size: 0 counts, 1 lengths (int64); 2 scores, 3 log-probabilities, 4 weights
// (float); 5 tokens (int32); 6 work (int64).
const void* regard_array(const void* from, int which, int64_t* size) {
    const auto& result = *static_cast<const Result*>(from);
    const auto give = [size](const auto& values) -> const void* {
        *size = int64_t(values.size());
        return values.data();
    };
    switch (which) {
        case 0: return give(result.counts);
        case 1: return give(result.lengths);
        case 2: return give(result.scores);
        case 3: return give(result.log_probs);
        case 4: return give(result.weights);
        case 5: return give(result.tokens);
        default: return give(result.work);
    }
}

void regard_forget_result(void* result) { delete static_cast<Result*>(result); }

// y = x W^T + b, for tests and benchmarks.
void regard_product(const float* x, int rows, const float* weight, const float* bias, int outputs, int inputs,
                    int precision, float* y) {
    Scratch scratch;
    Linear(weight, bias, outputs, inputs, Precision(precision)).apply(x, inputs, rows, y, outputs, scratch);
}
}

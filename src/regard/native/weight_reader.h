// What a search needs from a model, and how a model is read from the numbers and arrays that Python lays out.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "matmul.h"

// One sentence, as returned by the decoder's `start`; the meaning of `parts` depends on the model.
struct Source {
    int length = 0;
    size_t stride = 0;  // positions from one group of keys or values to the next
    const float* const* parts = nullptr;
};

// The KV cache of one sentence's hypotheses: one block per step, never moved.
struct Past {
    std::vector<std::unique_ptr<float[]>> steps;
};

// One live hypothesis before a step.
struct Row {
    const Source* source;
    Past* past;
    const int32_t* path;  // its slot, or its ancestor's, in the sentence at each previous step
        int slot;             // its current slot
    int slots;            // number of slots in its sentence
    int parent;           // the row of the previous step that it extends
    int32_t token;        // the last token
    int position;         // number of previous steps
    float* weights;       // output of attention weights (layers x heads x length); may be null
};

// One thread's own state, which changes from step to step.
class Stepper {
   public:
    Scratch scratch;

    virtual ~Stepper() = default;
    // Allocate state for this many rows.
    virtual void reserve(int rows) = 0;
    // Make row `row` of the previous state the start of a sentence.
    virtual void begin(const Source& source, int row) = 0;
    // Run one step of all rows; return the output layer's input, row after row.
    virtual const float* step(const std::vector<Row>& rows) = 0;
};

class Model {
   public:
    virtual ~Model() = default;
    Linear output;
    virtual std::unique_ptr<Stepper> stepper() const = 0;
    // Layers and heads of the attention to the source.
    virtual int layers() const = 0;
    virtual int heads() const = 0;
    // Number of pointers per source.
    virtual int parts() const = 0;
};

// Reads what `regard.native.weight_layout` wrote, in the same order.
class Reader {
   public:
    const Precision precision;

    Reader(const int64_t* numbers_, const float* const* arrays_, Precision precision_)
        : precision(precision_), numbers(numbers_), arrays(arrays_) {}

    int number() { return int(*numbers++); }
    float real() { return **arrays++; }

    std::vector<float> values() {
        const int64_t size = *numbers++;
        const float* from = *arrays++;
        return from ? std::vector<float>(from, from + size) : std::vector<float>();
    }

    // A layer without outputs is absent. With `keep`, parts can be extracted later.
    Linear linear(bool keep = false) {
        const int outputs = number(), inputs = number();
        const float* weight = *arrays++;
        const float* bias = *arrays++;
        return outputs ? Linear(weight, bias, outputs, inputs, precision, keep) : Linear();
    }

   private:
    const int64_t* numbers;
    const float* const* arrays;
};

// Token embeddings: a table, a scale, and positions if the model has them.
struct Embedding {
    int width;
    float scale;
    std::vector<float> table, positions;

    explicit Embedding(Reader& reader) : width(reader.number()), scale(reader.real()) {
        table = reader.values();
        positions = reader.values();
    }

    void look_up(int32_t token, int position, float* to) const {
        const float* from = table.data() + size_t(token) * width;
        const float* place = positions.empty() ? nullptr : positions.data() + size_t(position) * width;
        for (int i = 0; i < width; ++i) to[i] = from[i] * scale + (place ? place[i] : 0.0f);
    }
};

// What a search knows of a model, and how a model is read from the numbers and arrays that Python lays out.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "matmul.h"

// One sentence, as the decoder's `start` left it; what `parts` are is the model's own matter.
struct Source {
    int length = 0;
    size_t stride = 0;  // places from one group of keys or values to the next
    const float* const* parts = nullptr;
};

// Keys and values of all hypotheses' steps so far, of one sentence: one block a step, never moved.
struct Past {
    std::vector<std::unique_ptr<float[]>> steps;
};

// One live hypothesis, about to take a step.
struct Row {
    const Source* source;
    Past* past;
    const int32_t* path;  // in which slot of its sentence it, or what it came from, was at each step before
    int slot;             // and where it is now
    int slots;            // how many its sentence has
    int parent;           // the row of the step before that it goes on from
    int32_t token;        // what that wrote
    int position;         // how many steps were taken before
    float* weights;       // where to write what it looks at (layers x heads x length); may be null
};

// One thread's own copy of what changes from step to step.
class Stepper {
   public:
    Scratch scratch;

    virtual ~Stepper() = default;
    // Make room for the state of this many rows.
    virtual void reserve(int rows) = 0;
    // Let row `row` of what the next step goes on from be the beginning of a sentence.
    virtual void begin(const Source& source, int row) = 0;
    // Take one step of all rows; return what the output layer reads, row after row.
    virtual const float* step(const std::vector<Row>& rows) = 0;
};

class Model {
   public:
    virtual ~Model() = default;
    Linear output;
    virtual std::unique_ptr<Stepper> stepper() const = 0;
    // Layers and heads of the looks at the source.
    virtual int layers() const = 0;
    virtual int heads() const = 0;
    // How many pointers a source has.
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

    // A layer without outputs is none. With `keep`, parts can be cut out of it later.
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

// Tokens as vectors: a table, a factor, and positions where the model has them.
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

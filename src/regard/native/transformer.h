// The Transformer's decoder, one step of all live hypotheses.
//
//     x = E y + position
//     of each layer:   x += W_o attend(x, the hypothesis's own past)
//                      x += W_o attend(x, the source)
//                      x += W_2 f(W_1 x + b_1) + b_2
//
// with a norm before each sublayer, and one at the end (pre), or after each sum (post). Keys and values of a step are
// written once and never moved: a hypothesis finds its past by the slots of its ancestors.

#pragma once

#include "attention.h"

enum class Activation : int { relu = 0, gelu = 1 };

struct Norm {
    std::vector<float> scale, shift;
    float epsilon = 0;

    Norm() = default;
    explicit Norm(Reader& reader) {
        scale = reader.values();
        shift = reader.values();
        epsilon = reader.real();
    }

    void apply(const float* from, float* to, int rows) const {
        const size_t size = scale.size();
        for (int row = 0; row < rows; ++row) {
            normalise(to + row * size, from + row * size, scale.data(), shift.data(), epsilon, int(size));
        }
    }
};

struct Layer {
    Norm around_past, around_source, around_network;
    Linear asked;  // queries, keys and values of a step, concatenated
    Linear joined;
    Look source_look;
    Linear first, last;

    Layer(Reader& reader, bool reads) {
        around_past = Norm(reader);
        asked = reader.linear();
        joined = reader.linear();
        if (reads) {
            around_source = Norm(reader);
            source_look = Look(reader);
        }
        around_network = Norm(reader);
        first = reader.linear();
        last = reader.linear();
    }
};

// What the layers of a stack have in common.
struct Shape {
    int width, heads, groups, head_width;  // heads of the self-attention
    bool norm_first;
    Activation activation;

    explicit Shape(Reader& reader)
        : width(reader.number()),
          heads(reader.number()),
          groups(reader.number()),
          head_width(reader.number()),
          norm_first(reader.number()),
          activation(Activation(reader.number())) {}
};

// One thread's scratch memory, and the sublayers that encoder and decoder share.
struct Room {
    const Shape& shape;
    Aligned<float> states, entering, found, asked, seen, inner, scores;

    explicit Room(const Shape& shape_) : shape(shape_) {}

    void reserve(int rows) {
        for (auto* part : {&states, &entering, &found}) part->resize(size_t(rows) * shape.width);
    }

    // The residual and norm around a sublayer, which writes its output to `found`.
    template <class Part>
    void around(const Norm& norm, int rows, Part&& part) {
        const size_t size = size_t(rows) * shape.width;
        if (shape.norm_first) norm.apply(states.data(), entering.data(), rows);
        part(shape.norm_first ? entering.data() : states.data());
        for (size_t i = 0; i < size; ++i) states.data()[i] += found.data()[i];
        if (!shape.norm_first) norm.apply(states.data(), states.data(), rows);
    }

    void think(const Layer& layer, const float* from, int rows, Scratch& scratch) {
        const size_t wide = layer.first.outputs;
        inner.resize(rows * wide);
        layer.first.apply(from, shape.width, rows, inner.data(), wide, scratch);
        float* units = inner.data();
        if (shape.activation == Activation::relu) {
            for (size_t i = 0; i < rows * wide; ++i) units[i] = units[i] < 0 ? 0 : units[i];
        } else {
            for (size_t i = 0; i < rows * wide; ++i) units[i] *= 0.5f * (1.0f + std::erf(units[i] * 0.70710678f));
        }
        layer.last.apply(units, wide, rows, found.data(), shape.width, scratch);
    }
};

class Transformer : public Model {
   public:
    const Shape shape;
    const bool reads;
    const Embedding embedding;
    std::vector<Layer> stack;
    Norm norm;

    explicit Transformer(Reader& reader) : shape(reader), reads(reader.number()), embedding(reader) {
        const int depth = reader.number();
        for (int layer = 0; layer < depth; ++layer) stack.emplace_back(reader, reads);
        if (shape.norm_first) norm = Norm(reader);
        output = reader.linear(true);
    }

    // Keys and values of one step of one hypothesis in one layer.
    size_t remembered() const { return 2 * size_t(shape.groups) * shape.head_width; }

    int layers() const override { return reads ? int(stack.size()) : 0; }
    int heads() const override { return reads ? stack[0].source_look.heads : 1; }
    // Keys and values of each layer.
    int parts() const override { return 2 * int(stack.size()); }
    std::unique_ptr<Stepper> stepper() const override;
};

class TransformerStepper : public Stepper {
   public:
    explicit TransformerStepper(const Transformer& model_) : model(model_), room(model_.shape) {}

    void reserve(int) override {}
    void begin(const Source&, int) override {}

    const float* step(const std::vector<Row>& rows) override {
        const int count = int(rows.size());
        const size_t width = model.shape.width;
        room.reserve(count);
        for (int row = 0; row < count; ++row) {
            model.embedding.look_up(rows[row].token, rows[row].position, room.states.data() + row * width);
            auto& steps = rows[row].past->steps;
            if (steps.size() == size_t(rows[row].position)) {
                steps.emplace_back(new float[rows[row].slots * model.stack.size() * model.remembered()]);
            }
        }
        for (size_t layer = 0; layer < model.stack.size(); ++layer) {
            const Layer& own = model.stack[layer];
            room.around(own.around_past, count, [&](const float* from) { look_back(own, from, layer, rows); });
            if (model.reads) {
                room.around(own.around_source, count, [&](const float* from) {
                    own.source_look.look_all(from, rows, 2 * layer, layer, room.found, room.seen, scratch);
                });
            }
            room.around(own.around_network, count, [&](const float* from) { room.think(own, from, count, scratch); });
        }
        if (!model.shape.norm_first) return room.states.data();
        model.norm.apply(room.states.data(), room.entering.data(), count);
        return room.entering.data();
    }

   private:
    const Transformer& model;
    Room room;
    std::vector<const float*> places;

    void look_back(const Layer& own, const float* from, size_t layer, const std::vector<Row>& rows) {
        const Shape& shape = model.shape;
        const int count = int(rows.size());
        const size_t queries = size_t(shape.heads) * shape.head_width, wide = own.asked.outputs;
        const size_t remembered = model.remembered(), depth = model.stack.size();
        room.asked.resize(count * wide);
        room.seen.resize(count * queries);
        own.asked.apply(from, shape.width, count, room.asked.data(), wide, scratch);
        for (int row = 0; row < count; ++row) {
            const Row& one = rows[row];
            const float* asked = room.asked.data() + row * wide;
            float* block = one.past->steps[one.position].get();
            std::memcpy(block + (one.slot * depth + layer) * remembered, asked + queries, remembered * sizeof(float));
            look_at_path(asked, one, layer, room.seen.data() + row * queries);
        }
        own.joined.apply(room.seen.data(), queries, count, room.found.data(), shape.width, scratch);
    }

    // softmax(q . k / sqrt(d)) v over all steps of a hypothesis, this one last
    void look_at_path(const float* queries, const Row& row, size_t layer, float* contexts) {
        const Shape& shape = model.shape;
        const int steps = row.position + 1, heads = shape.heads, size = shape.head_width;
        const size_t stride = padded(steps), depth = model.stack.size(), remembered = model.remembered();
        const float scale = 1.0f / std::sqrt(float(size));
        room.scores.resize(heads * stride);
        places.resize(steps);
        for (int t = 0; t < steps; ++t) {
            const size_t slot = t < row.position ? row.path[t] : row.slot;
            places[t] = row.past->steps[t].get() + (slot * depth + layer) * remembered;
            for (int head = 0; head < heads; ++head) {
                const float* key = places[t] + head / (heads / shape.groups) * size;
                room.scores.data()[head * stride + t] = scale * dot(queries + head * size, key, size);
            }
        }
        for (int head = 0; head < heads; ++head) {
            float* weights = room.scores.data() + head * stride;
            softmax(weights, steps);
            const size_t group = shape.groups + head / (heads / shape.groups);
            const auto value = [&](int t) { return places[t] + group * size; };
            mix(contexts + head * size, weights, value, steps, size);
        }
    }
};

inline std::unique_ptr<Stepper> Transformer::stepper() const { return std::make_unique<TransformerStepper>(*this); }

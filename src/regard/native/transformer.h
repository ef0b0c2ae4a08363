// The Transformer's decoder, one step of all live hypotheses.
//
//     x = E y + position
//     of each layer:   x += W_o look(x at the hypothesis's own past)
//                      x += W_o look(x at the source)
//                      x += W_2 f(W_1 x + b_1) + b_2
//
// with a norm before each part, and one at the end (pre), or after each sum (post). Keys and values of a step are
// written once and stay where they are: a hypothesis knows its past by the slots that it went through.

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
    Linear asked;  // queries, keys and values of a step, one after the other
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

class Transformer : public Model {
   public:
    int width, own_heads, groups, head_width;
    bool reads, norm_first;
    Activation activation;
    Embedding embedding;
    std::vector<Layer> stack;
    Norm norm;

    explicit Transformer(Reader& reader)
        : width(reader.number()),
          own_heads(reader.number()),
          groups(reader.number()),
          head_width(reader.number()),
          reads(reader.number()),
          norm_first(reader.number()),
          activation(Activation(reader.number())),
          embedding(reader) {
        const int depth = reader.number();
        for (int layer = 0; layer < depth; ++layer) stack.emplace_back(reader, reads);
        if (norm_first) norm = Norm(reader);
        output = reader.linear(true);
    }

    // Keys and values of one step of one hypothesis in one layer.
    size_t remembered() const { return 2 * size_t(groups) * head_width; }

    int layers() const override { return reads ? int(stack.size()) : 0; }
    int heads() const override { return reads ? stack[0].source_look.heads : 1; }
    // Keys and values of each layer.
    int parts() const override { return 2 * int(stack.size()); }
    std::unique_ptr<Stepper> stepper() const override;
};

class TransformerStepper : public Stepper {
   public:
    explicit TransformerStepper(const Transformer& model_) : model(model_) {}

    void reserve(int) override {}
    void begin(const Source&, int) override {}

    const float* step(const std::vector<Row>& rows) override {
        const int count = int(rows.size());
        const size_t width = model.width;
        for (auto* room : {&states, &entering, &found}) room->resize(count * width);
        for (int row = 0; row < count; ++row) {
            model.embedding.look_up(rows[row].token, rows[row].position, states.data() + row * width);
            auto& steps = rows[row].past->steps;
            if (steps.size() == size_t(rows[row].position)) {
                steps.emplace_back(new float[rows[row].slots * model.stack.size() * model.remembered()]);
            }
        }
        for (size_t layer = 0; layer < model.stack.size(); ++layer) {
            const Layer& own = model.stack[layer];
            around(own.around_past, count, [&](const float* from) { look_back(own, from, layer, rows); });
            if (model.reads) {
                around(own.around_source, count, [&](const float* from) {
                    own.source_look.look_all(from, rows, 2 * layer, layer, found, seen, scratch);
                });
            }
            around(own.around_network, count, [&](const float* from) { think(own, from, count); });
        }
        if (!model.norm_first) return states.data();
        model.norm.apply(states.data(), entering.data(), count);
        return entering.data();
    }

   private:
    const Transformer& model;
    Aligned<float> states, entering, found, asked, seen, inner, scores;
    std::vector<const float*> places;

    // The sum around a part, and its norm; the part leaves what it finds in `found`.
    template <class Part>
    void around(const Norm& norm, int count, Part&& part) {
        const size_t size = size_t(count) * model.width;
        if (model.norm_first) norm.apply(states.data(), entering.data(), count);
        part(model.norm_first ? entering.data() : states.data());
        for (size_t i = 0; i < size; ++i) states.data()[i] += found.data()[i];
        if (!model.norm_first) norm.apply(states.data(), states.data(), count);
    }

    void look_back(const Layer& own, const float* from, size_t layer, const std::vector<Row>& rows) {
        const int count = int(rows.size());
        const size_t queries = size_t(model.own_heads) * model.head_width, wide = own.asked.outputs;
        const size_t remembered = model.remembered(), depth = model.stack.size();
        asked.resize(count * wide);
        seen.resize(count * queries);
        own.asked.apply(from, model.width, count, asked.data(), wide, scratch);
        for (int row = 0; row < count; ++row) {
            const Row& one = rows[row];
            float* block = one.past->steps[one.position].get();
            std::memcpy(block + (one.slot * depth + layer) * remembered, asked.data() + row * wide + queries,
                        remembered * sizeof(float));
            look_at_path(asked.data() + row * wide, one, layer, seen.data() + row * queries);
        }
        own.joined.apply(seen.data(), queries, count, found.data(), model.width, scratch);
    }

    // softmax(q . k / sqrt(d)) v over all steps of a hypothesis, this one last
    void look_at_path(const float* queries, const Row& row, size_t layer, float* contexts) {
        const int steps = row.position + 1, heads = model.own_heads, size = model.head_width;
        const size_t room = padded(steps), depth = model.stack.size(), remembered = model.remembered();
        const float scale = 1.0f / std::sqrt(float(size));
        scores.resize(heads * room);
        places.resize(steps);
        for (int t = 0; t < steps; ++t) {
            const size_t slot = t < row.position ? row.path[t] : row.slot;
            places[t] = row.past->steps[t].get() + (slot * depth + layer) * remembered;
            for (int head = 0; head < heads; ++head) {
                const float* key = places[t] + head / (heads / model.groups) * size;
                scores.data()[head * room + t] = scale * dot(queries + head * size, key, size);
            }
        }
        for (int head = 0; head < heads; ++head) {
            float* weights = scores.data() + head * room;
            softmax(weights, steps);
            const size_t group = model.groups + head / (heads / model.groups);
            const auto value = [&](int t) { return places[t] + group * size; };
            mix(contexts + head * size, weights, value, steps, size);
        }
    }

    void think(const Layer& own, const float* from, int count) {
        const size_t wide = own.first.outputs;
        inner.resize(count * wide);
        own.first.apply(from, model.width, count, inner.data(), wide, scratch);
        float* units = inner.data();
        if (model.activation == Activation::relu) {
            for (size_t i = 0; i < count * wide; ++i) units[i] = units[i] > 0 ? units[i] : 0;
        } else {
            for (size_t i = 0; i < count * wide; ++i) units[i] *= 0.5f * (1.0f + std::erf(units[i] * 0.70710678f));
        }
        own.last.apply(units, wide, count, found.data(), model.width, scratch);
    }
};

inline std::unique_ptr<Stepper> Transformer::stepper() const { return std::make_unique<TransformerStepper>(*this); }

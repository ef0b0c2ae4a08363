// Attention of each hypothesis to its source: softmax over all positions, any number of heads.
//
//     e_j = s q . k_j                       (dot, general, scaled-dot: keys are those of `Attention.remember`)
//     e_j = v . tanh(W_a q + k_j)           (additive, concat)
//     w = softmax(e)    c = sum_j w_j v_j
//
// The hypotheses of a sentence share its keys and values, without copies.

#pragma once

#include "weight_reader.h"

class Look {
   public:
    int heads = 1, groups = 1, key_width = 0, value_width = 0;
    float scale = 1.0f;
    std::vector<float> vector;  // v; empty if the score is an inner product
    Linear queries;             // for all heads; empty if there is no projection
    Linear hidden;              // W_a
    Linear output;              // over all heads' contexts; empty if there is no projection

    Look() = default;

    explicit Look(Reader& reader)
        : heads(reader.number()),
          groups(reader.number()),
          key_width(reader.number()),
          value_width(reader.number()),
          scale(reader.real()) {
        vector = reader.values();
        queries = reader.linear();
        hidden = reader.linear();
        output = reader.linear();
    }

    int context_width() const { return output ? output.outputs : heads * value_width; }

    // Attend with every row to its source, whose keys are part number `part` and whose values are the next part.
    // `layer` is the index of the weights to store. `seen` is memory for the heads' contexts.
    void look_all(const float* query, const std::vector<Row>& rows, size_t part, size_t layer, Aligned<float>& contexts,
                  Aligned<float>& seen, Scratch& scratch) const {
        const int count = int(rows.size());
        size_t stride = queries ? queries.inputs : hidden ? hidden.inputs : heads * key_width;
        for (const Linear* map : {&queries, &hidden}) {
            if (!*map) continue;
            Aligned<float>& to = map == &queries ? scratch.asked : scratch.bent;
            to.resize(size_t(count) * map->outputs);
            map->apply(query, stride, count, to.data(), map->outputs, scratch);
            query = to.data();
            stride = map->outputs;
        }
        const size_t wide = heads * value_width;
        seen.resize(count * wide);
        for (int row = 0; row < count; ++row) {
            const Source& source = *rows[row].source;
            float* weights = rows[row].weights;
            float* to = (output ? seen.data() : contexts.data()) + row * wide;
            look(query + row * stride, source, part, to, weights ? weights + layer * heads * source.length : nullptr,
                 scratch);
        }
        if (output) output.apply(seen.data(), wide, count, contexts.data(), output.outputs, scratch);
    }

   private:
    void look(const float* query, const Source& source, size_t part, float* seen, float* weights,
              Scratch& scratch) const {
        scratch.scores.resize(padded(source.length));
        float* scores = scratch.scores.data();
        for (int head = 0; head < heads; ++head) {
            const size_t group = head / (heads / groups);
            const float* keys = source.parts[part] + group * source.stride * key_width;
            const float* values = source.parts[part + 1] + group * source.stride * value_width;
            score(query + size_t(head) * key_width, keys, source.length, scores);
            softmax(scores, source.length);
            const auto value = [&](int j) { return values + size_t(j) * value_width; };
            mix(seen + size_t(head) * value_width, scores, value, source.length, value_width);
            if (weights) std::memcpy(weights + size_t(head) * source.length, scores, source.length * sizeof(float));
        }
    }

    void score(const float* query, const float* keys, int length, float* to) const {
        for (int j = 0; j < length; ++j, keys += key_width) {
            to[j] = vector.empty() ? scale * dot(query, keys, key_width) : bend(query, keys);
        }
    }

    float bend(const float* query, const float* key) const {
        Floats lanes = {};
        int i = 0;
        for (; i + LANES <= key_width; i += LANES) {
            lanes += load(vector.data() + i) * tanh(load(query + i) + load(key + i));
        }
        float total = sum(lanes);
        for (; i < key_width; ++i) total += vector[i] * std::tanh(query[i] + key[i]);
        return total;
    }
};

// The encoders: all tokens of some sentences at once, concatenated without padding.
//
//     Transformer   of each layer:  x += W_o attend(x, its sentence)     x += W_2 f(W_1 x + b_1) + b_2
//     recurrent     of each layer:  h_j = f(h_j-1, x_j), and in reverse, if bidirectional
//
// A sentence's states do not depend on the others in its batch.

#pragma once

#include <numeric>

#include "recurrent.h"
#include "transformer.h"

// Some sentences, and where to write their states: `tokens` and `states` have `stride` positions for each.
struct Text {
    const int32_t* tokens;
    const int64_t* lengths;
    int count;
    size_t stride;
    float* states;
    float* summary;  // one block for each sentence, if the encoder has one
};

class Encoder {
   public:
    virtual ~Encoder() = default;
    virtual void read(const Text& text, Scratch& scratch) const = 0;
};

class TransformerEncoder : public Encoder {
   public:
    explicit TransformerEncoder(Reader& reader) : shape(reader), embedding(reader) {
        const int depth = reader.number();
        for (int layer = 0; layer < depth; ++layer) stack.emplace_back(reader, false);
        if (shape.norm_first) norm = Norm(reader);
    }

    void read(const Text& text, Scratch& scratch) const override {
        Room room(shape);
        for (int first = 0, end; first < text.count; first = end) {
            int places = int(text.lengths[first]);
            for (end = first + 1; end < text.count && places + text.lengths[end] <= AT_ONCE; ++end) {
                places += int(text.lengths[end]);
            }
            read_some(text, first, end, places, room, scratch);
        }
    }

   private:
    static constexpr int AT_ONCE = 128;  // positions, so that a layer's results stay in the L2 cache

    const Shape shape;
    const Embedding embedding;
    std::vector<Layer> stack;
    Norm norm;

    void read_some(const Text& text, int first, int end, int places, Room& room, Scratch& scratch) const {
        const size_t width = shape.width;
        room.reserve(places);
        float* to = room.states.data();
        for (int row = first; row < end; ++row) {
            for (int j = 0; j < text.lengths[row]; ++j, to += width) {
                embedding.look_up(text.tokens[row * text.stride + j], j, to);
            }
        }
        for (const Layer& layer : stack) {
            room.around(layer.around_past, places, [&](const float* from) {
                look(layer, from, text.lengths + first, end - first, places, room, scratch);
            });
            room.around(layer.around_network, places,
                        [&](const float* from) { room.think(layer, from, places, scratch); });
        }
        if (shape.norm_first) norm.apply(room.states.data(), room.states.data(), places);
        const float* from = room.states.data();
        for (int row = first; row < end; ++row) {
            const size_t size = text.lengths[row] * width;
            std::memcpy(text.states + row * text.stride * width, from, size * sizeof(float));
            from += size;
        }
    }

    // softmax(q . k / sqrt(d)) v over all positions of a sentence, for each of them
    void look(const Layer& layer, const float* from, const int64_t* lengths, int count, int places, Room& room,
              Scratch& scratch) const {
        const size_t size = shape.head_width, queries = shape.heads * size, wide = layer.asked.outputs;
        room.asked.resize(places * wide);
        room.seen.resize(places * queries);
        layer.asked.apply(from, shape.width, places, room.asked.data(), wide, scratch);
        const float* asked = room.asked.data();
        float* seen = room.seen.data();
        for (int row = 0; row < count; ++row) {
            for (int head = 0; head < shape.heads; ++head) {
                look_within(asked, seen, head, int(lengths[row]), room, scratch.bent);
            }
            asked += lengths[row] * wide;
            seen += lengths[row] * queries;
        }
        layer.joined.apply(room.seen.data(), queries, places, room.found.data(), shape.width, scratch);
    }

    // Keys of a head are laid out with several positions side by side, and a few queries are processed together.
    void look_within(const float* asked, float* seen, int head, int length, Room& room, Aligned<float>& across) const {
        constexpr int TOGETHER = 4;
        const size_t size = shape.head_width, queries = shape.heads * size, stride = padded(length);
        const size_t wide = queries + 2 * shape.groups * size, group = head / (shape.heads / shape.groups);
        const float *keys = asked + queries + group * size, *values = keys + shape.groups * size;
        const float scale = 1.0f / std::sqrt(float(size));
        across.resize(size * stride);
        for (size_t d = 0; d < size; ++d) {
            for (size_t j = 0; j < stride; ++j) {
                across.data()[d * stride + j] = j < size_t(length) ? scale * keys[j * wide + d] : 0.0f;
            }
        }
        room.scores.resize(TOGETHER * stride);
        const float* query = asked + head * size;
        float* context = seen + head * size;
        int i = 0;
        for (; i + TOGETHER <= length; i += TOGETHER, query += TOGETHER * wide, context += TOGETHER * queries) {
            look_some<TOGETHER>(query, across.data(), values, wide, length, room.scores.data(), context, queries);
        }
        for (; i < length; ++i, query += wide, context += queries) {
            look_some<1>(query, across.data(), values, wide, length, room.scores.data(), context, queries);
        }
    }

    template <int N>
    void look_some(const float* query, const float* across, const float* values, size_t wide, int length, float* scores,
                   float* context, size_t apart) const {
        const size_t size = shape.head_width, stride = padded(length);
        for (size_t j = 0; j < stride; j += LANES) {
            Floats sums[N] = {};
            for (size_t d = 0; d < size; ++d) {
                const Floats key = load(across + d * stride + j);
                for (int n = 0; n < N; ++n) sums[n] += query[n * wide + d] * key;
            }
            for (int n = 0; n < N; ++n) store(scores + n * stride + j, sums[n]);
        }
        for (int n = 0; n < N; ++n) softmax(scores + n * stride, length);
        size_t d = 0;
        for (; d + LANES <= size; d += LANES) {
            Floats sums[N] = {};
            for (int j = 0; j < length; ++j) {
                const Floats value = load(values + j * wide + d);
                for (int n = 0; n < N; ++n) sums[n] += scores[n * stride + j] * value;
            }
            for (int n = 0; n < N; ++n) store(context + n * apart + d, sums[n]);
        }
        for (; d < size; ++d) {
            for (int n = 0; n < N; ++n) {
                float total = 0;
                for (int j = 0; j < length; ++j) total += scores[n * stride + j] * values[j * wide + d];
                context[n * apart + d] = total;
            }
        }
    }
};

// One direction of one layer. Everything independent of the previous step is one product over all positions.
struct Direction {
    Linear in, again;

    explicit Direction(Reader& reader) {
        in = reader.linear();
        again = reader.linear();
    }
};

class RecurrentEncoder : public Encoder {
   public:
    explicit RecurrentEncoder(Reader& reader)
        : lstm(reader.number()),
          residual(reader.number()),
          width(reader.number()),
          ways(reader.number()),
          embedding(reader) {
        depth = reader.number();
        for (int each = 0; each < depth * ways; ++each) directions.emplace_back(reader);
    }

    void read(const Text& text, Scratch& scratch) const override {
        if (!text.count) return;
        // Longest first: sentences that still go on come before those that have ended.
        std::vector<int> order(text.count);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return text.lengths[a] > text.lengths[b]; });
        std::vector<size_t> starts(text.count);
        size_t places = 0;
        for (int row = 0; row < text.count; places += text.lengths[row++]) starts[row] = places;
        Work work{text, order, starts, places, {}, {}, {}, {}, {}, {}};
        work.below.resize(places * std::max(embedding.width, width * ways));
        for (int row = 0; row < text.count; ++row) {
            for (int j = 0; j < text.lengths[row]; ++j) {
                float* to = work.below.data() + (starts[row] + j) * embedding.width;
                embedding.look_up(text.tokens[row * text.stride + j], j, to);
            }
        }
        for (int layer = 0; layer < depth; ++layer) {
            work.above.resize(places * width * ways);
            for (int way = 0; way < ways; ++way) run(layer, way, work, scratch);
            if (residual && layer > 0) {
                for (size_t i = 0; i < places * width * ways; ++i) work.above.data()[i] += work.below.data()[i];
            }
            std::swap(work.below, work.above);
        }
        const size_t wide = size_t(width) * ways;
        for (int row = 0; row < text.count; ++row) {
            std::memcpy(text.states + row * text.stride * wide, work.below.data() + starts[row] * wide,
                        text.lengths[row] * wide * sizeof(float));
        }
    }

   private:
    struct Work {
        const Text& text;
        const std::vector<int>& order;
        const std::vector<size_t>& starts;  // of each sentence, among all positions
        const size_t places;
        Aligned<float> below, above, entering, hidden, memory, sums;
    };

    const bool lstm, residual;
    const int width, ways;
    const Embedding embedding;
    int depth;
    std::vector<Direction> directions;

    void run(int layer, int way, Work& work, Scratch& scratch) const {
        const Direction& own = directions[layer * ways + way];
        const Text& text = work.text;
        const size_t gates = size_t(own.in.outputs), wide = size_t(width) * ways;
        work.entering.resize(work.places * gates);
        own.in.apply(work.below.data(), own.in.inputs, int(work.places), work.entering.data(), gates, scratch);
        for (auto* state : {&work.hidden, &work.memory}) {
            state->resize(size_t(text.count) * width);
            std::memset(state->data(), 0, size_t(text.count) * width * sizeof(float));
        }
        work.sums.resize(text.count * gates);
        const Gates step{width};
        for (int64_t time = 0, left = text.count; ; ++time) {
            while (left && text.lengths[work.order[left - 1]] <= time) --left;
            if (!left) break;
            own.again.apply(work.hidden.data(), width, int(left), work.sums.data(), gates, scratch);
            for (int64_t row = 0; row < left; ++row) {
                const int sentence = work.order[row];
                const size_t j = work.starts[sentence] + (way ? text.lengths[sentence] - 1 - time : time);
                const float* in = work.entering.data() + j * gates;
                float *again = work.sums.data() + row * gates, *hidden = work.hidden.data() + row * width;
                if (lstm) {
                    for (size_t i = 0; i < gates; ++i) again[i] += in[i];
                    step.lstm(again, work.memory.data() + row * width, hidden, work.memory.data() + row * width);
                } else {
                    step.gru(in, again, hidden, hidden);
                }
                std::memcpy(work.above.data() + j * wide + way * width, hidden, width * sizeof(float));
            }
        }
        // All hidden states, lowest layer first, then all memories; the directions of a layer side by side.
        for (int row = 0; row < text.count; ++row) {
            float* to = text.summary + work.order[row] * (lstm ? 2 : 1) * depth * wide + layer * wide + way * width;
            std::memcpy(to, work.hidden.data() + size_t(row) * width, width * sizeof(float));
            if (lstm) std::memcpy(to + depth * wide, work.memory.data() + size_t(row) * width, width * sizeof(float));
        }
    }
};

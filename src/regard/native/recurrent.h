// The recurrent decoders, one step of all live hypotheses. E y is the embedded token, c the context of the source.
//
//     luong        s = f(s', [E y; fed])      c = attend(s)   t = readout(s, c)         fed = t, with input feeding
//     bahdanau     c = attend(s')             s = f(s', [E y; c])                       t = readout(s, E y, c)
//     conditional  s" = f_1(s', E y)          c = attend(s")  s = f_2(s", c)            t = readout(s, E y, c)
//
// Further layers read the output of the layer below. Without attention c is one fixed vector.

#pragma once

#include "attention.h"

enum class Order : int { luong = 0, bahdanau = 1, conditional = 2 };
enum class Readout : int { none = 0, tanh = 1, maxout = 2 };

// One step of a row's units, given the sums of its gates.
struct Gates {
    int width;

    // c' = sigma(f) c + sigma(i) tanh(g)    h' = sigma(o) tanh(c')
    void lstm(const float* sums, const float* memory, float* hidden, float* new_memory) const {
        for_lanes([&](auto read, auto write, int i) {
            const Floats kept = sigmoid(read(sums + width + i)) * read(memory + i) +
                                sigmoid(read(sums + i)) * tanh(read(sums + 2 * width + i));
            write(new_memory + i, kept);
            write(hidden + i, sigmoid(read(sums + 3 * width + i)) * tanh(kept));
        });
    }

    // r, z = sigma(..)    n = tanh(W x + r (U h))    h' = z h + (1 - z) n
    void gru(const float* in_sums, const float* again_sums, const float* before, float* hidden) const {
        for_lanes([&](auto read, auto write, int i) {
            const Floats reset = sigmoid(read(in_sums + i) + read(again_sums + i));
            const Floats keep = sigmoid(read(in_sums + width + i) + read(again_sums + width + i));
            const Floats fresh = tanh(read(in_sums + 2 * width + i) + reset * read(again_sums + 2 * width + i));
            write(hidden + i, fresh + keep * (read(before + i) - fresh));
        });
    }

   private:
    // Process all units, one register at a time; of the last register only the part in use.
    template <class Body>
    void for_lanes(Body&& body) const {
        int i = 0;
        for (; i + LANES <= width; i += LANES) body(load, store, i);
        if (i == width) return;
        const size_t bytes = (width - i) * sizeof(float);
        body(
            [bytes](const float* from) {
                Floats some = {};
                std::memcpy(&some, from, bytes);
                return some;
            },
            [bytes](float* to, Floats what) { std::memcpy(to, &what, bytes); }, i);
    }
};

// A GRU's new gate keeps its recurrent part separate, so it needs two products; an LSTM needs one.
struct Cell {
    int width;
    bool lstm;
    Linear joint;      // LSTM: over [inputs; hidden]
    Linear in, again;  // GRU

    Cell(Reader& reader, int width_, bool lstm_) : width(width_), lstm(lstm_) {
        if (lstm) {
            joint = reader.linear();
        } else {
            in = reader.linear();
            again = reader.linear();
        }
    }

    int inputs() const { return lstm ? joint.inputs - width : in.inputs; }

    // `x` holds [inputs; hidden] of each row; `memory` is the LSTM's before the step.
    void step(const float* x, int rows, const float* const* memory, float* hidden, float* new_memory, Aligned<float>& sums,
              Scratch& scratch) const {
        const size_t stride = inputs() + width;
        sums.resize(size_t(rows) * 6 * width);
        if (lstm) {
            joint.apply(x, stride, rows, sums.data(), 4 * width, scratch);
        } else {
            in.apply(x, stride, rows, sums.data(), 3 * width, scratch);
            again.apply(x + inputs(), stride, rows, sums.data() + size_t(rows) * 3 * width, 3 * width, scratch);
        }
        const Gates gates{width};
        for (int row = 0; row < rows; ++row) {
            const float* in_sums = sums.data() + size_t(row) * (lstm ? 4 : 3) * width;
            if (lstm) {
                gates.lstm(in_sums, memory[row], hidden + size_t(row) * width, new_memory + size_t(row) * width);
            } else {
                const float* again_sums = sums.data() + size_t(rows + row) * 3 * width;
                gates.gru(in_sums, again_sums, x + row * stride + inputs(), hidden + size_t(row) * width);
            }
        }
    }
};

class Recurrent : public Model {
   public:
    Order order;
    bool lstm, feeding, residual, attends;
    int width, fixed_width;
    Readout readout;
    Embedding embedding;
    std::vector<Cell> cells;    // lowest layer first
    std::vector<Cell> second;   // the second cell of the conditional decoder; empty for others
    Look source_look;
    Linear before_output;       // the readout's own

    explicit Recurrent(Reader& reader)
        : order(Order(reader.number())),
          lstm(reader.number()),
          feeding(reader.number()),
          residual(reader.number()),
          attends(reader.number()),
          width(reader.number()),
          fixed_width(reader.number()),
          readout(Readout(reader.number())),
          embedding(reader) {
        const int depth = reader.number();
        for (int layer = 0; layer < depth; ++layer) cells.emplace_back(reader, width, lstm);
        if (order == Order::conditional) second.emplace_back(reader, width, lstm);
        if (attends) source_look = Look(reader);
        if (readout != Readout::none) before_output = reader.linear();
        output = reader.linear(true);
    }

    int context_width() const { return attends ? source_look.context_width() : fixed_width; }
    int feature_width() const { return output.inputs; }
    int fed_width() const { return feeding ? feature_width() : 0; }

    int layers() const override { return attends ? 1 : 0; }
    int heads() const override { return attends ? source_look.heads : 1; }
    // Hidden state and memory of each layer, the fixed vector, keys, values.
    int parts() const override { return 2 * int(cells.size()) + 3; }
    std::unique_ptr<Stepper> stepper() const override;
};

class RecurrentStepper : public Stepper {
   public:
    explicit RecurrentStepper(const Recurrent& model_) : model(model_), layers(model_.cells.size()) {
        for (auto* state : {&before, &after}) {
            state->hidden.resize(layers);
            state->memory.resize(layers);
        }
    }

    void reserve(int rows) override {
        for (auto* state : {&before, &after}) {
            for (size_t layer = 0; layer < layers; ++layer) {
                state->hidden[layer].resize(size_t(rows) * model.width);
                state->memory[layer].resize(size_t(rows) * model.width);
            }
            state->fed.resize(size_t(rows) * model.fed_width() + 1);
        }
        embedded.resize(size_t(rows) * model.embedding.width);
        contexts.resize(size_t(rows) * model.context_width() + 1);
        below.resize(size_t(rows) * model.width);
        features.resize(size_t(rows) * model.feature_width());
        memories.resize(rows);
    }

    void begin(const Source& source, int row) override {
        const size_t width = model.width;
        for (size_t layer = 0; layer < layers; ++layer) {
            std::memcpy(before.hidden[layer].data() + row * width, source.parts[2 * layer], width * sizeof(float));
            if (model.lstm) {
                const float* memory = source.parts[2 * layer + 1];
                std::memcpy(before.memory[layer].data() + row * width, memory, width * sizeof(float));
            }
        }
        std::memset(before.fed.data() + size_t(row) * model.fed_width(), 0, model.fed_width() * sizeof(float));
    }

    const float* step(const std::vector<Row>& rows) override {
        const int count = int(rows.size());
        for (int row = 0; row < count; ++row) {
            float* to = embedded.data() + size_t(row) * model.embedding.width;
            model.embedding.look_up(rows[row].token, rows[row].position, to);
        }
        if (model.order == Order::bahdanau) {
            const Aligned<float>& last = before.hidden[layers - 1];
            gathered.resize(size_t(count) * model.width);
            for (int row = 0; row < count; ++row) copy(gathered, row, last, rows[row].parent, model.width);
            look(gathered.data(), rows);
        }
        climb(rows);
        const float* top = layers == 1 && !model.residual ? after.hidden[0].data() : below.data();
        if (model.order == Order::luong) look(top, rows);
        read_out(top, count);
        if (model.feeding) {
            std::memcpy(after.fed.data(), features.data(), size_t(count) * model.feature_width() * sizeof(float));
        }
        std::swap(before, after);
        return features.data();
    }

   private:
    struct State {
        std::vector<Aligned<float>> hidden, memory;
        Aligned<float> fed;
    };

    const Recurrent& model;
    const size_t layers;
    State before, after;
    Aligned<float> embedded, contexts, below, features, gathered, entering, sums, seen, between;
    std::vector<const float*> memories;

    static void copy(Aligned<float>& to, size_t to_row, const Aligned<float>& from, size_t from_row, size_t width) {
        std::memcpy(to.data() + to_row * width, from.data() + from_row * width, width * sizeof(float));
    }

    // One step of all layers, each from its own previous state.
    void climb(const std::vector<Row>& rows) {
        const int count = int(rows.size());
        const size_t width = model.width;
        for (size_t layer = 0; layer < layers; ++layer) {
            const Cell& cell = model.cells[layer];
            const size_t stride = cell.inputs() + width;
            entering.resize(count * stride);
            for (int row = 0; row < count; ++row) {
                float* to = entering.data() + row * stride;
                to = layer == 0 ? enter(to, row, rows[row].parent) : append(to, below.data(), row, width);
                append(to, before.hidden[layer].data(), rows[row].parent, width);
                memories[row] = before.memory[layer].data() + rows[row].parent * width;
            }
            float* hidden = after.hidden[layer].data();
            cell.step(entering.data(), count, memories.data(), hidden, after.memory[layer].data(), sums, scratch);
            if (layer == 0 && model.order == Order::conditional) step_again(rows);
            if (layers == 1) break;
            // A residual is added to a layer's output, not to its recurrent state.
            const bool adds = model.residual && layer > 0;
            for (size_t i = 0; i < count * width; ++i) below.data()[i] = hidden[i] + (adds ? below.data()[i] : 0.0f);
        }
        if (layers == 1 && model.residual) {
            std::memcpy(below.data(), after.hidden[0].data(), count * width * sizeof(float));
        }
    }

    // Assemble the input of the lowest layer.
    float* enter(float* to, int row, int parent) {
        to = append(to, embedded.data(), row, model.embedding.width);
        if (model.order == Order::bahdanau) return append(to, contexts.data(), row, model.context_width());
        return append(to, before.fed.data(), parent, model.order == Order::luong ? model.fed_width() : 0);
    }

    static float* append(float* to, const float* from, size_t row, size_t width) {
        std::memcpy(to, from + row * width, width * sizeof(float));
        return to + width;
    }

    // The conditional decoder's second cell continues from the first one's state.
    void step_again(const std::vector<Row>& rows) {
        const int count = int(rows.size());
        const size_t width = model.width, stride = model.context_width() + width;
        const Cell& cell = model.second[0];
        look(after.hidden[0].data(), rows);
        between.resize(count * width);
        std::memcpy(between.data(), after.memory[0].data(), count * width * sizeof(float));
        entering.resize(count * stride);
        for (int row = 0; row < count; ++row) {
            float* to = append(entering.data() + row * stride, contexts.data(), row, model.context_width());
            append(to, after.hidden[0].data(), row, width);
            memories[row] = between.data() + row * width;
        }
        cell.step(entering.data(), count, memories.data(), after.hidden[0].data(), after.memory[0].data(), sums,
                  scratch);
    }

    void look(const float* query, const std::vector<Row>& rows) {
        const size_t context = model.context_width();
        if (!model.attends) {
            for (size_t row = 0; row < rows.size(); ++row) {
                const float* fixed = rows[row].source->parts[2 * layers];
                if (context) std::memcpy(contexts.data() + row * context, fixed, context * sizeof(float));
            }
            return;
        }
        model.source_look.look_all(query, rows, 2 * layers + 1, 0, contexts, seen, scratch);
    }

    // t = tanh(W_c [s; ..]), or maxout over a layer's two halves, or s itself
    void read_out(const float* top, int count) {
        const size_t width = model.width, features_width = model.feature_width();
        if (model.readout == Readout::none) {
            std::memcpy(features.data(), top, count * width * sizeof(float));
            return;
        }
        const size_t stride = model.before_output.inputs;
        entering.resize(count * stride);
        for (int row = 0; row < count; ++row) {
            float* to = append(entering.data() + row * stride, top, row, width);
            if (model.order != Order::luong) to = append(to, embedded.data(), row, model.embedding.width);
            if (model.order != Order::luong || model.attends) append(to, contexts.data(), row, model.context_width());
        }
        const size_t wide = model.before_output.outputs;
        sums.resize(count * wide);
        model.before_output.apply(entering.data(), stride, count, sums.data(), wide, scratch);
        for (int row = 0; row < count; ++row) {
            float* to = features.data() + row * features_width;
            const float* from = sums.data() + row * wide;
            if (model.readout == Readout::tanh) {
                each(to, from, int(wide), [](Floats x) { return tanh(x); });
            } else {
                for (size_t i = 0; i < features_width; ++i) to[i] = std::fmax(from[i], from[features_width + i]);
            }
        }
    }
};

inline std::unique_ptr<Stepper> Recurrent::stepper() const { return std::make_unique<RecurrentStepper>(*this); }

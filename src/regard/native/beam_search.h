// Beam search, with the same results as regard/decoding/search_loop.py; a beam of one is greedy search.
//
// Each thread holds a few sentences and runs the steps of all their live hypotheses together. A finished sentence is
// replaced by a waiting one, so that matrix products keep their size and no thread waits for another. If there are more
// threads than sentences, the idle ones help with the others' products.

#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "weight_reader.h"

// Search options. Same layout as `regard.native.decoder.Options`.
struct Options {
    int32_t beam, n_best, bos, eos, min_length, sentences_at_once, threads, look;
    float length_penalty, patience;
};

// Input for each sentence, as Python lays it out.
struct Task {
    int64_t length, stride, limit;
    int64_t prefix_from, prefix_to;
    int64_t words_from, words_to;  // the shortlist; empty for all words
};

struct Hypothesis {
    float score;
    std::vector<int32_t> tokens;
    std::vector<float> log_probs;
    std::vector<float> weights;  // length x layers x heads x places
};

// lp(Y) of Wu et al. 2016
static inline float length_penalty(int length, float alpha) { return float(std::pow((5.0 + length) / 6.0, alpha)); }

struct Best {
    float value;
    int32_t place;
};

// Find the `count` largest values, best first, in one pass: most blocks have no candidate and are skipped quickly.
static inline void best_of(const float* values, int size, int count, std::vector<Best>& found) {
    found.clear();
    float bar = NEVER;
    for (int block = 0; block < size; block += 4 * LANES) {
        const int end = std::min(block + 4 * LANES, size);
        if (end - block == 4 * LANES) {
            const Floats high = larger(larger(load(values + block), load(values + block + LANES)),
                                       larger(load(values + block + 2 * LANES), load(values + block + 3 * LANES)));
            bool any = false;
            for (int i = 0; i < LANES; ++i) any |= high[i] > bar;
            if (!any) continue;
        }
        for (int i = block; i < end; ++i) {
            if (!(values[i] > bar)) continue;
            size_t at = found.size() < size_t(count) ? (found.push_back({}), found.size() - 1) : found.size() - 1;
            for (; at > 0 && found[at - 1].value < values[i]; --at) found[at] = found[at - 1];
            found[at] = {values[i], i};
            if (found.size() == size_t(count)) bar = found.back().value;
        }
    }
}

// log sum_i e^x_i
static inline float log_sum(const float* x, int size) {
    Floats high = all(NEVER);
    int i = 0;
    for (; i + LANES <= size; i += LANES) high = larger(high, load(x + i));
    float highest = NEVER;
    for (int lane = 0; lane < LANES; ++lane) highest = std::max(highest, high[lane]);
    for (int j = i; j < size; ++j) highest = std::max(highest, x[j]);
    Floats total = {};
    for (int j = 0; j < i; j += LANES) total += exponential(load(x + j) - highest);
    float whole = sum(total);
    for (int j = i; j < size; ++j) whole += std::exp(x[j] - highest);
    return highest + std::log(whole);
}

// The search of one sentence.
class Sentence {
   public:
    Source source;
    Past past;
    bool broken = false;
    int number = 0;

    struct Live {
        int node;        // its last node; -1 before the first token
        float total;     // its log-probability
        int32_t token;   // last token
        int row;         // of the step that generated it
        std::vector<int32_t> path;
    };
    std::vector<Live> live;
    Linear shortlist;

    Sentence(const Model& model, const Options& options_, const Task& task_, const int32_t* prefixes,
             const int32_t* words_, const float* const* parts, int number_)
        : number(number_), options(options_), task(task_), prefix(prefixes + task_.prefix_from), words(nullptr) {
        source.length = int(task.length);
        source.stride = size_t(task.stride);
        source.parts = parts;
        per_look = options.look ? size_t(model.layers()) * model.heads() * source.length : 0;
        if (task.words_to > task.words_from) {
            words = words_ + task.words_from;
            shortlist = model.output.cut(words, int(task.words_to - task.words_from));
        }
        live.push_back({-1, 0.0f, options.bos, 0, {}});
    }

    int length() const { return steps; }

    // Memory for the attention weights of the hypothesis in this slot, written in the next step.
    float* room_to_look(int slot) {
        if (slot == 0) looks.emplace_back(new float[std::max<size_t>(1, live.size() * per_look)]);
        return per_look ? looks.back().get() + slot * per_look : nullptr;
    }

    // Extend the live hypotheses, given the logits of each (which are modified); return whether to go on.
    bool extend(float* logits, size_t stride, int size, const std::vector<int32_t>& banned, int first_row) {
        ++steps;
        candidates.clear();
        for (size_t slot = 0; slot < live.size(); ++slot) consider(int(slot), logits + slot * stride, size, banned);
        const size_t kept = std::min(candidates.size(), size_t(options.beam));
        std::stable_sort(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.total > b.total; });
        std::vector<Live> next;
        for (size_t i = 0; i < kept; ++i) settle(candidates[i], next, first_row);
        live = std::move(next);
        return !broken && goes_on();
    }

    // The best complete hypotheses, then the best of those cut off.
    std::vector<Hypothesis> found() const {
        std::vector<Hypothesis> all;
        for (const auto* ends : {&complete, &cut}) {
            for (const End& end : *ends) {
                if (all.size() < size_t(options.n_best)) all.push_back(trace(end));
            }
        }
        return all;
    }

   private:
    struct Candidate {
        float total, log_prob;
        int slot;
        int32_t token;
    };
    struct Node {
        int parent;
        int32_t token;
        float log_prob;
        int slot;  // of the step that generated it
    };
    struct End {
        float score;
        int node;
    };

    const Options& options;
    const Task& task;
    const int32_t* prefix;
    const int32_t* words;
    int steps = 0;
    int ended_by_itself = 0;
    size_t per_look = 0;
    std::vector<Candidate> candidates;
    std::vector<Best> best;
    std::vector<Node> nodes;
    std::vector<End> complete, cut;
    std::vector<std::unique_ptr<float[]>> looks;

    // Rank the extensions of one hypothesis: the softmax is over all words, and forbidden ones are masked after it.
    void consider(int slot, float* logits, int size, const std::vector<int32_t>& banned) {
        const float whole = log_sum(logits, size);
        if (!std::isfinite(whole)) {
            broken = true;
            return;
        }
        if (steps <= task.prefix_to - task.prefix_from) {
            const int32_t asked = prefix[steps - 1];
            const int place = words ? int(std::find(words, words + size, asked) - words) : asked;
            offer(slot, asked, logits[place] - whole);
            return;
        }
        const auto forbid = [&](int32_t token) {
            if (!words) logits[token] = NEVER;
            for (int place = 0; words && place < size; ++place) {
                if (words[place] == token) logits[place] = NEVER;
            }
        };
        for (const int32_t token : banned) forbid(token);
        if (steps <= options.min_length) forbid(options.eos);
        best_of(logits, size, options.beam, best);
        for (const Best& one : best) offer(slot, words ? words[one.place] : one.place, one.value - whole);
    }

    void offer(int slot, int32_t token, float log_prob) {
        const float total = live[slot].total + log_prob;
        if (total > NEVER) candidates.push_back({total, log_prob, slot, token});
    }

    // Set finished hypotheses aside; keep the others.
    void settle(const Candidate& one, std::vector<Live>& next, int first_row) {
        const Live& parent = live[one.slot];
        nodes.push_back({parent.node, one.token, one.log_prob, one.slot});
        const int node = int(nodes.size()) - 1;
        const bool ended = one.token == options.eos;
        ended_by_itself += ended;
        if (ended || steps >= task.limit) {
            auto& ends = ended ? complete : cut;
            ends.push_back({one.total / length_penalty(steps, options.length_penalty), node});
            std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.score > b.score; });
            if (ends.size() > size_t(options.n_best)) ends.pop_back();
            return;
        }
        next.push_back({node, one.total, one.token, first_row + one.slot, parent.path});
        next.back().path.push_back(one.slot);
    }

    // Whether a live hypothesis may still beat the worst finished one that is kept: log-probabilities never rise. With
    // patience, stop after that many finished hypotheses.
    bool goes_on() const {
        if (options.patience > 0 && ended_by_itself >= options.patience * options.beam) return false;
        float most = NEVER;
        for (const Live& one : live) most = std::max(most, one.total);
        const float alpha = options.length_penalty;
        const float high = std::max(length_penalty(int(task.limit), alpha), length_penalty(steps + 1, alpha));
        const float worst = complete.size() < size_t(options.n_best) ? NEVER : complete.back().score;
        return most / high > worst;
    }

    Hypothesis trace(const End& end) const {
        Hypothesis found{end.score, {}, {}, {}};
        std::vector<const Node*> way;
        for (int node = end.node; node >= 0; node = nodes[node].parent) way.push_back(&nodes[node]);
        std::reverse(way.begin(), way.end());
        for (size_t t = 0; t < way.size(); ++t) {
            found.tokens.push_back(way[t]->token);
            found.log_probs.push_back(way[t]->log_prob);
            if (per_look) {
                const float* look = looks[t].get() + way[t]->slot * per_look;
                found.weights.insert(found.weights.end(), look, look + per_look);
            }
        }
        return found;
    }
};

// The result of one call, as Python reads it.
struct Result {
    std::vector<int64_t> counts, lengths;  // hypotheses of each sentence; tokens of each hypothesis
    std::vector<float> scores, log_probs, weights;
    std::vector<int32_t> tokens;
    std::vector<int64_t> work;  // steps that hypotheses took; multiply-adds of their products with matrices
    int64_t broken = 0;  // the first step with a NaN; 0: none
    std::string error;
};

class Search {
   public:
    Search(const Model& model_, const Options& options_, const Task* tasks_, const float* const* parts_, int count_,
           const int32_t* prefixes_, const int32_t* words_, const int32_t* banned_, int banned_count)
        : model(model_), options(options_), tasks(tasks_), parts(parts_), count(count_), prefixes(prefixes_),
          words(words_), banned(banned_, banned_ + banned_count), found(count_) {}

    void run(Result& result) {
        std::vector<std::thread> helpers;
        const int every = std::min(options.threads, MOST_THREADS), threads = std::max(1, std::min(every, count));
        std::string errors[MOST_THREADS];
        const auto work = [&](int number) {
            try {
                take_turns((count + threads - 1) / threads, (every - 1 - number) / threads);
            } catch (const std::exception& error) {
                errors[number] = error.what();
                stop = true;
            }
        };
        try {
            for (int number = 1; number < threads; ++number) helpers.emplace_back(work, number);
        } catch (const std::exception&) {
            // As many threads as can be started: they take the sentences of the others.
        }
        work(0);
        for (auto& helper : helpers) helper.join();
        for (const auto& error : errors) {
            if (!error.empty()) result.error = error;
        }
        result.broken = broken;
        result.work = {stepped_rows, multiplied};
        if (result.error.empty() && !result.broken) gather(result);
    }

   private:
    static constexpr int MOST_THREADS = 64;

    const Model& model;
    const Options& options;
    const Task* tasks;
    const float* const* parts;
    const int count;
    const int32_t* prefixes;
    const int32_t* words;
    const std::vector<int32_t> banned;
    std::vector<std::vector<Hypothesis>> found;
    std::atomic<int> waiting{0};
    std::atomic<int> broken{0};
    std::atomic<bool> stop{false};
    std::atomic<int64_t> stepped_rows{0}, multiplied{0};

    // One thread's work: at most its share of the sentences, and what others leave, with this many helpers.
    void take_turns(int share, int helpers) {
        const auto stepper = model.stepper();
        Team team(helpers);
        if (helpers > 0) stepper->scratch.team = &team;
        const int most = std::min(options.sentences_at_once, share), room = most * (options.beam + 1);
        stepper->reserve(room);
        std::vector<std::unique_ptr<Sentence>> held;
        std::vector<Row> rows;
        Aligned<float> logits;
        int stepped = 0;  // rows of the last step: new sentences begin in those after them
        while (!stop) {
            int begun = 0;
            while (int(held.size()) < most) {
                const int number = waiting++;
                if (number >= count) break;
                held.push_back(std::make_unique<Sentence>(model, options, tasks[number], prefixes, words,
                                                          parts + size_t(number) * model.parts(), number));
                held.back()->live[0].row = stepped + begun++;
                stepper->begin(held.back()->source, held.back()->live[0].row);
            }
            if (held.empty()) break;
            line_up(held, rows);
            stepped = int(rows.size());
            stepped_rows += stepped;
            const float* features = stepper->step(rows);
            score(features, held, rows, logits, stepper->scratch);
            extend(held, logits);
        }
        multiplied += stepper->scratch.multiplied;
    }

    static void line_up(std::vector<std::unique_ptr<Sentence>>& held, std::vector<Row>& rows) {
        rows.clear();
        for (auto& sentence : held) {
            const int slots = int(sentence->live.size());
            for (int slot = 0; slot < slots; ++slot) {
                const auto& one = sentence->live[slot];
                float* look = sentence->room_to_look(slot);
                rows.push_back({&sentence->source, &sentence->past, one.path.data(), slot, slots, one.row, one.token,
                                sentence->length(), look});
            }
        }
    }

    // Logits of all rows: over all words at once, or over each sentence's own shortlist.
    void score(const float* features, const std::vector<std::unique_ptr<Sentence>>& held, const std::vector<Row>& rows,
               Aligned<float>& logits, Scratch& scratch) {
        const size_t width = model.output.inputs, stride = padded(model.output.outputs);
        logits.resize(rows.size() * stride);
        if (!held[0]->shortlist) {
            model.output.apply(features, width, int(rows.size()), logits.data(), stride, scratch);
            return;
        }
        size_t row = 0;
        for (const auto& sentence : held) {
            const int slots = int(sentence->live.size());
            sentence->shortlist.apply(features + row * width, width, slots, logits.data() + row * stride, stride, scratch);
            row += slots;
        }
    }

    void extend(std::vector<std::unique_ptr<Sentence>>& held, Aligned<float>& logits) {
        const size_t stride = padded(model.output.outputs);
        int row = 0;
        for (auto& sentence : held) {
            const int slots = int(sentence->live.size());
            const int size = sentence->shortlist ? sentence->shortlist.outputs : model.output.outputs;
            if (!sentence->extend(logits.data() + row * stride, stride, size, banned, row)) {
                if (sentence->broken) {
                    broken = sentence->length();
                    stop = true;
                }
                found[sentence->number] = sentence->found();
                sentence.reset();
            }
            row += slots;
        }
        held.erase(std::remove(held.begin(), held.end(), nullptr), held.end());
    }

    void gather(Result& result) const {
        for (const auto& hypotheses : found) {
            result.counts.push_back(int64_t(hypotheses.size()));
            for (const Hypothesis& one : hypotheses) {
                result.lengths.push_back(int64_t(one.tokens.size()));
                result.scores.push_back(one.score);
                result.tokens.insert(result.tokens.end(), one.tokens.begin(), one.tokens.end());
                result.log_probs.insert(result.log_probs.end(), one.log_probs.begin(), one.log_probs.end());
                result.weights.insert(result.weights.end(), one.weights.begin(), one.weights.end());
            }
        }
    }
};

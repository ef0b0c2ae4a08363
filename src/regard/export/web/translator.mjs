// A sequence-to-sequence model: encoder.onnx, and step.onnx for one step of the decoder, run by onnxruntime-web.
import {beamSearch, limitOf} from "./beam_search.mjs";
import {WHITE, makeTokenizer} from "./tokenizer.mjs";

const CANDIDATES = 5;
const ARRAYS = {float32: Float32Array, int64: BigInt64Array, int32: Int32Array, bool: Uint8Array, uint8: Uint8Array};

export class Translator {
  // `ort` is onnxruntime-web, `read(file)` returns the bytes of a file of the model.
  static async load(ort, read) {
    const bytes = await read("model.json"), about = JSON.parse(new TextDecoder().decode(bytes));
    const open = async (file) => ort.InferenceSession.create(await read(file), {executionProviders: ["wasm"]});
    return new Translator(ort, about, await open("encoder.onnx"), await open("step.onnx"));
  }

  constructor(ort, about, encoder, decoder) {
    Object.assign(this, {ort, about, encoder, decoder});
    this.source = makeTokenizer(about.source);
    this.target = about.target === null ? this.source : makeTokenizer(about.target);
    const outputs = about.graphs["encoder.onnx"].outputs;
    this.batchAxis = new Map(outputs.map(({name, shape}) => [name, shape.indexOf("batch")]));
    const weights = about.graphs["step.onnx"].outputs.find(({name}) => name === "weights");
    [this.layers, this.heads] = weights ? weights.shape.slice(1, 3) : [0, 1];
    this.changes = new Set(about.graphs["step.onnx"].outputs.map(({name}) => name.replace(/^next\./, "state.")));
  }

  // The translation of one text: {text, score, source and target (pieces), steps}. A text of white space has none.
  async translate(given, {beam = this.about.decoding.beam, to = ""} = {}) {
    const {marks, search, decoding} = this.about;
    const text = ["bpe", "unigram"].includes(this.about.source.kind) ? strip(given) : given;
    if (!strip(given)) return {text: "", score: 0, source: [], target: [], steps: []};
    let read = [...this.source.encode(text, to), marks.end];
    if (search.most_read && read.length > search.most_read) read = [...read.slice(0, search.most_read - 1), marks.end];
    let state = await this.encode(read);
    const found = await beamSearch(async (tokens, parents) => {
      const stepped = await this.step(tokens, this.reorder(state, parents));
      state = stepped.state;
      return stepped;
    }, {
      beam, start: marks.start, end: marks.end, banned: search.banned, minLength: search.min_length, positions: read.length,
      limit: limitOf(search, read.length), lengthPenalty: decoding.length_penalty, patience: decoding.patience,
      coveragePenalty: decoding.coverage_penalty, candidates: CANDIDATES,
    });
    const written = found.steps.map(({token}) => token);
    return {
      text: this.target.decode(written), score: found.score, steps: found.steps, layers: this.layers, heads: this.heads,
      source: read.map((token) => this.name(this.source, token)), target: written.map((token) => this.name(this.target, token)),
    };
  }

  name(tokenizer, token) {
    const {start, end, padding} = this.about.marks;
    return {[start]: "<s>", [end]: "</s>", [padding]: "<pad>"}[token] ?? tokenizer.piece(token);
  }

  async encode(read) {
    const source = this.tensor("int64", BigInt64Array.from(read, BigInt), [1, read.length]);
    const mask = this.tensor("bool", new Uint8Array(read.length).fill(1), [1, read.length]);
    return this.run(this.encoder, {source, mask});
  }

  async step(tokens, state) {
    const token = this.tensor("int64", BigInt64Array.from(tokens, BigInt), [tokens.length]);
    const found = await this.run(this.decoder, {token, ...state});
    const after = {...state};
    for (const name of Object.keys(found)) {
      if (name.startsWith("next.")) after[`state.${name.slice(5)}`] = found[name];
    }
    return {logProbs: rowsOf(found.log_probs), weights: found.weights ? rowsOf(found.weights) : null, state: after};
  }

  run(session, given) {  // what a graph does not read is ignored
    return session.run(Object.fromEntries(session.inputNames.map((name) => [name, given[name]])));
  }

  reorder(state, rows) {  // what no step changes is the same for all hypotheses of one source
    return Object.fromEntries(Object.entries(state).map(([name, tensor]) => {
      const axis = this.batchAxis.get(name), count = tensor.dims[axis];
      const same = axis < 0 || (rows.length === count && (!this.changes.has(name) || rows.every((row, place) => row === place)));
      return [name, same ? tensor : this.pick(tensor, axis, rows)];
    }));
  }

  pick(tensor, axis, rows) {
    const {dims, data, type} = tensor, inner = dims.slice(axis + 1).reduce((a, b) => a * b, 1);
    const outer = dims.slice(0, axis).reduce((a, b) => a * b, 1), picked = new ARRAYS[type](outer * rows.length * inner);
    for (let block = 0; block < outer; block++) {
      rows.forEach((row, place) => {
        const from = (block * dims[axis] + Math.min(row, dims[axis] - 1)) * inner;
        picked.set(data.subarray(from, from + inner), (block * rows.length + place) * inner);
      });
    }
    return this.tensor(type, picked, dims.map((size, place) => (place === axis ? rows.length : size)));
  }

  tensor(type, data, dims) { return new this.ort.Tensor(type, data, dims); }
}

const AROUND = new RegExp(`^[${WHITE}]+|[${WHITE}]+$`, "g");
const strip = (text) => text.replace(AROUND, "");

function rowsOf({data, dims}) {
  const size = data.length / dims[0];
  return Array.from({length: dims[0]}, (_, row) => data.slice(row * size, (row + 1) * size));
}

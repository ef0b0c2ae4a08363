// Tokenization: texts to tokens and back, as the tokenizers of the model folder do it.
const UNKNOWN = 1, MARKS = 4;  // the id of the unknown token, and the number of special tokens before all others
const SPACE = "▁", ESCAPE = "\ufdd0", ESCAPED = "\ufdd0\ufdd1";  // SentencePiece has ▁ for a space: ▁ in a text is escaped
export const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";  // as Python has it
const BETWEEN = new RegExp(`[${WHITE}]+`);
const UNKNOWN_PENALTY = 10;  // SentencePiece's, below the least probable piece

export function makeTokenizer(told) {
  return ["bpe", "unigram"].includes(told.kind) ? new Subwords(told) : new Units(told);
}

class Tokenizer {
  constructor(told) {
    this.tags = told.tags;
    this.size = told.size - told.tags.length;  // without tags, which come last
  }

  encode(text, to) {  // `to` is the tag of the language to write
    return [...(to ? [this.size + this.tags.indexOf(to)] : []), ...this.cut(text)];
  }

  decode(tokens) {
    return this.join(tokens.filter((token) => (token >= MARKS && token < this.size) || token === UNKNOWN));
  }

  piece(token) {  // as pictures show it
    return token < this.size ? this.shown(token) : `<2${this.tags[token - this.size]}>`;
  }
}

// ------------------------------------------------------------------------------------------------- SentencePiece's two

class Subwords extends Tokenizer {
  constructor(told) {
    super(told);
    this.pieces = told.pieces;
    this.scores = Float32Array.from(told.scores);
    this.bytes = told.bytes;  // the id of byte 0; the 255 others follow
    this.segment = told.kind === "bpe" ? merge : mostProbable;
    this.ids = new Map();
    told.pieces.forEach((piece, id) => {
      if (id >= MARKS && !this.isByte(id)) this.ids.set(piece, id);
    });
    this.longest = Math.max(...[...this.ids.keys()].map((piece) => piece.length));
    this.least = Math.min(...[...this.ids.values()].map((id) => this.scores[id]));
  }

  isByte(id) {
    return id >= this.bytes && id < this.bytes + 256;
  }

  cut(text) {
    const escaped = text.toWellFormed().replaceAll(ESCAPE, ESCAPE + ESCAPE).replaceAll(SPACE, ESCAPED);
    if (!escaped) return [];
    const found = this.segment(this, SPACE + escaped.replaceAll(" ", SPACE));
    return found.flatMap((piece) => {
      const id = this.ids.get(piece);
      return id === undefined ? Array.from(new TextEncoder().encode(piece), (byte) => this.bytes + byte) : [id];
    });
  }

  join(tokens) {
    let text = "", bytes = [], first = true;
    const spell = () => { text += decodeBytes(bytes); bytes = []; };
    for (const token of tokens) {
      if (this.isByte(token)) { bytes.push(token - this.bytes); first = false; continue; }
      spell();
      const piece = token === UNKNOWN ? "<unk>" : this.pieces[token];
      // The space that encoding put before the text goes.
      text += (first && piece.startsWith(SPACE) ? piece.slice(1) : piece).replaceAll(SPACE, " ");
      first = false;
    }
    spell();
    return unescaped(text);
  }

  shown(token) { return unescaped(this.pieces[token]); }
}

function unescaped(text) {
  return text.replace(/\ufdd0([\ufdd0\ufdd1])/g, (_, next) => (next === ESCAPE ? ESCAPE : SPACE));
}

// Sennrich et al. 2016: merge the two neighbours that make the best piece, the leftmost of equal ones, until none do.
function merge(own, text) {
  const symbols = Array.from(text, (piece, at) => ({piece, at, before: at - 1, after: at + 1}));
  const last = symbols.length, waiting = new Heap((a, b) => b.score - a.score || a.left - b.left);
  const offer = (left, right) => {
    if (left < 0 || right >= last) return;
    const piece = symbols[left].piece + symbols[right].piece, id = own.ids.get(piece);
    if (id !== undefined) waiting.push({left, right, piece, score: own.scores[id]});
  };
  for (let place = 1; place < last; place++) offer(place - 1, place);
  for (let best = waiting.pop(); best; best = waiting.pop()) {
    const left = symbols[best.left], right = symbols[best.right];
    if (!left.piece || !right.piece || left.piece + right.piece !== best.piece || left.after !== best.right) continue;
    left.piece = best.piece;
    left.after = right.after;
    right.piece = "";
    if (right.after < last) symbols[right.after].before = best.left;
    offer(left.before, best.left);
    offer(best.left, left.after);
  }
  return symbols.map((symbol) => symbol.piece).filter((piece) => piece);
}

// Kudo 2018: the most probable segmentation, by dynamic programming. Sums are rounded to 32 bits, as SentencePiece's are.
function mostProbable(own, text) {
  const ways = Array.from({length: text.length + 1}, () => ({score: 0, start: -1}));
  const unknown = Math.fround(own.least - UNKNOWN_PENALTY);
  for (let start = 0; start < text.length;) {
    const character = text.codePointAt(start) > 0xffff ? 2 : 1, till = ways[start].score;
    let alone = false;
    const offer = (end, score) => {
      const total = Math.fround(score + till), way = ways[end];
      if (way.start < 0 || total > way.score) Object.assign(way, {score: total, start});
    };
    for (let end = start + 1; end <= Math.min(text.length, start + own.longest); end++) {
      const id = own.ids.get(text.slice(start, end));
      if (id === undefined) continue;
      offer(end, own.scores[id]);
      alone ||= end - start === character;
    }
    if (!alone) offer(start + character, unknown);
    start += character;
  }
  const found = [];
  for (let end = text.length; end > 0; end = ways[end].start) found.unshift(text.slice(ways[end].start, end));
  return found;
}

// UTF-8; each byte that is no part of a character becomes �.
function decodeBytes(bytes) {
  const strict = new TextDecoder("utf-8", {fatal: true, ignoreBOM: true});
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const length = [4, 3, 2, 1].find((count) => {
      if (at + count > bytes.length) return false;
      try {
        return [...strict.decode(Uint8Array.from(bytes.slice(at, at + count)))].length === 1;
      } catch {
        return false;
      }
    });
    text += length ? strict.decode(Uint8Array.from(bytes.slice(at, at + length))) : "\ufffd";
    at += length ?? 1;
  }
  return text;
}

class Heap {  // what comes first by `order`
  constructor(order) { this.order = order; this.items = []; }

  push(item) {
    const items = this.items;
    let at = items.push(item) - 1;
    while (at && this.order(items[at], items[(at - 1) >> 1]) < 0) at = this.swap(at, (at - 1) >> 1);
  }

  pop() {
    const items = this.items, first = items[0], last = items.pop();
    if (!items.length) return first;
    items[0] = last;
    for (let at = 0, child; (child = this.lesser(at)) !== undefined && this.order(items[child], items[at]) < 0;) at = this.swap(at, child);
    return first;
  }

  lesser(at) {
    const [left, right] = [2 * at + 1, 2 * at + 2];
    if (left >= this.items.length) return undefined;
    return right < this.items.length && this.order(this.items[right], this.items[left]) < 0 ? right : left;
  }

  swap(one, other) {
    [this.items[one], this.items[other]] = [this.items[other], this.items[one]];
    return other;
  }
}

// --------------------------------------------------------------------------------------- characters, words, and spelled

class Units extends Tokenizer {
  constructor(told) {
    super(told);
    this.kind = told.kind;
    this.units = ["", "<unk>", "", "", ...told.units];
    this.ids = new Map(told.units.map((unit, place) => [unit, place + MARKS]));
  }

  cut(text) {
    const ways = {words: () => text.split(BETWEEN).filter((word) => word), spelled: () => this.spell(text)};
    return Array.from((ways[this.kind] ?? (() => text))(), (unit) => this.ids.get(unit) ?? UNKNOWN);
  }

  spell(text) {  // words of the vocabulary whole, each with a space before it, and the characters of all others
    const units = [];
    let before;
    for (const word of text.split(" ")) {
      const whole = word !== "" && this.ids.has(` ${word}`);
      if (before !== undefined && !(word && before && (whole || this.ids.has(` ${before}`)))) units.push(" ");
      units.push(...(whole ? [` ${word}`] : word));
      before = word;
    }
    return units;
  }

  join(tokens) {
    const units = tokens.map((token) => this.units[token]);
    if (this.kind !== "spelled") return units.join(this.kind === "words" ? " " : "");
    let text = "", before = "";
    for (const unit of units) {
      const whole = [before, unit].some((one) => one.length > 1 && one[0] === " ");
      text += (whole && before && before !== " " && unit !== " " ? " " : "") + (unit.replace(/^ +| +$/g, "") || unit);
      before = unit;
    }
    return text;
  }

  shown(token) { return this.kind === "words" ? this.units[token] : this.units[token].replaceAll(" ", SPACE); }
}

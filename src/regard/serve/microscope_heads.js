// Layers and heads: every one as a small picture; the chosen one, their mean or the rollout as lines between two rows of
// words. To the source, and for a Transformer its encoder's and decoder's attention to themselves.
microscope.panels.heads = {
  follows: true,
  side: "source", kind: "mean", layer: 0, head: 0, whole: false, own: null, of: "",

  async draw({place}) {
    const now = await microscope.know(), wanted = JSON.stringify(microscope.request);
    if (this.of !== wanted) {
      this.own = await microscope.ask("self-attention", microscope.request);
      this.of = wanted;
    }
    const traces = {source: now.attention.weights.length ? now.attention : null, encoder: this.own.encoder, decoder: this.own.decoder};
    const able = Object.keys(traces).filter((side) => traces[side]);
    if (!able.length) return [make("p", {text: "This model has no attention."})];
    if (!able.includes(this.side)) this.side = able[0];
    const trace = traces[this.side], [layers, heads] = trace.shape;
    this.layer = Math.min(this.layer, layers - 1);
    this.head = Math.min(this.head, heads - 1);
    const again = () => this.draw({place}).then((made) => refill(place, made)).catch(warn);
    const words = {source: "Output to source", encoder: "Source to itself (encoder)", decoder: "Output to itself (decoder)"};
    const side = this.menu("Attention", able.map((one) => [one, words[one]]), this.side, (value) => { this.side = value; again(); }, "sides");
    const kinds = [["mean", "mean of all heads"], ...(layers > 1 && this.side !== "source" ? [["rollout", "rollout over the layers"]] : []),
      ["head", `layer ${this.layer}, head ${this.head}`]];
    if (!kinds.some(([name]) => name === this.kind)) this.kind = "mean";
    const kind = this.menu("Shown", kinds, this.kind, (value) => { this.kind = value; again(); }, "kinds");
    const whole = make("input", {type: "checkbox", checked: this.whole});
    whole.addEventListener("change", () => { this.whole = whole.checked; again(); });
    let rows = this.kind === "mean" ? meanOf(trace.weights) : this.kind === "rollout" ? rollout(trace.weights) : trace.weights[this.layer][this.head];
    let down = trace.target.map(labelOf), across = trace.source.map(labelOf), chosen = this.side === "encoder" ? -1 : microscope.at.step;
    const splits = new Set(trace.source_words).size < trace.source.length || new Set(trace.target_words).size < trace.target.length;
    if (this.whole) ({rows, down, across, chosen} = merged(rows, trace, chosen));
    const parts = [make("div", {class: "line"}, side, kind, ...(splits ? [make("label", {}, whole, " whole words")] : []))];
    if (layers * heads > 1) parts.push(this.small(trace, again));
    if (this.kind === "rollout") parts.push(make("p", {class: "quietly", text:
      "Rollout: the mean of each layer’s heads, half of it the word itself (the residual), multiplied through the layers."}));
    const linked = this.side !== "encoder" && !this.whole;
    if (linked && chosen >= 0) parts.push(make("p", {class: "quietly"}, "Click a word on the right, and ",
      make("b", {text: down[chosen], dir: "auto"}), ` attends there${this.kind === "head" ? "" : ", in all layers and heads"}.`));
    parts.push(flow(rows, down, across, chosen, linked ? (word) => document.querySelectorAll(".view .words button")[word]?.click() : null,
      linked ? (place) => this.attend(place) : null));
    return parts;
  },

  attend(place) {  // edits what is shown: the attention to the source, or the decoder's to what it has written
    const {step} = microscope.at, edit = {kind: "weights", step, weights: {[place]: 0.9}};
    if (this.kind === "head") Object.assign(edit, {layer: this.layer, head: this.head});
    if (this.side === "decoder") edit.attention = "own";
    if (this.side !== "decoder" || place <= step) microscope.act(edit);
  },

  menu(name, options, value, chosen, kind) {
    const select = make("select", {class: kind}, ...options.map(([one, text]) => new Option(text, one)));
    select.value = value;
    select.addEventListener("change", () => chosen(select.value));
    return make("label", {}, `${name} `, select);
  },

  small(trace, again) {
    const [layers, heads] = trace.shape, grid = make("div", {class: "many", role: "group", "aria-label": "Heads: choose one"});
    grid.style.setProperty("--heads", heads);
    for (let layer = 0; layer < layers; layer++) for (let head = 0; head < heads; head++) {
      const rows = trace.weights[layer][head], on = this.kind === "head" && layer === this.layer && head === this.head;
      const button = make("button", {type: "button", class: `at${layer}-${head}`, "aria-pressed": String(on), onclick: () => {
        Object.assign(this, {kind: "head", layer, head});
        if (this.side === "source") this.tellMatrix(layer, head);
        again();
      }}, heat(rows, peak(rows), ""), make("span", {text: `layer ${layer}, head ${head}`}));
      button.querySelector("canvas").setAttribute("aria-hidden", "true");
      grid.append(button);
    }
    return make("div", {class: "scroll"}, grid);
  },

  tellMatrix(layer, head) {  // the matrix above shows the same
    for (const [name, value] of [["layer", layer], ["head", head]]) {
      const menu = document.querySelector(`.view .stepper .${name}`);
      if (menu) { menu.value = value; menu.dispatchEvent(new Event("change")); }
    }
  },
};

function rollout(layers) {  // Abnar & Zuidema 2020, with half of each layer the residual connection
  let whole = null;
  for (const heads of layers) {
    const own = meanOf([heads]).map((row, t) => row.map((weight, s) => (weight + (s === t ? 1 : 0)) / (row.reduce((a, b) => a + b, 0) + 1 || 1)));
    whole = whole ? own.map((row) => whole[0].map((_, s) => row.reduce((all, weight, k) => all + weight * whole[k][s], 0))) : own;
  }
  return whole;
}

function merged(rows, trace, chosen) {  // tokens of a word together: columns are added, rows averaged; marks stay
  const group = (tokens, words) => {
    const groups = [];
    tokens.forEach((token, place) => {
      const last = groups.at(-1), word = words[place] ?? -1;
      if (last && word >= 0 && last.word === word) last.places.push(place); else groups.push({word, places: [place]});
    });
    return groups;
  };
  const name = (tokens) => ({places}) => places.map((place) => labelOf(tokens[place])).join("");
  const down = group(trace.target, trace.target_words), across = group(trace.source, trace.source_words);
  return {
    rows: down.map((row) => across.map((column) => row.places.reduce((all, t) =>
      all + column.places.reduce((part, s) => part + (rows[t][s] || 0), 0), 0) / row.places.length)),
    down: down.map(name(trace.target)), across: across.map(name(trace.source)),
    chosen: down.findIndex((row) => row.places.includes(chosen)),
  };
}

function flow(rows, down, across, chosen, pick, attend) {  // lines from each attending word, on the left, to where it looks
  const room = (labels) => 22 + 9 * Math.min(Math.max(...labels.map((label) => [...label].length), 1), 18);
  const high = 24, left = room(down), right = left + 190, width = right + room(across), height = Math.max(down.length, across.length) * high + 8;
  const picture = drawn("svg", {width, viewBox: `0 0 ${width} ${height}`, class: "flow", role: attend ? "group" : "img",
    "aria-label": `Attention of ${down.length} words on the left to ${across.length} on the right`});
  const lines = drawn("g"), y = (place) => 4 + (place + 0.5) * high, groups = [];
  const few = rows.length * (across.length || 1) > 4000 ? 0.1 : 0.02;
  rows.forEach((row, t) => {
    const group = drawn("g", {class: "from"});
    row.forEach((weight, s) => {
      if (weight < few) return;
      group.append(drawn("path", {d: `M${left} ${y(t)}C${(left + right) / 2} ${y(t)} ${(left + right) / 2} ${y(s)} ${right} ${y(s)}`,
        "stroke-opacity": Math.min(0.08 + weight, 1).toFixed(3), "stroke-width": (0.6 + 3.4 * Math.min(weight, 1)).toFixed(2)}));
    });
    groups.push(group);
  });
  lines.append(...groups);
  const cut = (label) => (label.length > 18 ? `${[...label].slice(0, 17).join("")}…` : label);
  const sides = [[down, left - 10, "end", "down"], [across, right + 10, "start", "across"]].map(([labels, x, anchor, kind]) =>
    labels.map((label, place) => drawn("text", {x, y: y(place) + 5, "text-anchor": anchor, class: kind, text: cut(label)})));
  const choose = (word) => {
    groups.forEach((group, t) => group.classList.toggle("off", word >= 0 && t !== word));
    sides[0].forEach((text, t) => text.classList.toggle("on", t === word));
    sides[1].forEach((text, s) => text.setAttribute("fill-opacity", word < 0 ? 1 : Math.min(0.35 + (rows[word][s] || 0) * 1.3, 1)));
  };
  sides[0].forEach((text, t) => {
    text.addEventListener("pointerenter", () => choose(t));
    text.addEventListener("pointerleave", () => choose(chosen));
    if (pick) { text.classList.add("able"); text.addEventListener("click", () => pick(t)); }  // the matrix above goes there, too
  });
  if (attend) sides[1].forEach((text, s) => {  // by keyboard, too: the arrow keys go from word to word, Enter attends
    for (const [name, value] of Object.entries({role: "button", tabindex: s ? -1 : 0, class: "across able", "aria-label": `Attend to ${across[s]}`})) text.setAttribute(name, value);
    text.addEventListener("click", () => attend(s));
    text.addEventListener("keydown", (event) => {
      const to = sides[1][s + ({ArrowDown: 1, ArrowUp: -1}[event.key] || 0)];
      if (event.key === "Enter") attend(s);
      if (to && to !== text) { event.preventDefault(); to.focus(); }
    });
  });
  picture.append(lines, ...sides.flat());
  choose(chosen);
  return make("div", {class: "scroll tall"}, picture);
}

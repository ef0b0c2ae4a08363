// The microscope: a translation opened up. It holds the text, the model and the list of edits, which are all that a link
// needs; everything else is asked for again. Each panel asks the server when it is opened, and again after an edit.
const microscope = {
  panels: {},  // name: {draw({place}), follows}: `draw` returns what its place shows, `follows` says whether it shows the chosen word
  about: null, actions: [], undone: [], now: null, at: {step: 0, layer: -1, head: -1}, pending: null, asking: null, hash: "",
  beam: null, turns: new Map(),

  get edits() { return this.actions.flat(); },
  get request() {
    const {text, model, to} = this.about;
    return {text, model, ...(to && {to}), ...(this.beam && {beam: this.beam}), edits: this.edits};
  },

  async ask(what, body, signal) {
    const headers = {"Content-Type": "application/json"};
    return (await call(`api/translate/${what}`, {method: "POST", headers, body: JSON.stringify(body), signal})).json();
  },

  // ------------------------------------------------------------------------------------------------ opening and closing

  open(about, told) {  // on a translation that the page shows
    const linked = this.pending || {edits: [], at: {}};
    this.pending = null;
    Object.assign(this, {about, actions: grouped(linked.edits), kept: [], undone: [], now: null, plain: told.translations[0]});
    this.at = {step: 0, layer: -1, head: -1, ...linked.at};
    page.find(".microscope").hidden = !this.plain.tokens.length;
    if (linked.wrong) warn(new Error(linked.wrong));
    this.prepare();
    if (this.actions.length) this.refresh();
    else this.settle();
  },

  close() {
    if (this.asking) this.asking.abort();
    this.now = this.about = this.knowing = null;
    page.find(".microscope").hidden = true;
  },

  choose(place, tokens) {  // another of the best translations
    this.kept = this.actions = place ? [[{kind: "keep", tokens}]] : [];
    this.plain = {tokens};
    this.undone = [];
    this.now = null;
    this.settle();
  },

  settle() {
    this.prepare();
    this.tell();
    this.remember();
    this.redraw(true);
  },

  // ----------------------------------------------------------------------------------------------------------- editing

  act(edit) {  // an edit from the step on that it changes first: the words before it stay
    const tokens = (this.now || this.plain).tokens, action = [];
    const same = (one) => edit.kind === "weights" && one && one.kind === "weights"
      && ["step", "layer", "head", "attention"].every((name) => one[name] === edit[name])
      && Object.keys(one.weights).join() === Object.keys(edit.weights).join();
    if (same(this.edits.at(-1))) action.push(...this.actions.pop().slice(0, -1));  // the same weight, moved on
    else if (edit.step) {
      const forced = this.edits.filter((one) => one.kind === "prefix").at(-1);
      const count = Math.max(edit.step, forced ? forced.tokens.length : 0);
      action.push({kind: "keep", tokens: tokens.slice(0, count)});
    }
    this.actions.push([...action, edit]);
    this.undone = [];
    return this.refresh();
  },

  move(region, weight = 0.9) {
    const {step, layer, head} = this.at;
    const one = {kind: "weights", step, weights: {[region]: weight}};
    if (layer >= 0) one.layer = layer;
    if (head >= 0) one.head = head;
    return this.act(one);
  },

  undo(place = this.actions.length - 1) {
    const [gone] = this.actions.splice(place, 1);
    if (gone) { this.undone.push(gone); this.refresh(); }
  },

  redo() {
    if (this.undone.length) { this.actions.push(this.undone.pop()); this.refresh(); }
  },

  know() {  // the translation with its attention as numbers, asked for once
    if (this.now) return Promise.resolve(this.now);
    const about = this.about;
    this.knowing = this.knowing || this.ask("edit", this.request).then((told) => {
      if (this.about === about) this.now = told;
      this.tell();
      return told;
    }).finally(() => { this.knowing = null; });
    return this.knowing;
  },

  async refresh() {
    if (this.asking) this.asking.abort();
    const own = this.asking = new AbortController(), section = page.find(".microscope");
    section.setAttribute("aria-busy", "true");
    page.find(".wrong[role]").hidden = true;
    try {
      const found = await this.ask("edit", this.request, own.signal);
      if (this.asking !== own) return;
      this.now = found;
      this.kept = [...this.actions];
      this.at.step = Math.min(this.at.step, found.tokens.length - 1);
      const reading = page.find(".view").contains(document.activeElement);
      look(found.view);
      this.prepare();
      if (reading) document.querySelectorAll(".view .words button")[this.at.step]?.focus({preventScroll: true});
      page.find(".choices").hidden = this.actions.length > 0;
      this.tell();
      this.remember();
      this.redraw(true);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.actions = [...this.kept];  // what failed is not kept
      this.tell();
      this.remember();
      warn(error);
    } finally {
      if (this.asking === own) { this.asking = null; section.setAttribute("aria-busy", "false"); }
    }
  },

  prepare() {  // lets the words and the matrix that the server drew be edited, and opens them where the last ones were
    for (const root of document.querySelectorAll(".view .stepper")) Object.assign(root.dataset, {editable: "", ...this.at});
  },

  // ----------------------------------------------------------------------------------------------------------- showing

  tell() {
    const list = page.find(".edits ol"), changed = page.find(".changed");
    page.find(".edits").hidden = !this.actions.length && !this.undone.length;
    page.find(".undo").disabled = page.find(".none").disabled = !this.actions.length;
    page.find(".redo").disabled = !this.undone.length;
    list.replaceChildren(...this.actions.map((action, place) => make("li", {},
      make("span", {text: describe(action.at(-1), this.now)}),
      make("button", {type: "button", text: "Undo", "aria-label": `Undo edit ${place + 1}`, onclick: () => this.undo(place)}))));
    changed.hidden = !this.now || !this.actions.length;
    if (!changed.hidden) changed.replaceChildren(...difference(this.now));
  },

  redraw(fresh) {  // the open panels: after an edit all, after a step those that show the chosen word
    for (const details of document.querySelectorAll(".microscope details")) {
      if (details.open && (fresh || this.panels[details.dataset.panel].follows)) this.draw(details);
    }
  },

  async draw(details) {
    const place = details.querySelector(".panel"), about = this.about;
    if (!about) return;
    const turn = {};
    this.turns.set(details, turn);  // an answer that comes after that of a later step is not shown
    const late = () => this.about !== about || this.turns.get(details) !== turn;
    place.setAttribute("aria-busy", "true");
    try {
      const made = await this.panels[details.dataset.panel].draw({place});
      if (!late()) refill(place, made);
    } catch (error) {
      if (error.name !== "AbortError" && !late()) place.replaceChildren(make("p", {class: "wrong", text: told(error)}));
    } finally {
      if (this.turns.get(details) === turn) place.setAttribute("aria-busy", "false");
    }
  },

  // ------------------------------------------------------------------------------------------------------------- links

  remember() {
    const {text, model, to} = this.about, edits = this.edits, parts = new URLSearchParams({text, model});
    if (to) parts.set("to", to);
    if (this.at.step > 0) parts.set("step", this.at.step);
    for (const name of ["layer", "head"]) if (this.at[name] >= 0) parts.set(name, this.at[name]);
    if (edits.length) parts.set("edits", JSON.stringify(edits));
    this.hash = `#${parts}`;
    history.replaceState(null, "", this.hash);
  },

  follow() {  // the link that the page was opened with
    const parts = new URLSearchParams(location.hash.slice(1)), text = parts.get("text");
    if (!text || location.hash === this.hash) return;
    const model = page.models.find((one) => one.name === parts.get("model") && one.task === "translate")
      || page.models.find((one) => one.task === "translate");
    if (!model) return;
    let edits = [], wrong = "";
    try {
      edits = JSON.parse(parts.get("edits") || "[]");
      if (!Array.isArray(edits) || !edits.every((one) => one && typeof one === "object")) throw new Error("not a list of objects");
    } catch (error) {
      wrong = `The edits of this link cannot be read, so they are left out: ${error.message}.`;
      edits = [];
    }
    const whole = (name, none) => (/^\d{1,4}$/.test(parts.get(name)) ? Number(parts.get(name)) : none);
    this.pending = {edits, wrong, at: {step: whole("step", 0), layer: whole("layer", -1), head: whole("head", -1)}};
    page.chosen.text = model;
    open("text");
    if (parts.get("to")) page.find(".to select").value = parts.get("to");
    page.find("#given").value = text;
    askText();
  },

  start() {
    const section = page.find(".microscope");
    for (const details of section.querySelectorAll("details")) {
      details.addEventListener("toggle", () => { if (details.open) this.draw(details); });
    }
    document.addEventListener("regard:step", ({detail: {step, layer, head}}) => {
      if (!this.about) return;
      const moved = step !== this.at.step || layer !== this.at.layer || head !== this.at.head;
      if (step >= 0) this.at = {step, layer, head};
      if (moved && step >= 0) later(() => { if (this.about) { this.remember(); this.redraw(false); } });
    });
    document.addEventListener("regard:pick", ({detail: {step, region}}) => {
      if (!this.about || step < 0) return;
      this.at.step = step;
      this.move(region);
    });
    section.querySelector(".undo").addEventListener("click", () => this.undo());
    section.querySelector(".redo").addEventListener("click", () => this.redo());
    section.querySelector(".none").addEventListener("click", () => {
      this.undone.push(...this.actions.splice(0).reverse());
      this.refresh();
    });
    section.querySelector(".link").addEventListener("click", () => copy(location.href, "The link is copied."));
    section.querySelector(".json").addEventListener("click", () => copy(JSON.stringify(this.edits, null, 1), "The edits are copied."));
    section.querySelectorAll(".files button").forEach((one) => one.addEventListener("click", async () => {
      try { save(one.value, await this.know()); } catch (error) { warn(error); }
    }));
    addEventListener("hashchange", () => this.follow());
    this.follow();
  },
};

// -------------------------------------------------------------------------------------------------------------- helpers

let due = 0;
function later(work, wait = 120) {  // once, when nobody goes on for a moment
  clearTimeout(due);
  due = setTimeout(work, wait);
}

function told(error) {
  return error instanceof TypeError ? "The server cannot be reached. Is it still running?" : error.message;
}

function warn(error) {
  const place = page.find(".wrong[role]");
  place.textContent = told(error);
  place.hidden = false;
}

async function copy(text, said) {
  const place = page.find(".copied");
  try {
    await navigator.clipboard.writeText(text);
    place.textContent = said;
  } catch {  // without a secure connection there is no clipboard
    const area = make("textarea", {"aria-label": "To copy", readOnly: true, rows: 4});
    area.value = text;
    place.replaceChildren(area);
    area.select();
  }
}

// Replaces what a panel shows; what had the focus keeps it.
function refill(place, made) {
  const able = () => [...place.querySelectorAll("button, input, select, [tabindex]")], focused = able().indexOf(document.activeElement);
  const same = (one, other) => ["aria-label", "class"].every((name) => one.getAttribute(name) === other.getAttribute(name)) && one.tagName === other.tagName;
  const before = document.activeElement, scrolled = [...place.querySelectorAll(".scroll, .weights")].map((one) => [one.scrollLeft, one.scrollTop]);
  place.replaceChildren(...made);
  [...place.querySelectorAll(".scroll, .weights")].forEach((one, at) => { if (scrolled[at]) [one.scrollLeft, one.scrollTop] = scrolled[at]; });
  if (focused < 0) return;
  const now = able(), to = now[focused] && same(now[focused], before) ? now[focused] : now.find((one) => same(one, before));
  (to || now[Math.min(focused, now.length - 1)])?.focus({preventScroll: true});
}

// An element: `text` and other properties, attributes with a dash, `share` for the length of a bar. Never markup.
function make(name, given = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (key === "text") made.textContent = value;
    else if (key === "class") made.className = value;
    else if (key === "share") made.style.setProperty("--share", value);
    else if (key in made && !key.includes("-")) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

function drawn(name, given = {}, ...inside) {  // of an SVG
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "text") made.textContent = value;
    else if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

const MARKS = ["<s>", "</s>", "<pad>", "<unk>"];
function labelOf(token) {
  return token.length > 1 && token.startsWith("\u2581") ? token.slice(1) : token.replaceAll("\u2581", "␣") || "∅";
}
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
const minus = (value) => (value === null ? "−∞" : value.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−"));

function grouped(edits) {  // a `keep` belongs to the edit after it
  const actions = [];
  for (const one of edits) {
    const last = actions.at(-1);
    if (last && last.length === 1 && last[0].kind === "keep") last.push(one); else actions.push([one]);
  }
  return actions;
}

function describe(edit, now) {
  const source = (place) => (edit.attention === "own" ? quote(place ? (now ? now.labels.target[place - 1] : String(place)) : "<s>") : "") || quote(now && now.labels.source[place] !== undefined ? now.labels.source[place] : String(place));
  const where = [...(edit.attention === "own" ? ["the decoder’s own attention"] : []), ...(edit.layer === undefined || edit.layer === null ? [] : [`layer ${edit.layer}`]),
    ...(edit.head === undefined || edit.head === null ? [] : [`head ${edit.head}`])].join(", ");
  const step = edit.step === undefined || edit.step === null ? "all words" : `word ${edit.step + 1}`;
  const put = (weights) => Object.entries(weights).map(([place, weight]) => `${number(weight)} on ${source(Number(place))}`);
  if (edit.kind === "weights") return `${step}: ${put(edit.weights).join(", ")}${where && ` (${where})`}`;
  if (edit.kind === "row") return `${step}: a whole row of weights${where && ` (${where})`}`;
  if (edit.kind === "ablate") return `${where || "all heads"} ${edit.to === "uniform" ? "made uniform" : "silenced"}, ${step}`;
  if (edit.kind === "drop") return `without ${source(edit.position)}`;
  return `starts with ${quote((edit.tokens || []).map(labelOf).join(" "))}`;
}

function difference(now) {  // old words struck, new ones marked, each with the change of its log-probability
  const line = make("p", {class: "diff", dir: "auto"});
  let old = 0, fresh = 0;
  const word = (kind, token, note, title) => line.append(make(kind, {class: "token", title}, make("bdi", {text: labelOf(token)}),
    make("i", {text: note})), " ");
  for (const change of now.comparison.changes) {
    for (const token of change.old) {
      const one = now.comparison.old[old++], by = one.change;
      const note = by === null ? "" : Math.abs(by) < 0.005 ? "" : signed(by);
      const title = by === null ? "" : `log-probability ${minus(one.log_prob)}, with the edits ${minus(one.edited)}`;
      word(change.kind === "same" ? "span" : "del", token, note, title);
    }
    for (const token of change.new) {
      const one = now.comparison.new[fresh++];
      if (change.kind !== "same") word("ins", token, minus(one.log_prob), `log-probability ${minus(one.log_prob)}`);
    }
  }
  const same = now.comparison.changes.every((change) => change.kind === "same");
  const text = make("p", {class: "became"}, make("span", {class: "quietly", text: same ? "The same words as without edits: " : "With the edits: "}),
    make("b", {text: now.text, dir: "auto"}));
  return [text, line, make("p", {class: "quietly", text:
    "Below a word: by how much the edits change its log-probability; of a new word, its log-probability."})];
}

// A row with a bar of a share of its width, and the number itself.
function barCell(value, share, kind = "") {
  return make("td", {class: `bar ${kind}`, share: Math.min(Math.max(share || 0, 0), 1).toFixed(3), text: value});
}

function coloured(within) {  // the link colour as numbers
  const colour = getComputedStyle(within || document.body).getPropertyValue("--link").trim();
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
}

// A heat map without labels, one pixel for each weight; negative ones in another colour.
function heat(rows, highest, label) {
  const canvas = make("canvas", {width: rows[0] ? rows[0].length : 1, height: rows.length || 1, role: "img", "aria-label": label});
  const drawing = canvas.getContext("2d"), picture = drawing.createImageData(canvas.width, canvas.height), own = coloured();
  let place = 0;
  for (const row of rows) for (const weight of row) {
    const share = Math.min(Math.abs(weight || 0) / (highest || 1), 1);
    picture.data.set([...(weight < 0 ? [194, 65, 12] : own), Math.round(share * 255)], place);
    place += 4;
  }
  drawing.putImageData(picture, 0, 0);
  return canvas;
}

const meanOf = (layers) => {  // layers × heads × T × S
  const every = layers.flat(), rows = every[0] ? every[0].length : 0;
  return Array.from({length: rows}, (_, t) => every[0][t].map((_, s) => every.reduce((sum, head) => sum + (head[t][s] || 0), 0) / every.length));
};
const peak = (rows) => rows.reduce((most, row) => row.reduce((a, b) => Math.max(a, Math.abs(b || 0)), most), 0);

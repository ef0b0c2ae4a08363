// Two models side by side on the same text, with what differs marked.
microscope.panels.models = {
  follows: false,
  other: "",

  async draw({place}) {
    const own = microscope.about.model, others = page.models.filter((one) => one.task === "translate" && one.name !== own);
    if (!others.length) return [make("p", {text: "This server has one model that translates. Start it with two folders to compare them: regard serve ONE OTHER."})];
    if (!others.some((one) => one.name === this.other)) this.other = others[0].name;
    const select = make("select", {}, ...others.map((one) => new Option(one.name, one.name)));
    select.value = this.other;
    select.addEventListener("change", () => {
      this.other = select.value;
      this.draw({place}).then((made) => refill(place, made)).catch(warn);
    });
    const {text, to} = microscope.about, tags = others.find((one) => one.name === this.other).tags;
    const both = await Promise.all([microscope.know(),
      microscope.ask("edit", {text, model: this.other, ...(to && tags.includes(to) && {to}), edits: []})]);
    const words = both.map((one) => one.text.split(/\s+/).filter(Boolean)), kept = common(...words);
    return [make("div", {class: "line"}, make("label", {}, "Compare with ", select)),
      make("div", {class: "two"}, ...both.map((one, side) => make("figure", {}, make("figcaption", {text: one.edits.length ? `${one.model}, with your edits` : one.model}), said(words[side], kept[side], side),
        ...(one.attention.weights.length ? [mini(one)] : [make("p", {class: "quietly", text: "no attention"})]),
        make("p", {class: "quietly", text: `score ${minus(one.score)} · ${one.tokens.length} tokens`})))),
      make("p", {class: "quietly", text: words[0].join(" ") === words[1].join(" ") ? "Both write the same." : "Words that only one of them writes are marked."})];

    function said(words, kept, side) {
      return make("p", {dir: "auto", class: "diff"}, ...words.flatMap((word, at) => [make(kept.has(at) ? "span" : side ? "ins" : "mark", {text: word}), " "]));
    }
    function mini(one) {
      return flow(meanOf(one.attention.weights), one.labels.target, one.labels.source, -1);
    }
  },
};

function common(left, right) {  // the places of a longest common subsequence, in each
  const size = Array.from({length: left.length + 1}, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) for (let j = right.length - 1; j >= 0; j--) {
    size[i][j] = left[i] === right[j] ? size[i + 1][j + 1] + 1 : Math.max(size[i + 1][j], size[i][j + 1]);
  }
  const found = [new Set(), new Set()];
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) { found[0].add(i++); found[1].add(j++); }
    else if (size[i + 1][j] >= size[i][j + 1]) i++; else j++;
  }
  return found;
}

// Is the attention right? Occlusion and gradient × input beside it, and what they say in plain words.
microscope.panels.right = {
  follows: true,
  found: null, of: "",

  async draw() {
    const wanted = JSON.stringify(microscope.request);
    if (this.of !== wanted) {
      this.found = await microscope.ask("attribution", microscope.request);
      this.of = wanted;
    }
    const found = this.found, {step} = microscope.at, label = found.labels.target[step];
    const parts = [make("ul", {class: "findings"}, ...found.findings.map((text) => make("li", {text})))];
    const kinds = [["Attention", found.attention], ["Occlusion", found.occlusion], ["Gradient × input", found.gradient]].filter(([, rows]) => rows);
    const most = kinds.map(([, rows]) => peak(rows));
    parts.push(make("div", {class: "three"}, ...kinds.map(([name, rows], at) => make("figure", {}, heat(rows, most[at], `${name}: ${rows.length} output by ${rows[0].length} source tokens`),
      make("figcaption", {text: name})))));
    if (label !== undefined) {
      const entropy = found.entropy[step], note = entropy === undefined || entropy === null ? "" : ` Its attention has ${percent(entropy)} of the entropy of uniform attention.`;
      parts.push(make("p", {}, "What mattered for ", make("b", {text: label, dir: "auto"}), `.${note}`));
      const strongest = kinds.map(([, rows]) => Math.max(...rows[step].map((value) => Math.abs(value || 0)), 1e-9));
      const heading = ["Source", ...kinds.map(([name]) => name), ...(found.coverage.length ? ["Coverage"] : [])];
      const rows = found.labels.source.map((name, place) => make("tr", {}, make("th", {scope: "row", text: name, dir: "auto"}),
        ...kinds.map(([, values], at) => {
          const value = values[step][place];
          return value === null ? make("td", {class: "quietly", text: "–"}) : barCell(minus(value), Math.abs(value) / strongest[at], value < 0 ? "against" : "");
        }), ...(found.coverage.length ? [make("td", {text: minus(found.coverage[place])})] : [])));
      parts.push(make("div", {class: "scroll", tabIndex: 0, role: "region", "aria-label": "Measures of each source token"}, make("table", {class: "numbers"},
        make("thead", {}, make("tr", {}, ...heading.map((text) => make("th", {scope: "col", text})))), make("tbody", {}, ...rows))));
    }
    parts.push(make("p", {class: "quietly", text: "Occlusion: by how much the word’s log-probability falls without the source token. Gradient × input: its slope along the "
      + "token’s embedding. Coverage: all attention to the token, over all words. Edits of weights are left out here: this is about the model itself."}));
    return parts;
  },
};

// A beam search as a tree: what was kept, pruned and finished. A node that is chosen becomes a forced prefix.
microscope.panels.tree = {
  follows: false,
  beam: 3, pruned: true, found: null, of: "",

  async draw({place}) {
    const {text, model, to} = microscope.about, wanted = {text, model, ...(to && {to}), beam: this.beam};
    if (this.of !== JSON.stringify(wanted)) {  // it does not depend on edits
      this.found = await microscope.ask("tree", wanted);
      this.of = JSON.stringify(wanted);
    }
    const beam = make("select", {}, ...[1, 2, 3, 4, 5, 8].map((size) => new Option(size, size)));
    beam.value = this.beam;
    const again = () => this.draw({place}).then((made) => refill(place, made))
      .catch(warn);
    beam.addEventListener("change", () => { this.beam = Number(beam.value); again(); });
    const pruned = make("input", {type: "checkbox", checked: this.pruned});
    pruned.addEventListener("change", () => { this.pruned = pruned.checked; again(); });
    const count = (status) => this.found.nodes.filter((node) => node.number && node.status === status).length;
    return [
      make("div", {class: "line"}, make("label", {}, "Beam ", beam), make("label", {}, pruned, " pruned ones, too"),
        make("span", {class: "quietly", text: `${count("kept")} kept, ${count("pruned")} pruned, ${count("finished")} finished`})),
      make("p", {class: "quietly", text: "Each word: its log-probability so far, then the score by which the search ranks it"
        + ` (length penalty ${number(this.found.length_penalty)}). Choose one to continue from there, a pruned one as well.`}),
      this.picture(this.found)];
  },

  picture(found) {
    const wide = 116, high = 34, shown = found.nodes.filter((node) => this.pruned || node.status !== "pruned");
    const under = new Map(shown.map((node) => [node.number, []]));
    for (const node of shown) if (under.has(node.parent)) under.get(node.parent).push(node);
    const ends = new Set(found.finished.length ? [found.finished[0]] : []);
    for (let at = found.finished[0]; at > 0; at = found.nodes[at].parent) ends.add(at);  // the best one's way
    const rows = new Map([[0, 0]]), columns = [[shown[0]]];
    const order = (node) => (ends.has(node.number) ? 0 : node.status === "pruned" ? 2 : 1);
    while (columns.at(-1).length) {  // a column for each step: in the order of the parents, what is kept before what is not
      columns.push(columns.at(-1).flatMap((node) => under.get(node.number).sort((a, b) => order(a) - order(b) || b.score - a.score)));
      columns.at(-1).forEach((node, row) => rows.set(node.number, row));
    }
    const x = (node) => 8 + (node.step + 1) * wide, y = (node) => 14 + rows.get(node.number) * high;
    const width = 8 + (columns.length - 1) * wide, height = Math.max(...columns.map((column) => column.length)) * high + 8;
    const picture = drawn("svg", {width, height, viewBox: `0 0 ${width} ${height}`, class: "tree", role: "group", "aria-label": "Search tree"});
    for (const node of shown.slice(1)) {
      const parent = found.nodes[node.parent], x1 = x(parent) + wide - 24, x2 = x(node) - 4, bend = (x1 + x2) / 2;
      picture.append(drawn("path", {class: `${node.status}${ends.has(node.number) ? " best" : ""}`,
        d: `M${x1} ${y(parent)}C${bend} ${y(parent)} ${bend} ${y(node)} ${x2} ${y(node)}`}));
    }
    const tokens = (node) => (node.parent < 0 ? [] : [...tokens(found.nodes[node.parent]), node.token]);
    const take = (node) => { if (node.number) microscope.act({kind: "prefix", tokens: tokens(node)}); };
    const nodes = shown.map((node) => {
      const label = found.labels[node.number], root = node.parent < 0;
      const name = root ? "start" : `${label}, ${node.status}, log-probability ${minus(node.log_prob)}, score ${minus(node.score)}`;
      const short = label.length > 9 ? `${[...label].slice(0, 8).join("")}…` : label;
      const group = drawn("g", {class: `node ${node.status}${ends.has(node.number) ? " best" : ""}`, "aria-label": name,
        role: root ? "img" : "button", tabindex: root ? -1 : node.number === shown[1]?.number ? 0 : -1, onclick: () => take(node), onkeydown: (event) => move(event, node)},
        drawn("rect", {x: x(node) - 4, y: y(node) - 13, width: wide - 20, height: 28, rx: 6}), drawn("title", {text: name}),
        drawn("text", {class: "word", x: x(node) + 3, y: y(node) - (root ? -5 : 1), text: root ? "start" : short}));
      if (!root) group.append(drawn("text", {class: "score", x: x(node) + 3, y: y(node) + 11, text: `${minus(node.log_prob)} · ${minus(node.score)}`}));
      return group;
    });
    const go = (node) => {
      const group = node && nodes[shown.indexOf(node)];
      if (!group || !node.number) return;
      nodes.forEach((one) => one.setAttribute("tabindex", one === group ? 0 : -1));
      group.focus();
    };
    function move(event, node) {
      const line = shown.filter((one) => one.step === node.step).sort((a, b) => rows.get(a.number) - rows.get(b.number));
      const to = {ArrowRight: () => under.get(node.number)[0], ArrowLeft: () => found.nodes[node.parent],
        ArrowDown: () => line[line.indexOf(node) + 1], ArrowUp: () => line[line.indexOf(node) - 1]}[event.key];
      if (to) { event.preventDefault(); go(to()); }
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); take(node); }
    }
    picture.append(...nodes);
    return make("div", {class: "scroll tall"}, picture);
  },
};

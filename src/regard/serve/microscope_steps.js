// The five steps of attention at the chosen word, with the model's own numbers.
microscope.panels.steps = {
  follows: true,

  async draw() {
    const {step, layer, head} = microscope.at;
    const found = await microscope.ask("step", {...microscope.request, step});
    const parts = [make("p", {}, "How the model came to ", make("b", {text: labelOf(found.token), dir: "auto"}),
      ` (log-probability ${minus(found.log_prob)}).`)];
    if (found.layers.length) {
      const at = Math.max(layer, 0) % found.layers.length, one = found.layers[at], which = Math.max(head, 0) % one.scores.length;
      const several = found.layers.length > 1 || one.scores.length > 1;
      if (several) {
        const note = layer < 0 || head < 0 ? " Choose others in the menus above the matrix." : "";
        parts.push(make("p", {class: "quietly", text: `Layer ${at}, head ${which}.${note}`}));
      }
      parts.push(numbers(found, one, which));
      if (microscope.edits.some((one) => ["weights", "row", "ablate"].includes(one.kind))) {
        parts.push(make("p", {class: "quietly", text: "The weights are those after your edits, so they need not be the softmax of the scores."}));
      }
    } else parts.push(make("p", {text: "This model has no attention to the source, so there is only the last step."}));
    parts.push(make("p", {class: "side", text: "5 · Output: the most probable words"}), make("div", {class: "scroll"},
      make("table", {class: "numbers"}, make("tbody", {}, ...found.candidates.map(([token, probability], place) => make("tr",
        {class: token === found.token ? "on" : ""}, make("th", {scope: "row", text: found.labels.target[place], dir: "auto"}),
        barCell(number(probability), probability)))))));
    return parts;

    function numbers(found, one, which) {
      const scores = one.scores[which], masked = one.masked[which], weights = one.weights[which], parts = one.contributions[which];
      const known = scores.filter((value) => value !== null), low = Math.min(...known), high = Math.max(...known);
      const most = Math.max(...parts.filter((value) => value !== null), 1e-9);
      const heading = ["Source", "1 · Score", "2 · Masked", "3 · Softmax", "4 · Part in the context"];
      const spread = (value) => (value === null ? 0 : (value - low) / (high - low || 1));
      const rows = scores.map((score, place) => make("tr", {},
        make("th", {scope: "row", text: found.labels.source[place], dir: "auto"}),
        barCell(minus(score), spread(score), "faint"),
        barCell(masked[place] === null ? "hidden" : minus(masked[place]), masked[place] === null ? 0 : spread(score), "faint"),
        barCell((weights[place] || 0).toFixed(3), weights[place]), barCell((parts[place] || 0).toFixed(3), (parts[place] || 0) / most)));
      return make("div", {class: "scroll", tabIndex: 0, role: "region", "aria-label": "The first four steps"}, make("table", {class: "numbers"},
        make("thead", {}, make("tr", {}, ...heading.map((text) => make("th", {scope: "col", text})))), make("tbody", {}, ...rows)));
    }
  },
};

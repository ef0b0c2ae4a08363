// Editing: the weights of the chosen word as bars to drag, other words to take, and heads to silence.
microscope.panels.edit = {
  follows: true,

  async draw() {
    const now = await microscope.know(), {step, layer, head} = microscope.at, label = now.labels.target[step];
    if (label === undefined) return [];
    const parts = [make("p", {class: "quietly", text: `Word ${step + 1} of ${now.tokens.length}: `}, make("b", {text: label, dir: "auto"}))];
    if (now.attention.weights.length) parts.push(bars(now, step, layer, head));
    else parts.push(make("p", {text: "This model has no attention to the source; another word can be taken all the same."}));
    parts.push(others(now, step));
    if (now.attention.weights.length) parts.push(silencer(now));
    return parts;

    function bars(now, step, layer, head) {
      const row = rowOf(now, step, layer, head), sliders = [];
      const table = make("div", {class: "weights", role: "group", "aria-label": `Attention of ${label}`});
      row.forEach((weight, place) => {
        const name = now.labels.source[place];
        const slider = make("input", {type: "range", min: 0, max: 1, step: 0.01, "aria-label": `Weight of ${name}`});
        const shown = make("output", {text: weight.toFixed(2)});
        slider.value = weight;
        slider.addEventListener("input", () => {  // the others share the rest, as the server will have it
          const rest = row.reduce((sum, each, at) => sum + (at === place ? 0 : each), 0), left = Math.max(sum(row) - slider.value, 0);
          sliders.forEach(([other, its], at) => {
            if (at !== place) other.value = rest > 0 ? row[at] / rest * left : left / (row.length - 1);
            its.textContent = Number(other.value).toFixed(2);
          });
        });
        slider.addEventListener("change", () => later(() => microscope.move(place, Number(slider.value)), 250));  // arrow keys: many
        sliders.push([slider, shown]);
        const hide = make("button", {type: "button", text: "Hide", "aria-label": `Hide ${name} from the decoder`,
          onclick: () => microscope.act({kind: "drop", position: place})});
        table.append(make("span", {class: "name", text: name, dir: "auto"}), slider, shown, hide);
      });
      return table;
    }

    function others(now, step) {
      const list = make("ul", {class: "others"});
      for (const [token, probability] of now.attention.candidates[step] || []) {
        if (token === now.tokens[step]) continue;
        const take = {kind: "prefix", tokens: [...now.tokens.slice(0, step), token]};
        list.append(make("li", {}, make("button", {type: "button", onclick: () => microscope.act(take)},
          make("bdi", {text: labelOf(token)}), make("i", {text: number(probability)}))));
      }
      const go = make("button", {type: "button", text: "Keep the words up to here", onclick: () =>
        microscope.act({kind: "prefix", tokens: now.tokens.slice(0, step + 1)})});
      return make("div", {}, make("p", {class: "side", text: "Take another word here, and go on from it"}), list, make("p", {}, go));
    }

    function silencer(now) {
      const [layers, heads] = now.attention.shape;
      const menu = (name, count) => {
        const select = make("select", {"aria-label": name}, new Option(`all ${name}s`, -1));
        for (let one = 0; one < count; one++) select.append(new Option(`${name} ${one}`, one));
        select.value = microscope.at[name];
        return select;
      };
      const which = [menu("layer", layers), menu("head", heads)], to = make("select", {"aria-label": "to"},
        new Option("no weights", "zero"), new Option("uniform weights", "uniform"));
      const go = make("button", {type: "button", text: "Silence", onclick: () => {
        const [layer, head] = which.map((one) => Number(one.value));
        microscope.act({kind: "ablate", to: to.value, ...(layer >= 0 && {layer}), ...(head >= 0 && {head})});
      }});
      return make("div", {}, make("p", {class: "side", text: "Silence attention at all words"}), make("div", {class: "line"}, ...which, to, go));
    }
  },
};

const sum = (row) => row.reduce((all, each) => all + each, 0);

function rowOf(now, step, layer, head) {  // the weights of a step: of one layer and head, or the mean
  const layers = now.attention.weights.filter((_, place) => layer < 0 || place === layer);
  const every = layers.flatMap((heads) => heads.filter((_, place) => head < 0 || place === head)).map((rows) => rows[step]);
  return every[0].map((_, place) => every.reduce((all, row) => all + (row[place] || 0), 0) / every.length);
}

// One translation as the part of a page that trace_page.js makes interactive.
export function attentionView({source, target, steps, layers, heads}) {
  const special = new Set(["<s>", "</s>", "<pad>"]), positions = source.length, looks = layers * heads;
  const [from, to] = [friendly(source, special), friendly(target, special)];
  return element("section", {class: `stepper trace${looks ? "" : " blind"}`},
    element("p", {class: "side"}, "Source"),
    element("div", {class: "read", dir: direction(from), role: "group", "aria-label": "Source tokens"},
      ...from.map((label, at) => element("span", {dir: "auto", class: special.has(source[at]) ? "mark" : null}, label))),
    element("p", {class: "side"}, "Output"),
    element("div", {class: "words", dir: direction(to), role: "group", "aria-label": "Words: choose one to see its attention"},
      ...to.map((label, at) => element("button", {type: "button", dir: "auto", class: special.has(target[at]) ? "mark" : null}, label))),
    element("p", {class: "told", role: "status", "aria-live": "polite"}),
    element("div", {class: "beside"},
      element("div", {class: "thought"}, element("p", {class: "side"}, "Candidates"), element("ol", {})),
      matrix(from, to)),
    controls(layers, heads),
    element("div", {class: "key"}, element("span", {}, "0"), element("canvas", {class: "bar", width: 256, height: 1, "aria-hidden": "true"}),
      element("span", {class: "high"}), element("span", {class: "about"}, `weight over ${positions} tokens`)),
    element("p", {class: "help"}, element("kbd", {}, "←"), " ", element("kbd", {}, "→"),
      " step through the words · point at the source to see which words attend there"),
    element("script", {type: "application/json"}, JSON.stringify(data({from, to, target, steps, special, layers, heads, positions}))));
}

function matrix(from, to) {
  const names = (labels, kind) => labels.map((label, at) => {
    const name = element("b", {class: kind}, element("span", {dir: "auto"}, label));
    name.style.setProperty("--at", at);
    return name;
  });
  const whole = element("div", {class: "matrix", "aria-hidden": "true"}, ...names(from, "column"), ...names(to, "row"),
    element("canvas", {width: from.length, height: to.length}), element("i", {class: "here"}));
  whole.style.setProperty("--rows", to.length);
  whole.style.setProperty("--columns", from.length);
  return whole;
}

function controls(layers, heads) {
  const choice = (what, count) => element("label", {hidden: count < 2 ? "" : null}, `${what[0].toUpperCase()}${what.slice(1)} `,
    element("select", {class: what}, ...["mean", ...Array(count).keys()].map((name, at) => element("option", {value: at - 1}, String(name)))));
  const play = element("button", {type: "button", class: "play", "aria-pressed": "false"}, element("span", {"aria-hidden": "true"}, "▶"), " ", element("b", {}, "Play"));
  return element("div", {class: "controls"}, play, choice("layer", layers), choice("head", heads),
    element("label", {}, element("input", {type: "checkbox", class: "each"}), " Scale each word separately"));
}

function data({from, to, target, steps, special, layers, heads, positions}) {  // weights: layer, head, word, position
  const looks = layers * heads;
  const every = new Float32Array(looks * steps.length * positions);
  steps.forEach(({weights}, at) => {
    for (let look = 0; look < looks; look++) {
      every.set(weights.subarray(look * positions, (look + 1) * positions), (look * steps.length + at) * positions);
    }
  });
  const peak = every.reduce((most, each) => Math.max(most, each), 0) || 1;
  const packed = new Uint8Array(new Uint16Array(every.map((each) => each / peak * 65535 + 0.5)).buffer);
  const thoughts = steps.flatMap((step) => step.thoughts.map(({piece}) => piece));
  const named = friendly([...target, ...thoughts], special).slice(target.length);
  return {
    shape: [layers, heads, steps.length, positions], peak, weights: base64(packed), labels: to, source: from,
    shown: [...steps.keys()], probabilities: steps.map(({logProb}) => Math.exp(logProb)),
    candidates: steps.map((step) => step.thoughts.map(({value}) => [named.shift(), Math.exp(value)])),
  };
}

function base64(bytes) {
  let text = "";
  bytes.forEach((byte) => { text += String.fromCharCode(byte); });
  return btoa(text);
}

// A piece that continues a word begins with ·, and ▁, which begins words, goes.
export function friendly(tokens, special) {
  const marked = tokens.some((token) => !special.has(token) && token.startsWith("▁") && token.length > 1);
  return tokens.map((token) => {
    if (!marked || special.has(token) || token === "▁") return visible(token);
    return token.startsWith("▁") ? visible(token.slice(1)) : `·${visible(token)}`;
  });
}

function visible(text) {
  const shown = text.replace(/[\0-\x1f]/g, (control) => String.fromCharCode(0x2400 + control.charCodeAt(0)))
    .replace(/\p{Zs}/gu, "␣").replace(/\x7f/g, "␡").replace(/(?![\u200c\u200d])\p{Cf}/gu, "").replace(/\p{Cc}|\p{Cs}|\p{Zl}|\p{Zp}|[\ufdd0-\ufdef]/gu, "\ufffd");
  return (/^\p{M}/u.test(shown) ? "◌" : "") + shown || "∅";
}

function direction(labels) {  // that of the first letter
  const letter = labels.join("").match(/\p{L}/u)?.[0] ?? "";
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(letter) ? "rtl" : "ltr";
}

export function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

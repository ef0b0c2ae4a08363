"use strict";
// Steps through the words that a model generated, with their attention to regions of an image or tokens of a text.
// Each kind of page draws the attended side; it provides ready, start, scale, show, point, name and strongest.
const kinds = {};

function showAll(within) {
  for (const root of within.querySelectorAll(".stepper")) {
    const kind = kinds[Object.keys(kinds).find((name) => root.classList.contains(name))];
    kind.ready(root).then(() => stepper(root, kind));
  }
}

const quote = (label) => `“\u2068${label}\u2069”`;  // isolates right-to-left text
const number = (value) => (value >= 0.0995 ? value.toFixed(2) : String(Number(value.toPrecision(2))));
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const best = (row) => row.reduce((most, value, s) => (value > row[most] ? s : most), 0);

function stepper(root, kind) {
  const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const find = (name) => root.querySelector(name);
  const told = find(".told"), play = find(".play"), words = [...root.querySelectorAll(".words button")];
  const [layers, heads, count, regions] = data.shape;
  const packed = bytes(data.weights);
  const weights = Float32Array.from({length: packed.length / 2}, (_, i) =>
    (packed[2 * i] + 256 * packed[2 * i + 1]) / 65535 * data.peak);
  const s = {root, data, find, words, regions, current: data.shown[0] ?? -1, region: -1, looks: [], strongest: 1};
  let timer = 0;
  for (const menu of ["layer", "head"]) {  // a page that shows a trace anew may open it where the last one was
    if (find(`.${menu} option[value="${root.dataset[menu]}"]`)) find(`.${menu}`).value = root.dataset[menu];
  }
  if (data.shown.includes(Number(root.dataset.step))) s.current = Number(root.dataset.step);

  function gather() {  // words × regions: one layer and head, or the mean over those not chosen
    const layer = Number(find(".layer").value), head = Number(find(".head").value);
    s.looks = [];
    for (let word = 0; word < count; word++) {
      const row = new Float32Array(regions);
      let of = 0;
      for (let l = 0; l < layers; l++) for (let h = 0; h < heads; h++) {
        if ((layer >= 0 && l !== layer) || (head >= 0 && h !== head)) continue;
        of++;
        const from = ((l * heads + h) * count + word) * regions;
        for (let r = 0; r < regions; r++) row[r] += weights[from + r];
      }
      for (let r = 0; r < regions; r++) row[r] /= of || 1;
      s.looks.push(row);
    }
    s.strongest = kind.scale(s);
  }

  // Tells the page around: `step` when another word, layer or head is shown, `pick` when a region is clicked.
  s.say = (what, detail = {}) => root.dispatchEvent(new CustomEvent(`regard:${what}`, {bubbles: true, detail: {
    step: s.current, layer: Number(find(".layer").value), head: Number(find(".head").value), ...detail,
  }}));

  s.top = () => (find(".each").checked && s.current >= 0 ? Math.max(...s.looks[s.current]) || 1 : s.strongest);
  s.beyond = () => !find(".each").checked && s.looks.some((look) => Math.max(...look) > s.strongest * 1.0001);

  function point(region) {  // at a region: show how much each word attends to it
    s.region = region;
    words.forEach((word, place) => word.style.setProperty(
      "--share", region < 0 ? 0 : Math.min(s.looks[place][region] / s.strongest, 1).toFixed(3)));
    kind.point(s);
    told.textContent = tell();
  }

  function tell() {
    if (s.region >= 0) {
      const here = s.looks.map((row) => row[s.region]), most = data.shown.reduce((a, b) => (here[b] > here[a] ? b : a));
      const own = s.current >= 0 && s.current !== most
        ? ` · ${quote(data.labels[s.current])} ${number(here[s.current])}` : "";
      return `${kind.name(s, s.region)}: most attention from ${quote(data.labels[most])}, ${number(here[most])}${own}`;
    }
    if (s.current < 0) return kind.nothing;
    const parts = [`${quote(data.labels[s.current])}, ${s.current + 1} of ${count}`];
    if (layers && regions) {
      const row = s.looks[s.current], sum = row.reduce((a, b) => a + b, 0);
      parts.push(kind.strongest(s, row));
      if (Math.abs(sum - 1) >= 0.005) parts.push(`sum ${sum.toFixed(2)}`);
    }
    if (data.probabilities.length) parts.push(`probability ${number(data.probabilities[s.current])}`);
    const others = (data.candidates[s.current] || []).filter(([word]) => word !== data.labels[s.current]).slice(0, 2);
    if (others.length) parts.push("alternatives " + others.map(([word, p]) => `${quote(word)} ${number(p)}`).join(", "));
    return parts.join(" · ");
  }

  function show() {
    words.forEach((word, place) => {
      word.setAttribute("aria-pressed", String(place === s.current));
      word.tabIndex = place === Math.max(s.current, 0) ? 0 : -1;
    });
    kind.show(s);
    point(s.region);
    s.say("step");
  }

  function choose(word, focus) {
    s.current = word;
    s.region = -1;
    show();
    if (word < 0) return;
    const button = words[word], list = button.parentElement, above = button.offsetTop - list.offsetTop;
    const hidden = above < list.scrollTop || above + button.offsetHeight > list.scrollTop + list.clientHeight;
    if (hidden) list.scrollTop = above;  // scroll the list only, never the page
    if (focus) words[word].focus({preventScroll: true});
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    told.setAttribute("aria-live", "polite");
    play.setAttribute("aria-pressed", "false");
    play.children[0].textContent = "▶";
    play.children[1].textContent = "Play";
  }

  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    const next = () => {
      const after = data.shown.find((word) => word > s.current);
      if (after === undefined || !root.isConnected) stop(); else choose(after);
    };
    told.setAttribute("aria-live", "off");  // do not read aloud while playing
    play.setAttribute("aria-pressed", "true");
    play.children[0].textContent = "❚❚";
    play.children[1].textContent = "Pause";
    choose(s.current < 0 || s.current >= data.shown[data.shown.length - 1] ? data.shown[0] : s.current);
    timer = setInterval(next, 900);
  });

  words.forEach((word, place) => {
    word.addEventListener("click", () => { stop(); choose(place); });
    word.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse" && !timer) choose(place);
    });
  });

  function press(event) {
    if (!root.isConnected) { root.ownerDocument.removeEventListener("keydown", press); return; }
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    if (event.target.matches("input:not([type=checkbox]), textarea, select, [role=tab], .microscope *")) return;
    const others = [...document.querySelectorAll(".stepper")].filter((part) => part.getClientRects().length);
    if (!others.includes(root) || (others.length > 1 && !root.contains(event.target))) return;
    if (root.hasAttribute("data-editable") && s.current >= 0) {  // choose a region and pick it, by keyboard
      const down = {ArrowDown: 1, ArrowUp: -1}[event.key];
      if (down) point(s.region < 0 ? best(s.looks[s.current]) : (s.region + down + regions) % regions);
      else if (event.key === "Enter" && s.region >= 0 && !event.target.matches("summary")) s.say("pick", {region: s.region});
      if (down || (event.key === "Enter" && s.region >= 0)) { event.preventDefault(); return; }
    }
    const ahead = getComputedStyle(words[0].parentElement).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const back = ahead === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
    const to = {[ahead]: Math.min(s.current + 1, count - 1), [back]: Math.max(s.current - 1, 0), Home: 0, End: count - 1,
      Escape: -1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    stop();
    choose(to, words.includes(document.activeElement));
  }
  root.ownerDocument.addEventListener("keydown", press);

  s.choose = (word) => { stop(); choose(word); };
  s.point = point;
  for (const name of [".layer", ".head"]) find(name).addEventListener("change", () => { gather(); show(); });
  find(".each").addEventListener("change", show);
  s.show = show;
  kind.start(s);
  gather();
  show();
}

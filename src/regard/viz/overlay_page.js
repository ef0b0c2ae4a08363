"use strict";
// Heat over an image, word by word. The painting is that of overlay_heat.py: smooth between the middles of cells, the
// strongest box where there are boxes, colours in even steps of lightness.
function showOverlay(root) {
  const data = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const find = (name) => root.querySelector(name);
  const image = find("img"), heat = find(".heat"), marks = find("svg"), told = find(".told"), play = find(".play");
  const words = [...root.querySelectorAll(".words button")];
  const [layers, heads, count, regions] = data.shape;
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const packed = bytes(data.weights), colours = bytes(data.colours);
  const weights = Float32Array.from({length: layers * heads * count * regions}, (_, i) =>
    (packed[2 * i] + 256 * packed[2 * i + 1]) / 65535 * data.peak);
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const times = 640 / Math.max(image.naturalWidth, image.naturalHeight);
  heat.width = Math.max(1, Math.round(image.naturalWidth * times));
  heat.height = Math.max(1, Math.round(image.naturalHeight * times));
  const paper = heat.getContext("2d", {willReadFrequently: true});
  paper.imageSmoothingEnabled = !image.classList.contains("small");
  paper.drawImage(image, 0, 0, heat.width, heat.height);
  const plain = paper.getImageData(0, 0, heat.width, heat.height).data;
  let current = data.shown[0], looks = [], strongest = 1, painted = null, moving = 0, timer = 0, region = -1;

  // ------------------------------------------------------------------------------------------------- what is shown

  function gather() {  // words × regions: one layer and head, or the mean over those not chosen
    const layer = Number(find(".layer").value), head = Number(find(".head").value);
    looks = [];
    for (let word = 0; word < count; word++) {
      const row = new Float32Array(regions);
      let of = 0;
      for (let l = 0; l < layers; l++) for (let h = 0; h < heads; h++) {
        if ((layer >= 0 && l !== layer) || (head >= 0 && h !== head)) continue;
        of++;
        const from = ((l * heads + h) * count + word) * regions;
        for (let s = 0; s < regions; s++) row[s] += weights[from + s];
      }
      for (let s = 0; s < regions; s++) row[s] /= of;
      looks.push(row);
    }
    const largest = data.shown.map((word) => Math.max(...looks[word])).filter((value) => value > 0).sort((a, b) => a - b);
    const half = largest.length >> 1;
    const middle = !largest.length ? 1 : largest.length % 2 ? largest[half] : (largest[half - 1] + largest[half]) / 2;
    const digit = 10 ** Math.floor(Math.log10(middle) + 1e-9);
    strongest = Math.min(data.steps.find((step) => step * digit >= middle * (1 - 1e-4)) * digit, Math.max(1, middle));
  }

  const top = () => (find(".each").checked && current >= 0 ? Math.max(...looks[current]) || 1 : strongest);
  const quote = (label) => `“\u2068${label}\u2069”`;  // whichever way it is written, the rest stays in order
  const number = (value) => (value >= 0.0995 ? value.toFixed(2) : String(Number(value.toPrecision(2))));

  function blend(cells, pixels) {  // for each pixel the cell before, the one after, and the part of the latter
    return Array.from({length: pixels}, (_, pixel) => {
      const at = (pixel + 0.5) / pixels * cells - 0.5, below = Math.floor(at), share = at - below;
      const within = (cell) => Math.min(Math.max(cell, 0), cells - 1);
      return [within(below), within(below + 1), share * share * (3 - 2 * share)];
    });
  }
  const down = data.grid && blend(data.grid[0], heat.height), across = data.grid && blend(data.grid[1], heat.width);

  function spread(row) {
    const field = new Float32Array(heat.width * heat.height);
    if (data.grid) {
      const [rows, columns] = data.grid, wide = heat.width, lines = new Float32Array(rows * wide);
      for (let r = 0; r < rows; r++) for (let x = 0; x < wide; x++) {  // across first, then down
        const [left, right, share] = across[x];
        lines[r * wide + x] = row[r * columns + left] * (1 - share) + row[r * columns + right] * share;
      }
      for (let y = 0; y < heat.height; y++) {
        const [above, below, share] = down[y];
        for (let x = 0; x < wide; x++) {
          field[y * wide + x] = lines[above * wide + x] * (1 - share) + lines[below * wide + x] * share;
        }
      }
      return field;
    }
    data.places.forEach((place, s) => {
      const [left, up] = [Math.round(place[0] * heat.width), Math.round(place[1] * heat.height)];
      const right = Math.min(Math.max(Math.round(place[2] * heat.width), left + 1), heat.width);
      const low = Math.min(Math.max(Math.round(place[3] * heat.height), up + 1), heat.height);
      for (let y = Math.max(up, 0); y < low; y++) for (let x = Math.max(left, 0); x < right; x++) {
        field[y * heat.width + x] = Math.max(field[y * heat.width + x], row[s]);
      }
    });
    return field;
  }

  // ---------------------------------------------------------------------------------------------------- painting

  const opacity = () => Number(find(".opacity").value) / 100;
  const covers = () => {  // how much of the image each of the 256 colours hides
    const most = opacity();
    return Float32Array.from({length: 256}, (_, i) => most * (data.faintest + (1 - data.faintest) * i / 255));
  };

  function paint(row, highest) {
    painted = {row, highest};
    const field = spread(row), picture = paper.createImageData(heat.width, heat.height), out = picture.data;
    const greyed = data.greyed * Math.min(opacity() / data.opacity, 1), [red, green, blue] = data.luma, hides = covers();
    for (let i = 0, p = 0; i < field.length; i++, p += 4) {
      const share = Math.min(field[i] / highest, 1), level = Math.round(share * 255), part = hides[level];
      const grey = plain[p] * red + plain[p + 1] * green + plain[p + 2] * blue, lost = greyed * (1 - share);
      for (let c = 0; c < 3; c++) {
        const base = plain[p + c] + (grey - plain[p + c]) * lost;
        out[p + c] = base * (1 - part) + colours[3 * level + c] * part;
      }
      out[p + 3] = 255;
    }
    paper.putImageData(picture, 0, 0);
  }

  function move() {  // from what is painted to what is to be, at once where motion is not wanted
    cancelAnimationFrame(moving);
    const alone = current < 0, shown = !alone && opacity() > 0;
    heat.style.visibility = shown ? "visible" : "hidden";
    if (alone) { painted = null; return; }
    const to = {row: looks[current], highest: top()}, from = painted;
    if (!from || still.matches) { paint(to.row, to.highest); return; }
    const start = performance.now();
    const step = (now) => {
      const part = Math.min(Math.max((now - start) / 160, 0), 1);
      paint(to.row.map((value, s) => from.row[s] + (value - from.row[s]) * part),
        from.highest + (to.highest - from.highest) * part);
      if (part < 1) moving = requestAnimationFrame(step); else painted = to;
    };
    moving = requestAnimationFrame(step);
  }

  function box(place, kind) {
    const [left, up, right, low] = place;
    for (const over of ["", "over "]) {
      const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const sides = {x: left, y: up, width: right - left, height: low - up, class: over + (over ? kind : "")};
      for (const [name, value] of Object.entries(sides)) rect.setAttribute(name, value);
      marks.append(rect);
    }
  }

  const placeOf = (s) => {
    if (!data.grid) return data.places[s];
    const [rows, columns] = data.grid, row = Math.floor(s / columns), column = s % columns;
    return [column / columns, row / rows, (column + 1) / columns, (row + 1) / rows];
  };

  function outline() {
    marks.replaceChildren();
    if (current >= 0 && data.outlines.length && find(".outlined").checked) {
      data.outlines[current].forEach((place) => box(place, "dashed"));
    }
    if (region >= 0) box(placeOf(region), "");
    else if (current >= 0 && !data.grid) box(placeOf(best(looks[current])), "");
  }

  const best = (row) => row.reduce((most, value, s) => (value > row[most] ? s : most), 0);

  function where(s) {  // in words, for those who cannot see it
    const [left, up, right, low] = placeOf(s), x = (left + right) / 2, y = (up + low) / 2;
    const tall = y < 1 / 3 ? "upper" : y > 2 / 3 ? "lower" : "", wide = x < 1 / 3 ? "left" : x > 2 / 3 ? "right" : "";
    return tall && wide ? `${tall} ${wide}` : tall ? `${tall} middle` : wide ? `middle ${wide}` : "middle";
  }

  function tell() {
    if (region >= 0) {
      const what = data.grid
        ? `row ${Math.floor(region / data.grid[1]) + 1}, column ${region % data.grid[1] + 1}` : `box ${region + 1}`;
      const here = looks.map((row) => row[region]), most = data.shown.reduce((a, b) => (here[b] > here[a] ? b : a));
      const own = current >= 0 && current !== most ? ` · ${quote(data.labels[current])} ${number(here[current])}` : "";
      told.textContent = `${what}: looked at most for ${quote(data.labels[most])}, ${number(here[most])}${own}`;
      return;
    }
    if (current < 0) { told.textContent = "The image alone"; return; }
    const row = looks[current], most = best(row), sum = row.reduce((a, b) => a + b, 0);
    const parts = [`${quote(data.labels[current])}, ${current + 1} of ${count}`,
      `strongest ${number(row[most])}, ${where(most)}`];
    if (Math.abs(sum - 1) >= 0.005) parts.push(`sum ${sum.toFixed(2)}`);
    if (data.probabilities.length) parts.push(`probability ${number(data.probabilities[current])}`);
    const others = (data.candidates[current] || []).filter(([word]) => word !== data.labels[current]).slice(0, 2);
    if (others.length) parts.push("else " + others.map(([word, p]) => `${quote(word)} ${number(p)}`).join(", "));
    told.textContent = parts.join(" · ");
  }

  function shares() {  // how much each word looks at the place that is pointed at
    words.forEach((word, place) =>
      word.style.setProperty("--share", region < 0 ? 0 : Math.min(looks[place][region] / strongest, 1).toFixed(3)));
  }

  function key() {
    const bar = find(".bar"), drawing = bar.getContext("2d"), row = drawing.createImageData(256, 1);
    const hides = covers();
    for (let i = 0; i < 256; i++) {
      const part = hides[i];
      for (let c = 0; c < 3; c++) row.data[4 * i + c] = Math.round(colours[3 * i + c] * part + data.ground * (1 - part));
      row.data[4 * i + 3] = 255;
    }
    drawing.putImageData(row, 0, 0);
    const highest = top(), beyond = looks.some((look) => Math.max(...look) > highest * 1.0001) && !find(".each").checked;
    find(".high").textContent = number(highest) + (beyond ? "+" : "");
  }

  function show() {
    words.forEach((word, place) => {
      word.setAttribute("aria-pressed", String(place === current));
      word.tabIndex = place === Math.max(current, 0) ? 0 : -1;
    });
    move(); outline(); shares(); tell(); key();
  }

  // ----------------------------------------------------------------------------------------------------- acting

  function choose(word, focus) {
    current = word;
    region = -1;
    show();
    if (word < 0) return;
    const button = words[word], list = button.parentElement, above = button.offsetTop - list.offsetTop;
    const hidden = above < list.scrollTop || above + button.offsetHeight > list.scrollTop + list.clientHeight;
    if (hidden) list.scrollTop = above;  // the words alone, never the page
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
      const after = data.shown.find((word) => word > current);
      if (after === undefined) stop(); else choose(after);
    };
    told.setAttribute("aria-live", "off");  // what changes by itself is not read aloud
    play.setAttribute("aria-pressed", "true");
    play.children[0].textContent = "❚❚";
    play.children[1].textContent = "Pause";
    choose(current < 0 || current >= data.shown[data.shown.length - 1] ? data.shown[0] : current);
    timer = setInterval(next, 900);
  });

  words.forEach((word, place) => {
    word.addEventListener("click", () => { stop(); choose(place); });
    word.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse" && !timer) choose(place);
    });
  });

  root.ownerDocument.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input[type=range], select")) return;
    const others = [...document.querySelectorAll(".overlay")];
    if (others.length > 1 && !root.contains(event.target)) return;
    const ahead = getComputedStyle(words[0].parentElement).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const back = ahead === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
    const to = {[ahead]: Math.min(current + 1, count - 1), [back]: Math.max(current - 1, 0), Home: 0, End: count - 1,
      Escape: -1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    stop();
    choose(to, words.includes(document.activeElement));
  });

  find(".stage").addEventListener("pointermove", (event) => {
    const area = find(".stage").getBoundingClientRect();
    const x = (event.clientX - area.left) / area.width, y = (event.clientY - area.top) / area.height;
    if (x < 0 || x >= 1 || y < 0 || y >= 1) return;
    const inside = Array.from({length: regions}, (_, s) => s).filter((s) => {
      const [left, up, right, low] = placeOf(s);
      return left <= x && x < right && up <= y && y < low;
    });
    // Of boxes that overlap the smallest is meant: the others can be pointed at elsewhere.
    const size = (s) => { const [left, up, right, low] = placeOf(s); return (right - left) * (low - up); };
    const found = inside.length ? inside.reduce((a, b) => (size(b) < size(a) ? b : a)) : -1;
    if (found !== region) { region = found; outline(); shares(); tell(); }
  });
  find(".stage").addEventListener("pointerleave", () => { region = -1; outline(); shares(); tell(); });
  for (const name of [".layer", ".head"]) find(name).addEventListener("change", () => { gather(); show(); });
  for (const name of [".each", ".outlined"]) find(name).addEventListener("change", show);
  find(".opacity").addEventListener("input", () => { painted = null; show(); });
  gather();
  show();
}
for (const root of document.querySelectorAll(".overlay")) root.querySelector("img").decode().then(() => showOverlay(root));

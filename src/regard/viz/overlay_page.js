// Heat maps over an image, word by word. Drawn as in overlay_heat.py: interpolated between the centres of cells, or the
// strongest box that contains a pixel, with colours in even steps of lightness.
kinds.overlay = {
  nothing: "Image only",

  ready: (root) => root.querySelector("img").decode(),

  scale(s) {
    const largest = s.data.shown.map((word) => Math.max(...s.looks[word])).filter((value) => value > 0)
      .sort((a, b) => a - b);
    const half = largest.length >> 1;
    const middle = !largest.length ? 1 : largest.length % 2 ? largest[half] : (largest[half - 1] + largest[half]) / 2;
    const digit = 10 ** Math.floor(Math.log10(middle) + 1e-9);
    return Math.min(s.data.steps.find((step) => step * digit >= middle * (1 - 1e-4)) * digit, Math.max(1, middle));
  },

  start(s) {
    const image = s.find("img"), heat = s.find(".heat"), times = 640 / Math.max(image.naturalWidth, image.naturalHeight);
    heat.width = Math.max(1, Math.round(image.naturalWidth * times));
    heat.height = Math.max(1, Math.round(image.naturalHeight * times));
    const paper = heat.getContext("2d", {willReadFrequently: true});
    paper.imageSmoothingEnabled = !image.classList.contains("small");
    paper.drawImage(image, 0, 0, heat.width, heat.height);
    const [rows, columns] = s.data.grid || [0, 0];
    Object.assign(s, {
      heat, paper, painted: null, moving: 0, colours: bytes(s.data.colours),
      still: matchMedia("(prefers-reduced-motion: reduce)"),
      plain: paper.getImageData(0, 0, heat.width, heat.height).data,
      down: blend(rows, heat.height), across: blend(columns, heat.width),
    });
    s.find(".outlined").addEventListener("change", s.show);
    s.find(".opacity").addEventListener("input", () => { s.painted = null; s.show(); });
    s.find(".stage").addEventListener("pointermove", (event) => {
      const area = s.find(".stage").getBoundingClientRect();
      const x = (event.clientX - area.left) / area.width, y = (event.clientY - area.top) / area.height;
      if (x < 0 || x >= 1 || y < 0 || y >= 1) return;
      const found = regionAt(s, x, y);
      if (found !== s.region) s.point(found);
    });
    s.find(".stage").addEventListener("pointerleave", () => s.point(-1));
  },

  show(s) { moveHeat(s); drawKey(s); },

  point(s) {
    const marks = s.find("svg");
    marks.replaceChildren();
    if (s.current >= 0 && s.data.outlines.length && s.find(".outlined").checked) {
      s.data.outlines[s.current].forEach((place) => box(marks, place, "dashed"));
    }
    if (s.region >= 0) box(marks, placeOf(s, s.region), "");
    else if (s.current >= 0 && !s.data.grid) box(marks, placeOf(s, best(s.looks[s.current])), "");
  },

  name(s, region) {
    if (!s.data.grid) return `box ${region + 1}`;
    const columns = s.data.grid[1];
    return `row ${Math.floor(region / columns) + 1}, column ${region % columns + 1}`;
  },

  strongest: (s, row) => `strongest ${number(row[best(row)])}, ${where(s, best(row))}`,
};

// ------------------------------------------------------------------------------------------------------------ places

function placeOf(s, region) {  // left, top, right, bottom, as fractions of the image
  if (!s.data.grid) return s.data.places[region];
  const [rows, columns] = s.data.grid, row = Math.floor(region / columns), column = region % columns;
  return [column / columns, row / rows, (column + 1) / columns, (row + 1) / rows];
}

function regionAt(s, x, y) {
  const inside = Array.from({length: s.regions}, (_, region) => region).filter((region) => {
    const [left, up, right, low] = placeOf(s, region);
    return left <= x && x < right && up <= y && y < low;
  });
  // Of overlapping boxes choose the smallest: the others can be reached elsewhere.
  const size = (region) => {
    const [left, up, right, low] = placeOf(s, region);
    return (right - left) * (low - up);
  };
  return inside.length ? inside.reduce((a, b) => (size(b) < size(a) ? b : a)) : -1;
}

function where(s, region) {  // in words, for screen readers
  const [left, up, right, low] = placeOf(s, region), x = (left + right) / 2, y = (up + low) / 2;
  const tall = y < 1 / 3 ? "upper" : y > 2 / 3 ? "lower" : "", wide = x < 1 / 3 ? "left" : x > 2 / 3 ? "right" : "";
  return tall && wide ? `${tall} ${wide}` : tall ? `${tall} middle` : wide ? `middle ${wide}` : "middle";
}

function box(marks, [left, up, right, low], kind) {
  for (const over of ["", "over "]) {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const sides = {x: left, y: up, width: right - left, height: low - up, class: over + (over ? kind : "")};
    for (const [name, value] of Object.entries(sides)) rect.setAttribute(name, value);
    marks.append(rect);
  }
}

// ---------------------------------------------------------------------------------------------------------- painting

function blend(cells, pixels) {  // for each pixel: the cells before and after it, and the share of the latter
  return Array.from({length: pixels}, (_, pixel) => {
    const at = (pixel + 0.5) / pixels * cells - 0.5, below = Math.floor(at), share = at - below;
    const within = (cell) => Math.min(Math.max(cell, 0), cells - 1);
    return [within(below), within(below + 1), share * share * (3 - 2 * share)];
  });
}

function spread(s, row) {
  const {width, height} = s.heat, field = new Float32Array(width * height);
  if (s.data.grid) {
    const [rows, columns] = s.data.grid, lines = new Float32Array(rows * width);
    for (let r = 0; r < rows; r++) for (let x = 0; x < width; x++) {  // rows first, then columns
      const [left, right, share] = s.across[x];
      lines[r * width + x] = row[r * columns + left] * (1 - share) + row[r * columns + right] * share;
    }
    for (let y = 0; y < height; y++) {
      const [above, below, share] = s.down[y];
      for (let x = 0; x < width; x++) {
        field[y * width + x] = lines[above * width + x] * (1 - share) + lines[below * width + x] * share;
      }
    }
    return field;
  }
  s.data.places.forEach((place, region) => {
    const [left, up] = [Math.round(place[0] * width), Math.round(place[1] * height)];
    const right = Math.min(Math.max(Math.round(place[2] * width), left + 1), width);
    const low = Math.min(Math.max(Math.round(place[3] * height), up + 1), height);
    for (let y = Math.max(up, 0); y < low; y++) for (let x = Math.max(left, 0); x < right; x++) {
      field[y * width + x] = Math.max(field[y * width + x], row[region]);
    }
  });
  return field;
}

const opacityOf = (s) => Number(s.find(".opacity").value) / 100;

function covers(s) {  // opacity of each of the 256 colours
  const most = opacityOf(s);
  return Float32Array.from({length: 256}, (_, i) => most * (s.data.faintest + (1 - s.data.faintest) * i / 255));
}

function paintHeat(s, row, highest) {
  s.painted = {row, highest};
  const field = spread(s, row), picture = s.paper.createImageData(s.heat.width, s.heat.height), out = picture.data;
  const greyed = s.data.greyed * Math.min(opacityOf(s) / s.data.opacity, 1), [red, green, blue] = s.data.luma;
  const hides = covers(s), {plain, colours} = s;
  for (let i = 0, p = 0; i < field.length; i++, p += 4) {
    const share = Math.min(field[i] / highest, 1), level = Math.round(share * 255), part = hides[level];
    const grey = plain[p] * red + plain[p + 1] * green + plain[p + 2] * blue, lost = greyed * (1 - share);
    for (let c = 0; c < 3; c++) {
      const base = plain[p + c] + (grey - plain[p + c]) * lost;
      out[p + c] = base * (1 - part) + colours[3 * level + c] * part;
    }
    out[p + 3] = 255;
  }
  s.paper.putImageData(picture, 0, 0);
}

function moveHeat(s) {  // animates to the new heat map; jumps there with prefers-reduced-motion
  cancelAnimationFrame(s.moving);
  const alone = s.current < 0;
  s.heat.style.visibility = !alone && opacityOf(s) > 0 ? "visible" : "hidden";
  if (alone) { s.painted = null; return; }
  const to = {row: s.looks[s.current], highest: s.top()}, from = s.painted;
  if (!from || s.still.matches) { paintHeat(s, to.row, to.highest); return; }
  const start = performance.now();
  const step = (now) => {
    const part = Math.min(Math.max((now - start) / 160, 0), 1);
    paintHeat(s, to.row.map((value, region) => from.row[region] + (value - from.row[region]) * part),
      from.highest + (to.highest - from.highest) * part);
    if (part < 1) s.moving = requestAnimationFrame(step); else s.painted = to;
  };
  s.moving = requestAnimationFrame(step);
}

function drawKey(s) {
  const drawing = s.find(".bar").getContext("2d"), row = drawing.createImageData(256, 1), hides = covers(s);
  for (let i = 0; i < 256; i++) {
    const part = hides[i];
    for (let c = 0; c < 3; c++) {
      row.data[4 * i + c] = Math.round(s.colours[3 * i + c] * part + s.data.ground * (1 - part));
    }
    row.data[4 * i + 3] = 255;
  }
  drawing.putImageData(row, 0, 0);
  s.find(".high").textContent = number(s.top()) + (s.beyond() ? "+" : "");
}

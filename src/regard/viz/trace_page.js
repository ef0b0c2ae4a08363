// Attention between texts, word by word: source tokens are coloured by their weight, and the matrix has a row for each
// target token.
kinds.trace = {
  nothing: "All words",

  ready: () => Promise.resolve(),

  scale(s) {  // ends at the largest weight, rounded up to a tenth, as in pictures
    const largest = Math.max(0, ...s.looks.map((row) => Math.max(0, ...row)));
    return Math.min(Math.max(Math.ceil(largest * 10 - 1e-6) / 10, 0.1), 1);
  },

  start(s) {
    s.read = [...s.root.querySelectorAll(".read span")];
    s.matrix = s.find(".matrix");
    s.read.forEach((token, place) => {
      token.addEventListener("pointerenter", () => s.point(place));
      token.addEventListener("pointerleave", () => s.point(-1));
      token.addEventListener("click", () => s.say("pick", {region: place}));
    });
    const canvas = s.matrix.querySelector("canvas");
    canvas.addEventListener("pointermove", (event) => {
      const area = canvas.getBoundingClientRect();
      const row = Math.floor((event.clientY - area.top) / area.height * canvas.height);
      const column = Math.floor((event.clientX - area.left) / area.width * canvas.width);
      if (row < 0 || column < 0 || row >= canvas.height || column >= canvas.width) return;
      if (row !== s.current) s.choose(row);
      if (column !== s.region) s.point(column);
    });
    canvas.addEventListener("pointerleave", () => s.point(-1));
    canvas.addEventListener("click", () => { if (s.region >= 0) s.say("pick", {region: s.region}); });
    s.matrix.querySelectorAll(".row").forEach((name, place) => {
      name.addEventListener("pointerenter", () => s.choose(place));
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { s.painted = null; s.show(); });
  },

  show(s) {
    const highest = s.top(), row = s.current < 0 ? [] : s.looks[s.current];
    s.read.forEach((token, place) => {
      const share = Math.min((row[place] || 0) / highest, 1);
      token.style.setProperty("--share", share.toFixed(3));
      token.classList.toggle("strong", share > 0.55);
    });
    s.matrix.querySelectorAll(".row").forEach((name, place) => name.classList.toggle("on", place === s.current));
    const here = s.matrix.querySelector(".here");
    here.hidden = s.current < 0;
    here.style.setProperty("--at", Math.max(s.current, 0));
    paintMatrix(s);
    showThoughts(s);
    s.find(".high").textContent = number(highest) + (s.beyond() ? "+" : "");
  },

  point(s) {
    s.read.forEach((token, place) => token.classList.toggle("pointed", place === s.region));
    s.matrix.querySelectorAll(".column").forEach((name, place) => name.classList.toggle("on", place === s.region));
  },

  name: (s, region) => quote(s.data.source[region]),

  strongest(s, row) {
    const order = Array.from(row, (_, place) => place).sort((a, b) => row[b] - row[a]).slice(0, 2);
    const said = order.filter((place, i) => !i || row[place] >= 0.1);
    return "attends to " + said.map((place) => `${quote(s.data.source[place])} ${number(row[place])}`).join(", ");
  },
};

function paintMatrix(s) {
  const wanted = [s.find(".layer").value, s.find(".head").value, s.find(".each").checked].join();
  if (s.painted === wanted) return;  // it does not depend on the word that is shown
  s.painted = wanted;
  const colour = getComputedStyle(s.root).getPropertyValue("--link").trim();
  const [red, green, blue] = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
  const fill = (canvas, shares) => {
    const drawing = canvas.getContext("2d"), picture = drawing.createImageData(canvas.width, canvas.height);
    shares.forEach((share, i) => picture.data.set([red, green, blue, Math.round(share * 255)], 4 * i));
    drawing.putImageData(picture, 0, 0);
  };
  fill(s.find(".bar"), Array.from({length: 256}, (_, i) => i / 255));
  const canvas = s.matrix.querySelector("canvas");
  if (!canvas.width || !canvas.height || s.root.classList.contains("blind")) return;
  const each = s.find(".each").checked;
  fill(canvas, s.looks.flatMap((row) => {
    const highest = each ? Math.max(...row) || 1 : s.strongest;
    return Array.from(row, (weight) => Math.min(weight / highest, 1));
  }));
}

function showThoughts(s) {  // the most probable tokens at this step
  const thoughts = (s.current >= 0 && s.data.candidates[s.current]) || [], list = s.find(".thought ol");
  s.find(".thought").hidden = !s.data.candidates.length;
  list.replaceChildren(...thoughts.map(([label, probability]) => {
    const line = document.createElement("li"), name = document.createElement("span"), share = document.createElement("i");
    name.textContent = label;
    name.dir = "auto";
    share.textContent = number(probability);
    line.style.setProperty("--share", probability);
    line.classList.toggle("on", label === s.data.labels[s.current]);
    line.append(name, share);
    return line;
  }));
}

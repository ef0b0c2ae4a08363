// The attention as a file: a picture (SVG or PNG) of what the matrix shows, or all of it as JSON.
function save(kind, now) {
  if (kind === "json") return give(JSON.stringify({...now.attention, text: now.text, edits: now.edits}), "application/json", kind);
  if (!now.attention.weights.length) throw new Error("This model has no attention to draw; take the JSON.");
  const drawing = matrix(now, microscope.at);
  if (kind === "svg") return give(new XMLSerializer().serializeToString(drawing), "image/svg+xml", kind);
  const picture = new Image(), scale = 2;
  picture.onload = () => {
    const canvas = make("canvas", {width: picture.width * scale, height: picture.height * scale});
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => (blob ? offer(blob, "png") : warn(new Error("The picture is too large for this browser; take the SVG."))), "image/png");
  };
  picture.onerror = () => warn(new Error("The picture cannot be drawn; take the SVG."));
  picture.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
  return undefined;
}

function give(text, type, kind) {
  offer(new Blob([text], {type}), kind);
}

function offer(blob, kind) {
  const link = make("a", {href: URL.createObjectURL(blob), download: `attention.${kind}`});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function matrix(now, {layer, head}) {  // as an SVG, dark on white wherever it goes
  const clean = (label) => label.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udfff](?<![\ud800-\udbff][\udc00-\udfff])(?![\udc00-\udfff])/g, "\ufffd");
  const rows = now.tokens.map((_, step) => rowOf(now, step, layer, head)), highest = peak(rows) || 1, size = 26;
  const [across, down] = [now.labels.source, now.labels.target].map((labels) => labels.map((label) => clean(label)));
  const room = (labels) => 16 + Math.min(Math.max(...labels.map((label) => [...label].length)), 24) * 8;
  const left = room(down), top = room(across), width = left + across.length * size + 8, height = top + down.length * size + 8;
  const font = {"font-family": "system-ui, sans-serif", "font-size": 13, fill: "#22223a"};
  return drawn("svg", {xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`},
    drawn("title", {text: clean(now.text)}), drawn("rect", {width, height, fill: "#ffffff"}),
    ...across.map((label, s) => drawn("text", {...font, transform: `translate(${left + (s + 0.5) * size + 4} ${top - 6}) rotate(-90)`, text: label})),
    ...down.map((label, t) => drawn("text", {...font, x: left - 8, y: top + (t + 0.5) * size + 4, "text-anchor": "end", text: label})),
    ...rows.flatMap((row, t) => row.map((weight, s) => drawn("rect", {x: left + s * size, y: top + t * size, width: size, height: size,
      fill: "#3a2f8f", "fill-opacity": Math.min(weight / highest, 1).toFixed(3), stroke: "#dcdce6", "stroke-width": 0.5}))));
}

// The page of `regard serve`: the request each task sends, and how its answer is shown.
const percent = (part) => `${(100 * part).toFixed(part < 0.0995 ? 1 : 0)} %`;
const score = (value) => (value === undefined ? "" : value.toFixed(2).replace("-", "−"));
const written = (answer) => [answer, ...answer.n_best].map((each) => ({text: each.text, note: score(each.score), view: each.view, tokens: each.tokens}));
const several = (model) => ({n_best: Math.min(3, model.beam), candidates: 5});

const TASKS = {
  translate: {verb: "Translate", streams: true, shows: (answer) => written(answer.translations[0]), asks: several},
  continue: {verb: "Continue", streams: true, shows: (answer) => written(answer.translations[0]), asks: several},
  caption: {shows: written, asks: several},
  classify: {
    shows: (answer) => answer.classes.map((each) => ({text: each.label, note: percent(each.probability), share: each.probability})),
    asks: () => ({top: 5}),
  },
  "classify-text": {
    verb: "Classify",
    shows: (answer) => answer.texts[0].classes.map((each) => ({text: each.label, note: percent(each.probability), share: each.probability})),
    view: (answer) => answer.texts[0].view,
    asks: () => ({top: 5}),
  },
  answer: {
    shows: (answer) => answer.answers.map((each) => ({text: each.text, note: percent(each.probability), share: each.probability})),
    asks: () => ({top: 5}),
  },
  detect: {
    shows: (answer) => answer.things.map((each) => ({text: each.label, note: percent(each.score), share: each.score})),
  },
};

const page = {
  models: [], chosen: {text: null, image: null}, reads: "text", picture: null, asking: null, key: "", again: null,
  find: (name) => document.querySelector(name),
  get model() { return this.chosen[this.reads]; },
};

// -------------------------------------------------------------------------------------------------------------- asking

async function call(path, options = {}) {  // with the API key, if the server wants one
  const headers = {...options.headers, ...(page.key && {Authorization: `Bearer ${page.key}`})};
  const answer = await fetch(path, {...options, headers});
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({error: `The server answered ${answer.status}.`}));
  page.find(".key").hidden = page.find(".key").hidden && answer.status !== 401;
  throw Object.assign(new Error(told.error), {status: answer.status});
}

async function ask(path, options, streamed, opens) {
  if (page.asking) page.asking.abort();
  const own = page.asking = new AbortController(), task = TASKS[page.model.task];
  page.again = () => ask(path, options, streamed, opens);
  page.find(".found").setAttribute("aria-busy", "true");
  try {
    const sent = {method: "POST", signal: own.signal};
    const early = streamed && await read(streamed, sent);
    const told = early || await (await call(path, {...sent, ...options})).json();
    show(task.shows(told), task.view ? task.view(told) : told.view);
    if (opens) opens(told);
  } catch (error) {
    if (error.name === "AbortError") return;
    clear(error instanceof TypeError ? "The server cannot be reached. Is it still running?" : error.message);
  } finally {
    if (page.asking === own) {
      page.asking = null;
      page.find(".found").setAttribute("aria-busy", "false");
    }
  }
}

// Reads server-sent events: shows drafts, and returns the end. Without one (something on the way keeps streams back, or
// has cut this one off) it returns nothing, and the same is asked for in one piece.
async function read(streamed, sent) {
  const answer = await call(streamed.path, {...sent, ...streamed.options});
  if (!answer.body || !(answer.headers.get("Content-Type") || "").startsWith("text/event-stream")) return null;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let source = [], rest = "";
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const parts = (rest + next.value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(part) || [];
      if (kind === "end") return JSON.parse(data);
      if (kind === "error") throw new Error(JSON.parse(data).error);
      if (kind !== "token") continue;
      const draft = JSON.parse(data);
      source = draft.source || source;
      showDraft(draft, source);
    }
  }
  return null;
}

function askText() {
  const given = page.find("#given").value, model = page.model;
  if (model.task !== "continue" && !given.trim()) { clear(`Type a text to ${TASKS[model.task].verb.toLowerCase()}.`); return; }
  const wanted = {texts: [given], model: model.name, view: true, ...TASKS[model.task].asks(model)};
  if (model.tags.length) wanted.to = page.find(".to select").value;
  const path = model.path.slice(1), json = (body) => ({headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
  const {texts: [text], ...others} = wanted;
  ask(path, json(wanted), TASKS[model.task].streams && {path: `${path}/stream`, options: json({...others, text, beam: null})},
    model.task === "translate" ? (told) => microscope.open({text: given, model: model.name, to: wanted.to}, told) : null);
}

function askImage() {
  const model = page.model, question = page.find("#question").value;
  if (!page.picture) return;
  if (model.task === "answer" && !question.trim()) { clear("Type a question about the picture."); return; }
  const query = new URLSearchParams({model: model.name, view: true, ...(TASKS[model.task].asks || (() => ({})))(model)});
  if (model.task === "answer") query.set("question", question);
  if (page.picture.scene !== undefined) query.set("scene", page.picture.scene);
  const file = page.picture.file;
  const body = file ? {body: file, headers: {"Content-Type": "application/octet-stream"}} : {};  // whatever type the file claims
  ask(`${model.path.slice(1)}?${query}`, body);
}

// ------------------------------------------------------------------------------------------------------------- showing

function clear(wrong) {
  const told = page.find(".wrong[role]");
  told.textContent = wrong || "";
  told.hidden = !wrong;
  page.find(".choices").hidden = true;
  page.find(".choices").replaceChildren();
  page.find(".view").replaceChildren();
  microscope.close();
}

function look(view) {
  const made = document.createElement("template");
  // Written by the server, with all texts escaped. The page's policy allows styles to scripts alone, not to markup.
  made.innerHTML = (view || "").replace(/(<[a-z][^<>]*) style="/g, '$1 data-style="');
  for (const each of made.content.querySelectorAll("[data-style]")) each.style.cssText = each.dataset.style;
  page.find(".view").replaceChildren(made.content);
  showAll(page.find(".view"));
}

function showDraft(draft, source) {  // what has been written so far, and what the last word was written from
  const list = page.find(".choices"), line = document.createElement("li"), whole = document.createElement("div");
  const text = document.createElement("span"), caret = document.createElement("i");
  clear("");
  text.textContent = draft.text;
  text.dir = "auto";
  caret.className = "caret";
  text.append(caret);
  whole.append(text);
  line.append(whole);
  list.append(line);
  list.hidden = false;
  if (!draft.weights || !draft.weights.length) return;
  const row = document.createElement("p"), weights = draft.weights.at(-1);
  row.className = "reading";
  row.append(...source.map((token, place) => {
    const piece = document.createElement("span");
    piece.textContent = token.replaceAll("\u2581", " ").replace("</s>", "\u23ce");
    piece.style.setProperty("--share", weights[place] || 0);
    return piece;
  }));
  page.find(".view").replaceChildren(row);
}

function show(choices, view) {
  clear("");
  const list = page.find(".choices"), several = choices.filter((choice) => choice.view).length > 1;
  list.hidden = !choices.length;
  list.append(...choices.map((choice, place) => {
    const line = document.createElement("li"), whole = document.createElement(several ? "button" : "div");
    const text = document.createElement("span"), note = document.createElement("i");
    text.textContent = choice.text || "(nothing)";
    text.dir = "auto";
    note.textContent = choice.note;
    whole.append(text, note);
    if (choice.share !== undefined) whole.style.setProperty("--share", choice.share);
    if (several) {
      whole.type = "button";
      whole.setAttribute("aria-pressed", String(!place));
      whole.addEventListener("click", () => {
        list.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", String(other === whole)));
        look(choice.view);
        if (choice.tokens) microscope.choose(place, choice.tokens);
      });
    }
    line.append(whole);
    return line;
  }));
  if (!choices.length) clear("No objects were found in this picture.");
  look(view || (choices[0] && choices[0].view));
}

function fill(select, names) {
  select.replaceChildren(...names.map((name) => new Option(name, name)));
}

function open(reads) {  // the tab for texts or images
  page.reads = reads;
  for (const kind of ["text", "image"]) {
    page.find(`#${kind}`).hidden = kind !== reads;
    const tab = page.find(`#tab-${kind}`);
    tab.setAttribute("aria-selected", String(kind === reads));
    tab.tabIndex = kind === reads ? 0 : -1;
  }
  const own = page.models.filter((model) => model.reads === reads);
  fill(page.find(".models select"), own.map((model) => model.name));
  page.find(".models").hidden = page.models.length < 2;
  page.find(".models select").value = page.model.name;
  page.find(".models select").disabled = own.length < 2;
  choose(page.model.name);
}

function choose(name) {  // a model of this tab
  const model = page.chosen[page.reads] = page.models.find((each) => each.name === name && each.reads === page.reads);
  clear("");
  const trained = model.preset ? ` · ${model.preset}` : "";
  page.find(".facts").textContent = `${model.name} ${model.does}${trained} · ${model.parameters.toLocaleString("en")} parameters`;
  if (page.reads === "image") {
    page.find(".scenes").hidden = !model.scenes;
    page.find(".question").hidden = model.task !== "answer";
    if (page.picture && page.picture.scene !== undefined && !model.scenes) page.picture = null;
    if (page.picture && (model.task !== "answer" || page.find("#question").value.trim())) askImage();
    return;
  }
  page.find("#text .go").textContent = TASKS[model.task].verb;
  page.find(".to").hidden = !model.tags.length;
  fill(page.find(".to select"), model.tags);
  const tries = page.find(".tries");
  tries.hidden = !model.examples.length;
  tries.replaceChildren(...model.examples.map((example) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = example;
    button.addEventListener("click", () => { page.find("#given").value = example; askText(); });
    return button;
  }));
}

// -------------------------------------------------------------------------------------------------------------- acting

function take(picture) {
  page.picture = picture;
  if (page.model.task === "answer" && !page.find("#question").value.trim()) {
    clear("");
    page.find("#question").focus();
    return;
  }
  askImage();
}

function takeScene(step) {
  const number = page.find(".scenes input");
  if (step) number.value = Math.min(Math.max(Number(number.value) + step, 0), 999999);
  if (!number.checkValidity() || number.value === "") return;
  if (!page.picture || page.picture.scene !== number.value) take({scene: number.value});  // Enter and leaving: once
}

function listen() {
  page.find(".models select").addEventListener("change", (event) => choose(event.target.value));
  page.find("#text form").addEventListener("submit", (event) => { event.preventDefault(); askText(); });
  page.find("#given").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    askText();
  });
  page.find("#image form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (page.picture) askImage(); else clear("Choose a picture first.");
  });
  const file = page.find(".file input"), drop = page.find(".drop");
  file.addEventListener("change", () => { if (file.files[0]) take({file: file.files[0]}); file.value = ""; });
  page.find(".scenes input").addEventListener("change", () => takeScene(0));
  page.find(".scenes input").addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); takeScene(0); }
  });
  page.find(".before").addEventListener("click", () => takeScene(-1));
  page.find(".next").addEventListener("click", () => takeScene(page.picture && page.picture.scene !== undefined ? 1 : 0));
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      if (page.reads !== "image") return;
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files[0]) take({file: event.dataTransfer.files[0]});
    });
  }
  document.addEventListener("paste", (event) => {
    const pasted = [...event.clipboardData.files].find((each) => each.type.startsWith("image/"));
    if (page.reads === "image" && pasted) take({file: pasted});
  });
  const tabs = [...document.querySelectorAll("[role=tab]")];
  tabs.forEach((tab) => {
    tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
    tab.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      const other = tabs[1 - tabs.indexOf(tab)];
      open(other.getAttribute("aria-controls"));
      other.focus();
    });
  });
}

async function begin() {
  page.models = await (await call("api/models")).json();
  for (const reads of ["text", "image"]) page.chosen[reads] = page.models.find((model) => model.reads === reads) || null;
  page.find("[role=tablist]").hidden = !page.chosen.text || !page.chosen.image;
  listen();
  open(page.chosen.text ? "text" : "image");
  microscope.start();
}
function start() {
  clear("");
  begin().catch((error) => clear(error.status ? error.message : "The server cannot be reached. Is it still running?"));
}
page.find(".key").addEventListener("submit", (event) => {
  event.preventDefault();
  page.key = page.find(".key input").value.trim();
  page.find(".key").hidden = true;
  if (page.models.length && page.again) page.again(); else start();
});
start();

// The page: it loads the model, translates what is typed, and shows the attention.
import * as ort from "./onnxruntime/ort.wasm.bundle.min.mjs";
import {attentionView} from "./attention_view.mjs";
import {Translator} from "./translator.mjs";

const find = (name) => document.querySelector(name);
const page = {translator: null, number: 0};

function say(text) {
  find(".facts").textContent = text;
}

function wrong(text) {
  find(".wrong[role]").textContent = text;
  find(".wrong[role]").hidden = !text;
}

async function read(file) {
  const answer = await fetch(`model/${file}`);
  if (!answer.ok) throw new Error(`model/${file} cannot be read (${answer.status}).`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function translate() {
  const text = find("#given").value, own = ++page.number;
  wrong("");
  if (!text.trim()) { wrong("Type a text to translate."); return; }
  find(".found").setAttribute("aria-busy", "true");
  try {
    const began = performance.now(), to = find(".to").hidden ? "" : find(".to select").value;
    const found = await page.translator.translate(text, {beam: Number(find(".beam input").value), to});
    if (own === page.number) show(found, performance.now() - began);
  } catch (error) {
    wrong(error.message);
  } finally {
    if (own === page.number) find(".found").setAttribute("aria-busy", "false");
  }
}

function show(found, milliseconds) {
  const {target} = page.translator;
  for (const step of found.steps) {
    for (const thought of step.thoughts) thought.piece = page.translator.name(target, thought.token);
  }
  find(".answer").textContent = found.text || "(nothing)";
  find(".answer").hidden = false;
  find(".score").textContent = `score ${found.score.toFixed(2).replace("-", "−")} · ${Math.round(milliseconds)} ms`;
  find(".view").replaceChildren(...(found.steps.length ? [attentionView(found)] : []));
  showAll(find(".view"));  // of word_stepper.js
}

function fill({examples = [], source, decoding}) {
  find(".beam input").value = decoding.beam;
  find(".tries").hidden = !examples.length;
  find(".tries").append(...examples.map((text) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => { find("#given").value = text; translate(); });
    return button;
  }));
  find(".to").hidden = !source.tags.length;
  find(".to select").append(...source.tags.map((tag) => new Option(tag, tag)));
}

async function start() {
  ort.env.wasm.numThreads = 1;  // more need headers that static files seldom come with
  ort.env.wasm.wasmPaths = {wasm: new URL("./onnxruntime/ort-wasm-simd-threaded.wasm", import.meta.url).href};
  try {
    page.translator = await Translator.load(ort, read);
  } catch (error) {
    say("");
    wrong(`The model cannot be loaded: ${error.message}`);
    return;
  }
  fill(page.translator.about);
  find(".go").disabled = false;
  say(`${page.translator.about.preset ?? "a model"} · nothing leaves this page`);
  document.documentElement.dataset.ready = "true";
}

find(".ask").addEventListener("submit", (event) => { event.preventDefault(); if (page.translator) translate(); });
find("#given").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); find(".ask").requestSubmit(); }
});
start();

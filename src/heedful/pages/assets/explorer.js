// The explorer: one text at a time, its result, its attention and its alignment.

import { AttentionView } from "./attention.js";
import { onTheme } from "./colours.js";
import { bars, choices, drawingPart, element, percent, saveButton, shortened } from "./elements.js";
import { drawHeatmap, heatmapSvg, layOut } from "./heatmap.js";
import { documentView } from "./document.js";
import { linksSvg, liven } from "./links.js";
import { captionPart } from "./image.js";
import { predictionView } from "./predictions.js";
import { statesPart } from "./states.js";
import { Attention, ofWords } from "./weights.js";

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");
const spoken = element("div", { class: "unseen", "aria-live": "polite" });
const explorer = (window.explorer = { data, view: null, shown: null });
document.body.append(spoken);

/** Show one text. */
async function show(index) {
  const item = data.items[index];
  explorer.view?.tip.remove();
  explorer.view = null;
  main.replaceChildren(resultPart(item));
  explorer.redraw = [];
  const drawn = (beam) => main.append(...item.drawings.filter(({ name }) => (name === "beam") === beam).map(drawingPart));
  drawn(false);
  if (item.alignment && item.image) addPart(captionPart(item));
  else if (item.alignment) main.append(alignmentPart(item));
  if (item.predictions.length) main.append(predictionPart(item));
  drawn(true);
  if (item.attentions.length) {
    item.loaded ??= item.attentions.map((one) => new Attention(one, item.sequences));
    const view = (explorer.view = new AttentionView(item.loaded, (text) => { spoken.textContent = text; }, item.image));
    main.append(view.root);
    const first = item.loaded.findIndex((one) => one.kind === "cross");
    await view.choose({ kind: item.image && !item.predictions.length ? 0 : Math.max(0, first) });
    await addDocument(item, view.root);
  }
  if (item.states.length) addPart(statesPart(item.states, item.sequences));
  if (item.gates.length) main.append(gatesPart(item.gates));
  explorer.shown = index;
}

function resultPart(item) {
  const [given, found] = item.labels;
  const list = element("dl", { class: "pair" }, element("dt", {}, given), element("dd", {}, item.text));
  if (item.cut) list.append(element("dt", {}, "Cut"), element("dd", { id: "cut" }, "The text is longer than the model reads: what follows is about a part of it."));
  if (item.question) list.append(element("dt", {}, "Question"), element("dd", { id: "question" }, item.question));
  if (item.output && found) list.append(element("dt", {}, found), element("dd", { id: "output" }, item.before ? marked(item.output, item.before.output) : item.output));
  if (item.change) list.append(element("dt", {}, "What if"), element("dd", { id: "change" }, item.change));
  if (item.before?.output && item.before.output !== item.output) list.append(element("dt", {}, "Before"), element("dd", { id: "before" }, marked(item.before.output, item.output)));
  const classes = Object.entries(item.classes).sort((one, other) => other[1] - one[1]);
  const likely = classes.slice(0, 12).filter(([, share], index) => index < 6 || share >= 0.001);
  const part = element("div", {}, list);
  if (classes.length) part.append(element("section", { "aria-labelledby": "classes-title" },
    element("div", { class: "head" }, element("h2", { id: "classes-title" }, item.question ? "Answers" : "Classes")),
    bars(likely.map(([name, share]) => [name, share, item.output.split(", ").includes(name)])),
    likely.length < classes.length ? element("p", { class: "note" }, `${classes.length - likely.length} others have less.`) : null,
    item.before ? element("p", { class: "note", id: "classes-before" }, `Before: ${Object.entries(item.before.classes).sort((one, other) => other[1] - one[1]).slice(0, 4).map(([name, share]) => `${name} ${percent(share)}`).join(" · ")}`) : null));
  return part;
}

/** The words of a text; those that another text does not have are marked. */
function marked(text, other) {
  const there = new Set(other.split(/\s+/));
  return text.split(/\s+/).flatMap((word) => [there.has(word) ? word : element("mark", {}, word), " "]);
}

function predictionPart(item) {
  const note = item.predicted === "words" ? "How sure the model was of each word's label. Point at one to see the others." : item.predicted === "text" ? "The masks, with the pieces that would fill them." : "How sure the model was of each token, given those before it. Point at one to see what else it considered.";
  return element("section", { "aria-labelledby": "predictions-title" },
    element("div", { class: "head" }, element("h2", { id: "predictions-title" }, item.predicted === "words" ? "Labels" : item.predicted === "text" ? "Masks" : "Token probabilities")),
    element("p", { class: "note" }, note), predictionView(item));
}

/** Add a part that is drawn again when the theme or the width changes. */
function addPart([part, redrawn]) {
  main.append(part);
  explorer.redraw.push(redrawn);
}

/** Gates and states of recurrent layers over time: one heat map at a time. */
function gatesPart(stacks) {
  const holder = element("div", { class: "scroll drawing", id: "gates" }), chosen = { stack: 0, gate: Object.keys(stacks[0].maps)[0] };
  const controls = element("div", { class: "controls" });
  const draw = (change) => {
    Object.assign(chosen, change);
    const { maps } = stacks[chosen.stack];
    if (!(chosen.gate in maps)) chosen.gate = Object.keys(maps)[0];
    holder.innerHTML = maps[chosen.gate];
  };
  controls.append(
    choices("Layer", "stack", stacks.map(({ name }, index) => [index, name]), 0, (stack) => draw({ stack })),
    choices("Gate or state", "gate", Object.keys(stacks[0].maps).map((gate) => [gate, gate]), chosen.gate, (gate) => draw({ gate })));
  draw({});
  return element("section", { "aria-labelledby": "gates-title" },
    element("div", { class: "head" }, element("h2", { id: "gates-title" }, "Gates over time"), saveButton("gates", () => stacks[chosen.stack].maps[chosen.gate])),
    element("p", { class: "note" }, "A column per token, a row per unit. Gates are from 0, closed, to 1, open; candidates and states have a sign."), controls, holder);
}

/** Before the attention of a hierarchical model: its sentences, and the words of each, by their weights. */
async function addDocument(item, before) {
  const [words, sentences] = ["words", "pool"].map((kind) => item.loaded.find((one) => one.kind === kind));
  if (!words || !sentences || sentences.keys !== "sentences") return;
  await Promise.all([words.load(), sentences.load()]);
  before.before(element("section", { "aria-labelledby": "document-title" },
    element("div", { class: "head" }, element("h2", { id: "document-title" }, "Words and sentences that decided")),
    element("p", { class: "note" }, "The bar is a sentence's weight in the document, the shade of a word its weight in the sentence times the root of the sentence's (Yang et al. 2016, figure 5)."),
    documentView(words, sentences)));
}

function alignmentPart(item) {
  const { source } = item.sequences, output = piecesOfOneWord(item.sequences.output);
  const matrix = withoutEnd(ofWords(Float32Array.from(item.alignment.flat()), output, source));
  const hard = matrix.rows.map((_, row) => [row, strongest(matrix, row)]);
  const links = element("div", { class: "scroll", id: "links" }), canvas = element("canvas", { role: "img", "aria-label": "Alignment matrix; a dot marks the source word of greatest weight." });
  links.innerHTML = linksSvg(matrix, hard, `Alignment of ${item.text} and ${item.output}`);
  links.style.color = "var(--accent)";
  liven(links);
  const part = element("section", { "aria-labelledby": "alignment-title" },
    element("div", { class: "head" }, element("h2", { id: "alignment-title" }, "Alignment"),
      element("span", {}, saveButton("alignment", () => linksSvg(matrix, hard, "Alignment", true), "Lines SVG"), " ",
        saveButton("alignment-matrix", () => heatmapSvg(matrix, "Alignment", hard), "Matrix SVG"))),
    element("p", { class: "note" }, "Which source words each word of the output attended to; a bold line and a dot mark the strongest one."),
    element("div", { class: "beside" }, links, element("div", { class: "scroll" }, canvas)));
  explorer.drawAlignment = () => drawHeatmap(canvas, matrix, layOut(matrix, Math.max(280, Math.min(560, part.clientWidth - 4))), { dots: hard });
  explorer.alignment = matrix;
  requestAnimationFrame(explorer.drawAlignment);
  return part;
}

/** A sequence of a single word, such as a date, is aligned piece by piece. */
function piecesOfOneWord(sequence) {
  return sequence.texts.filter((text) => text !== "</s>").length > 1 ? sequence : { words: sequence.pieces.map((_, index) => index), texts: sequence.pieces };
}

/** Leave out the markers of the end, which words are not aligned with. */
function withoutEnd(matrix) {
  const keep = (labels) => labels.map((label, index) => [label, index]).filter(([label]) => label !== "</s>").map(([, index]) => index);
  const rows = keep(matrix.rows), columns = keep(matrix.columns);
  const values = Float32Array.from(rows.flatMap((row) => columns.map((column) => matrix.values[row * matrix.columns.length + column])));
  return { values, rows: rows.map((row) => matrix.rows[row]), columns: columns.map((column) => matrix.columns[column]) };
}

function strongest(matrix, row) {
  const weights = matrix.values.subarray(row * matrix.columns.length, (row + 1) * matrix.columns.length);
  return weights.indexOf(Math.max(...weights));
}

function redraw() {
  explorer.view?.draw();
  for (const again of explorer.redraw) again();
  if (data.items[explorer.shown]?.alignment && !data.items[explorer.shown].image) explorer.drawAlignment?.();
}

if (data.items.length > 1) {
  const select = element("select", { id: "texts", onchange: (event) => show(Number(event.target.value)) },
    data.items.map((item, index) => element("option", { value: index }, shortened(item.text, 90) + (item.change ? ` (${item.change})` : ""))));
  document.querySelector("header.page").append(element("div", { class: "picker" }, element("label", { for: "texts" }, "Text"), select));
}
onTheme(redraw);
let waiting = 0;
addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(redraw); });
await show(0);
document.documentElement.dataset.readyMs = Math.round(performance.now());

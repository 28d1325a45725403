// The explorer: one text at a time, its result, its attention and its alignment.

import { AttentionView } from "./attention.js";
import { onTheme } from "./colours.js";
import { bars, element, saveButton, shortened } from "./elements.js";
import { drawHeatmap, heatmapSvg, layOut } from "./heatmap.js";
import { linksSvg, liven } from "./links.js";
import { predictionView } from "./predictions.js";
import { Attention, ofWords } from "./weights.js";

const LABELS = {
  translate: ["Source", "Translation"], parse: ["Sentence", "Tree"], classify: ["Text", "Class"], fill: ["Text", "Filled"],
  generate: ["Text", ""],
};
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
  if (item.alignment) main.append(alignmentPart(item));
  if (item.predictions.length) main.append(predictionPart(item));
  if (item.attentions.length) {
    item.loaded ??= item.attentions.map((one) => new Attention(one, item.sequences));
    const view = (explorer.view = new AttentionView(item.loaded, (text) => { spoken.textContent = text; }));
    main.append(view.root);
    const first = item.loaded.findIndex((one) => one.kind === "cross");
    await view.choose({ kind: Math.max(0, first) });
  }
  explorer.shown = index;
}

function resultPart(item) {
  const [given, found] = LABELS[item.task] ?? ["Text", "Result"];
  const list = element("dl", { class: "pair" }, element("dt", {}, given), element("dd", {}, item.text));
  if (item.output && found) list.append(element("dt", {}, found), element("dd", { id: "output" }, item.output));
  if (item.change) list.append(element("dt", {}, "What if"), element("dd", { id: "change" }, item.change));
  const classes = Object.entries(item.classes).sort((one, other) => other[1] - one[1]);
  const part = element("div", {}, list);
  if (classes.length) part.append(element("section", { "aria-labelledby": "classes-title" },
    element("div", { class: "head" }, element("h2", { id: "classes-title" }, "Classes")),
    bars(classes.slice(0, 12).map(([name, share]) => [name, share, item.output.split(", ").includes(name)]))));
  return part;
}

function predictionPart(item) {
  const note = item.predicted === "text" ? "The masks, with the pieces that would fill them." : "How sure the model was of each token, given those before it. Point at one to see what else it considered.";
  return element("section", { "aria-labelledby": "predictions-title" },
    element("div", { class: "head" }, element("h2", { id: "predictions-title" }, "Token probabilities")),
    element("p", { class: "note" }, note), predictionView(item));
}

function alignmentPart(item) {
  const { source, output } = item.sequences;
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
  if (data.items[explorer.shown]?.alignment) explorer.drawAlignment?.();
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

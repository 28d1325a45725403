// The alignment of a translation: lines between its words, and a matrix.

import { parseSvg } from "../shared/drawings.js";
import { element, saveButton } from "../shared/elements.js";
import { drawHeatmap, heatmapSvg, layOut } from "./heatmap.js";
import { linksSvg, liven } from "./links.js";
import { ofWords } from "./weights.js";

/** Make the part of the page, and the function that draws it again. */
export function alignmentPart(item) {
  const { source } = item.sequences, output = piecesOfOneWord(item.sequences.output);
  const matrix = withoutEnd(ofWords(Float32Array.from(item.alignment.flat()), output, source));
  const hard = matrix.rows.map((_, row) => [row, strongest(matrix, row)]);
  const links = element("div", { class: "scroll", id: "links" }, parseSvg(linksSvg(matrix, hard, `Alignment of ${item.text} and ${item.output}`)));
  const canvas = element("canvas", { role: "img", "aria-label": "Alignment matrix; a dot marks the source word of greatest weight." });
  links.style.color = "var(--accent)";
  liven(links);
  const part = element("section", { "aria-labelledby": "alignment-title" },
    element("div", { class: "head" }, element("h2", { id: "alignment-title" }, "Alignment"),
      element("span", {}, saveButton("alignment", () => linksSvg(matrix, hard, "Alignment", true), "Lines SVG"), " ",
        saveButton("alignment-matrix", () => heatmapSvg(matrix, "Alignment", hard), "Matrix SVG"))),
    element("p", { class: "note" }, "Which source words each word of the output attended to; a bold line and a dot mark the strongest one."),
    element("div", { class: "beside" }, links, element("div", { class: "scroll" }, canvas)));
  const draw = () => drawHeatmap(canvas, matrix, layOut(matrix, Math.max(280, Math.min(560, part.clientWidth - 4))), { dots: hard });
  requestAnimationFrame(draw);
  return [part, draw];
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

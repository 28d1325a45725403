// Hidden states of a Transformer, layer by layer: how long each token's is, and how far each layer turned it.

import { choices, element, saveButton, shown } from "../shared/elements.js";
import { cellAt, drawHeatmap, heatmapSvg, layOut } from "./heatmap.js";

const SHOWN = { turn: "how far a layer turned it", norm: "its length" };

/** Make the part of the page, and the function that draws it again. */
export function statesPart(states, sequences) {
  const chosen = { part: 0, what: "turn" };
  const canvas = element("canvas", { role: "img" }), said = element("p", { class: "note", id: "state" });
  let matrix = null, layout = null;
  const draw = (change = {}) => {
    Object.assign(chosen, change);
    const { tokens, [chosen.what]: values } = states[chosen.part];
    const rows = values.map((_, layer) => (chosen.what === "norm" && !layer ? "embedding" : `layer ${layer + (chosen.what === "turn")}`));
    matrix = { values: Float32Array.from(values.flat()), rows, columns: sequences[tokens].pieces };
    layout = layOut(matrix, Math.max(280, part.clientWidth - 4));
    drawHeatmap(canvas, matrix, layout);
    said.textContent = `From ${shown(Math.min(...matrix.values))} to ${shown(Math.max(...matrix.values))}; the darker the greater.`;
    canvas.setAttribute("aria-label", `${title()}. ${said.textContent}`);
  };
  const title = () => `States of the ${states[chosen.part].part}: ${SHOWN[chosen.what]}`;
  canvas.addEventListener("pointermove", (event) => {
    const found = cellAt(matrix, layout, event.offsetX, event.offsetY);
    if (found === null || found[1] === null) return;
    const [row, column] = found;
    said.textContent = `${matrix.columns[column]}, ${matrix.rows[row]}: ${shown(matrix.values[row * matrix.columns.length + column])}`;
  });
  const part = element("section", { "aria-labelledby": "states-title" },
    element("div", { class: "head" }, element("h2", { id: "states-title" }, "States, layer by layer"), saveButton("states", () => heatmapSvg(matrix, title()))),
    element("p", { class: "note" }, "The vector of each token on its way through the layers: 1 minus the cosine of its states before and after a layer, or the length of its state."),
    element("div", { class: "controls" },
      choices("Part", "state-part", states.map((one, index) => [index, one.part]), 0, (index) => draw({ part: index })),
      choices("Of each state", "state-what", Object.entries(SHOWN), chosen.what, (what) => draw({ what }))),
    element("div", { class: "scroll", id: "states" }, canvas), said);
  requestAnimationFrame(() => draw());
  return [part, draw];
}

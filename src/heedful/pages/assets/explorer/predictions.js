// Tokens with their probabilities: doubt by colour, and the runners-up of the one that is pointed at.

import { property } from "../shared/colours.js";
import { bars, element, percent, styled } from "../shared/elements.js";

const TITLES = {
  words: ["Labels", "How sure the model was of each word's label. Point at one to see the others."],
  text: ["Masks", "The masks, with the pieces that would fill them."],
  output: ["Token probabilities", "How sure the model was of each token, given those before it. Point at one to see what else it considered."],
};

/** Make the part of the page that shows what was predicted. */
export function predictionPart(item) {
  const [title, note] = TITLES[item.predicted];
  return element("section", { "aria-labelledby": "predictions-title" },
    element("div", { class: "head" }, element("h2", { id: "predictions-title" }, title)),
    element("p", { class: "note" }, note), predictionView(item));
}

function predictionView(item) {
  const pieces = item.sequences[item.predicted].pieces;
  const of = new Map(item.predictions.map((one) => [one.index, one]));
  const panel = element("div", { "aria-live": "polite", id: "runners-up" });
  const buttons = new Map();
  const show = (one) => {
    panel.replaceChildren(
      element("p", { class: "hint" }, `${item.predicted === "words" ? "Labels of word" : item.predicted === "text" ? "What fills token" : "Candidates for token"} ${one.index + 1}`),
      bars([[one.piece, one.probability, true], ...one.runners_up.map(({ piece, probability }) => [piece, probability, false])]));
    for (const [index, button] of buttons) button.setAttribute("aria-pressed", index === one.index);
  };
  const line = element("ul", { class: "line", "aria-label": "Tokens with their probabilities" }, pieces.map((piece, index) => {
    const one = of.get(index);
    if (!one) return element("li", {}, element("span", { class: "word" }, piece));
    const button = element("button", {
      type: "button", "aria-pressed": false, "data-token": index, title: `${one.piece} ${percent(one.probability)}`,
      "aria-label": `${one.piece}, probability ${percent(one.probability)}`,
      onpointerenter: () => show(one), onfocus: () => show(one), onclick: () => show(one),
    }, piece === one.piece ? piece : `${piece} = ${one.piece}`);
    buttons.set(index, button);
    return element("li", {}, doubt(button, one.probability));
  }));
  const least = [...item.predictions].sort((one, other) => one.probability - other.probability)[0];
  show(least);
  return element("div", { class: "columns" }, element("div", {}, line, doubtLegend()), panel);
}

/** Colour a token by 1 - its probability. */
function doubt(target, probability) {
  const strength = Math.round(70 * Math.min(1, 1 - probability));
  return styled(target, { "--cell": `color-mix(in srgb, ${property("--doubt")} ${strength}%, transparent)` });
}

function doubtLegend() {
  const scale = styled(element("i"), { background: `linear-gradient(90deg, transparent, color-mix(in srgb, ${property("--doubt")} 70%, transparent))` });
  return element("div", { class: "legend" }, "certain", scale, "in doubt");
}

// Gates and states of recurrent layers over time: one heat map at a time.

import { parseSvg } from "../shared/drawings.js";
import { choices, element, saveButton } from "../shared/elements.js";

/** Make the part of the page. */
export function gatesPart(stacks) {
  const holder = element("div", { class: "scroll drawing", id: "gates" }), chosen = { stack: 0, gate: Object.keys(stacks[0].maps)[0] };
  const controls = element("div", { class: "controls" });
  const draw = (change) => {
    Object.assign(chosen, change);
    const { maps } = stacks[chosen.stack];
    if (!(chosen.gate in maps)) chosen.gate = Object.keys(maps)[0];
    holder.replaceChildren(parseSvg(maps[chosen.gate]));
  };
  controls.append(
    choices("Layer", "stack", stacks.map(({ name }, index) => [index, name]), 0, (stack) => draw({ stack })),
    choices("Gate or state", "gate", Object.keys(stacks[0].maps).map((gate) => [gate, gate]), chosen.gate, (gate) => draw({ gate })));
  draw({});
  return element("section", { "aria-labelledby": "gates-title" },
    element("div", { class: "head" }, element("h2", { id: "gates-title" }, "Gates over time"), saveButton("gates", () => stacks[chosen.stack].maps[chosen.gate])),
    element("p", { class: "note" }, "A column per token, a row per unit. Gates are from 0, closed, to 1, open; candidates and states have a sign."), controls, holder);
}

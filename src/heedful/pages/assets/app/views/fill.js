// A masked language model: what fills the masks of a text.

import { bars, element, percent } from "../../shared/elements.js";
import { SOON, View } from "../view.js";

const MASK = "[MASK]";

export class FillView extends View {
  constructor(app) {
    super(app, { caption: "Filled", hint: `Put ${MASK} where a word is missing. Choose a candidate to see it in the text.` });
    this.tools.prepend(element("button", { class: "tool", type: "button", onclick: () => this.insert() }, `Insert ${MASK}`));
  }

  steps() { return [[SOON, (signal) => this.answer(signal)]]; }

  /** Put a mask where the caret is. */
  insert() {
    const { input } = this.fields.all.text;
    input.setRangeText(MASK, input.selectionStart, input.selectionEnd, "end");
    input.focus();
    this.fields.all.text.typed();
  }

  start(how) {
    if (this.fields.values.text.includes(MASK)) return super.start(how);
    this.live.stop();
    this.why.close();
    this.why.enable(false);
    this.clear();
  }

  async answer(signal) {
    const { masks } = await this.connection.result("fill", this.body, signal);
    this.masks = masks;
    this.chosen = masks.map(() => 0);
    this.text = element("div", { class: "words", dir: "auto" });
    this.lists = element("div", { class: "masks" });
    this.result.replaceChildren(this.text, this.lists);
    this.draw();
    await this.settled(this.text.textContent);
  }

  draw() {
    const parts = this.fields.values.text.split(MASK), word = (index) => wordOf(this.masks[index][this.chosen[index]]);
    this.text.replaceChildren(...parts.flatMap((part, index) => (index ? [element("mark", {}, word(index - 1)), part] : [part])));
    this.lists.replaceChildren(...this.masks.map((candidates, index) => element("fieldset", {},
      element("legend", {}, this.masks.length > 1 ? `Mask ${index + 1}` : "Candidates"), this.candidates(candidates, index))));
  }

  /** Bars that are radio buttons. */
  candidates(candidates, mask) {
    const list = bars(candidates.map((one, index) => [wordOf(one), one.probability, index === this.chosen[mask]]));
    [...list.children].forEach((item, index) => item.prepend(element("input", {
      type: "radio", name: `mask-${mask}`, checked: index === this.chosen[mask],
      "aria-label": `${wordOf(candidates[index])}, ${percent(candidates[index].probability)}`,
      onchange: () => { this.chosen[mask] = index; this.draw(); this.lists.querySelector(`[name="mask-${mask}"]:checked`).focus(); },
    })));
    return list;
  }
}

const wordOf = ({ text, piece }) => text || piece;

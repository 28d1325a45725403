// A reader: the answer to a question, marked in its text.

import { bars, element, percent } from "../../shared/elements.js";
import { SOON, View } from "../view.js";

export class AnswerView extends View {
  constructor(app) {
    super(app, { caption: "Answer" });
  }

  steps() { return [[SOON, (signal) => this.answer(signal)]]; }

  async answer(signal) {
    const found = await this.connection.result("answer", this.body, signal);
    const { text } = this.fields.all, said = found.answer || "The text has no answer.";
    text.mark(found.answer && found.start !== null ? [[units(text.value, found.start), units(text.value, found.end)]] : []);
    text.shade(0, [1]);
    this.result.replaceChildren(
      element("p", { class: "verdict" }, element("span", { dir: "auto" }, said), element("span", { class: "number" }, percent(found.probability))),
      bars((found.spans ?? []).slice(1).map(({ text: span, probability }) => [span, probability, false])));
    await this.settled(said);
  }

  explained() { return { body: { ...this.body, gradients: true }, word: null }; }
}

/** Return the place of a character in a text of this language, in which characters beyond 65,535 take two. */
function units(text, characters) {
  return [...text].slice(0, characters).join("").length;
}

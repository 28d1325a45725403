// Classifiers and regressors: labels with their probabilities, or a number, and the words that mattered.

import { bars, element } from "../../shared/elements.js";
import { IDLE, SOON, View } from "../view.js";
import { shadeWords } from "../words/words_that_mattered.js";

const MOST_BARS = 12;
const CUT = "The text is longer than the model reads: the result is of its beginning.";

/** The classes of a text or an image, or of a question about one. */
export class LabelView extends View {
  constructor(app) {
    super(app, { caption: app.model.roles.includes("question") ? "Answer" : "Result" });
  }

  steps() { return [[SOON, (signal) => this.answer(signal)], [IDLE, (signal) => this.explain(signal)]]; }

  async answer(signal) {
    this.show(await this.connection.result(this.model.verb, this.body, signal));
  }

  show(found) {
    const chosen = found.labels ?? [found.label ?? found.answer].filter((label) => label !== null && label !== undefined);
    const named = Object.entries(found.probabilities ?? {}).sort((one, other) => other[1] - one[1]);
    this.spoken = chosen.length ? chosen.join(", ") : "none";
    this.result.replaceChildren(
      element("p", { class: "verdict", dir: "auto" }, this.spoken),
      bars(named.slice(0, MOST_BARS).map(([name, share]) => [name, share, chosen.includes(name)])),
      element("p", { class: "note" }, [named.length > MOST_BARS ? `${named.length - MOST_BARS} others have less.` : "", found.cut ? CUT : ""].join(" ")));
  }

  /** Shade the words that mattered, where the model can say so. */
  async explain(signal) {
    if (this.model.explains && this.texts.length) {
      const { item } = await this.connection.json("v1/explain", { ...this.explained().body, form: "item" }, signal);
      this.hint = await shadeWords(item, this.texts);
      this.say(null);
    }
    await this.settled(this.spoken);
  }

  get texts() { return Object.values(this.fields.all).filter((field) => field.mark); }

  explained() { return { body: { ...this.body, gradients: true }, word: null }; }

  age() {
    super.age();
    this.hint = "";
    this.say(null);
  }
}

/** The number of a text or an image. */
export class NumberView extends LabelView {
  show({ value, cut }) {
    this.spoken = value.toLocaleString("en", { maximumSignificantDigits: 5 });
    this.result.replaceChildren(element("p", { class: "verdict" }, this.spoken), element("p", { class: "note" }, cut ? CUT : ""));
  }
}

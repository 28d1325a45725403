// A parser: the tree of a sentence, drawn.

import { parseSvg } from "../../shared/drawings.js";
import { element } from "../../shared/elements.js";
import { IDLE, SOON, View } from "../view.js";

export class ParseView extends View {
  constructor(app) {
    super(app, { caption: "Tree", hint: "" });
    this.brackets = element("p", { class: "brackets", dir: "auto" });
    this.drawing = element("div", { class: "scroll drawing" });
    this.result.append(this.brackets);
    this.foot.before(this.drawing);
  }

  steps() { return [[SOON, (signal) => this.answer(signal)], [IDLE, (signal) => this.draw(signal)]]; }

  async answer(signal) {
    const { tree } = await this.connection.result("parse", this.body, signal);
    this.brackets.textContent = tree ?? "The model found no tree over these words.";
    this.tree = tree;
    if (!tree) this.drawing.replaceChildren();
  }

  async draw(signal) {
    if (this.tree && this.model.explains) {
      const { item } = await this.connection.json("v1/explain", { ...this.body, form: "item" }, signal);
      this.drawing.replaceChildren(...item.drawings.filter(({ name }) => name === "parse").map(({ svg }) => parseSvg(svg)));
    }
    this.drawing.classList.remove("stale");
    await this.settled(this.brackets.textContent);
  }

  age() {
    super.age();
    this.drawing.classList.add("stale");
  }

  clear() {
    this.brackets.textContent = "";
    this.drawing.replaceChildren();
  }
}

// A describer of images: a caption, and where in the image the model looked for each of its words.

import { ImageView } from "../../explorer/image.js";
import { ofWords } from "../../explorer/weights.js";
import { markDifferences } from "../../shared/differences.js";
import { element } from "../../shared/elements.js";
import { IDLE, SOON, View } from "../view.js";
import { AlignedText } from "../words/aligned_text.js";
import { WordLine, scored, splitWords } from "../words/word_line.js";

const WIDTH = 320; // px of an image
const ALTERNATIVES = 3;

/** An image as a side of an `AlignedText`: its patches are its words. */
class ImageSide {
  constructor() {
    this.root = element("div");
    this.onpoint = this.onchoose = () => {};
  }

  show(image) {
    this.view = new ImageView(image, WIDTH, "The image as the model read it");
    this.root.replaceChildren(this.view.root);
    const at = (event) => this.view.tokenAt(event.offsetX, event.offsetY);
    this.view.canvas.addEventListener("pointermove", (event) => this.onpoint(at(event)));
    this.view.canvas.addEventListener("pointerleave", () => this.onpoint(null));
    this.view.canvas.addEventListener("click", (event) => this.onchoose(at(event)));
    this.draw([]);
  }

  /** Without weights, all of the image is seen. */
  draw(weights) {
    this.weights = weights;
    const { rows, columns } = this.view.image, all = new Array(rows * columns + this.view.first).fill(1);
    this.view.draw(weights.length ? weights : all, this.marked ?? []);
  }

  shade(first, shares) { if (this.view) this.draw(shares); }

  frame(index) {
    this.marked = index === null ? [] : [index];
    if (this.view) this.draw(this.weights);
  }

  link(linked) { if (!linked) { this.view = null; this.root.replaceChildren(); } }
}

export class CaptionView extends View {
  constructor(app) {
    super(app, { caption: "Caption" });
    this.output = new WordLine("Caption");
    this.image = new ImageSide();
    this.aligned = new AlignedText(this.image, this.output, { verbs: ["is where the model looked for", "looked at"], changed: (parts) => this.say(parts) });
    this.others = element("ol", { class: "alternatives", "aria-label": "Alternatives" });
    this.result.append(this.output.root, this.others, this.image.root);
  }

  steps() { return [[SOON, (signal) => this.answer(signal)], [IDLE, (signal) => this.look(signal)]]; }

  async answer(signal) {
    const { text, alternatives = [] } = await this.connection.result("caption", { ...this.body, alternatives: ALTERNATIVES }, signal);
    this.text = text;
    this.output.show(splitWords(text));
    this.others.replaceChildren(...alternatives.map((other) => element("li", {}, element("span", {}, markDifferences(other.text, text)), element("span", { class: "number" }, scored(other.score)))));
  }

  /** Link each word with the patches that it attended to. */
  async look(signal) {
    if (this.model.explains) {
      const { item } = await this.connection.json("v1/explain", { ...this.body, form: "item" }, signal);
      if (item.alignment && item.image) this.link(item);
    }
    await this.settled(this.text);
  }

  link(item) {
    const patches = patchNames(item.image), count = patches.length, { output } = item.sequences;
    const { values, rows } = ofWords(Float32Array.from(item.alignment.flat()), output, { texts: patches, words: patches.map((_, index) => index) });
    const kept = rows.map((text, row) => [text, row]).filter(([text]) => text !== "</s>");
    const words = kept.map(([text], index) => ({ before: index ? " " : "", text }));
    this.image.show(item.image);
    this.output.show(words);
    this.aligned.show([{
      words, source_words: patches.map((text) => ({ text })), links: kept.map(([, row]) => [...values.subarray(row * count, (row + 1) * count)]),
    }]);
    this.hint = "Point at a word to see where the model looked for it.";
    this.say(null);
  }

  age() {
    super.age();
    this.aligned.clear();
    this.hint = "";
  }

  clear() {
    this.aligned.clear();
    this.output.show([]);
    this.others.replaceChildren();
  }
}

/** The names of the tokens of an image: the class token, and the row and column of each patch. */
function patchNames({ rows, columns, class_token: whole }) {
  const grid = Array.from({ length: rows * columns }, (_, index) => `row ${Math.floor(index / columns) + 1}, column ${(index % columns) + 1}`);
  return whole ? ["the whole image", ...grid] : grid;
}

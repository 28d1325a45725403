// A text that is typed. A layer under the ordinary text area has the same letters in the same places, transparent ones:
// shaded words shine through, and it knows which word is where.

import { element } from "../../shared/elements.js";
import { Marks } from "../words/word_line.js";

const END = "\u200b"; // gives an empty last line its height
const LONG = 500; // characters from which on letters are smaller

/** A text area that is a side of an `AlignedText`: its words are pointed at by the pointer, or by the caret. */
export class TextField {
  constructor({ name, label, placeholder = "", short = false, changed }) {
    this.layer = element("div", { class: "layer", dir: "auto", "aria-hidden": "true" });
    this.input = element("textarea", {
      id: name, dir: "auto", placeholder, rows: 1, "aria-describedby": `${name}-refusal`,
      oninput: (event) => event.isComposing || this.typed(), oncompositionend: () => this.typed(),
    });
    this.refusal = element("p", { class: "refusal", id: `${name}-refusal`, role: "alert" });
    this.root = element("div", { class: short ? "field short" : "field" },
      element("label", { class: "caption", for: name }, label),
      element("div", { class: "stack" }, this.layer, this.input), this.refusal);
    this.nodes = [];
    this.ranges = [];
    this.marks = new Marks(() => this.nodes);
    this.changed = changed;
    this.onpoint = this.onchoose = () => {};
    this.mark([]);
    this.listen();
  }

  get value() { return this.input.value; }

  set value(text) {
    this.input.value = text;
    this.mark([]);
  }

  /** Whether there is something to read. */
  get ready() { return Boolean(this.value.trim()); }

  typed() {
    this.mark([]);
    this.refuse("");
    this.changed();
  }

  /** Say why the text is refused. */
  refuse(message) {
    this.refusal.textContent = message;
    this.input.setAttribute("aria-invalid", Boolean(message));
  }

  /** Make ranges of the text, [start, end] in order, what can be shaded and pointed at. */
  mark(ranges) {
    const { value } = this, parts = [];
    this.ranges = ranges;
    let last = 0;
    this.nodes = ranges.map(([start, end], index) => {
      const node = element("span", { class: "word", "data-word": index }, value.slice(start, end));
      parts.push(value.slice(last, start), node);
      last = end;
      return node;
    });
    this.layer.replaceChildren(...parts, value.slice(last) + END);
    this.root.classList.toggle("long", value.length > LONG);
  }

  /** Mark words as a server returns them. They are looked for one after the other: a server may change spaces. */
  markWords(words) {
    let from = 0;
    this.mark(words.map(({ before, text }) => {
      const exact = from + before.length, found = this.value.startsWith(text, exact) ? exact : this.value.indexOf(text, from);
      const start = found < 0 ? from : found;
      return [start, (from = found < 0 ? from : found + text.length)];
    }));
  }

  link(linked) {
    if (!linked) this.mark([]);
  }

  shade(first, shares) { this.marks.shade(first, shares); }

  frame(index, locked) { this.marks.frame(index, locked); }

  focus() { this.input.focus(); }

  listen() {
    const at = (event) => {
      const node = document.elementsFromPoint(event.clientX, event.clientY).find((one) => this.nodes.includes(one));
      return node ? Number(node.dataset.word) : null;
    };
    const caret = () => {
      const { selectionStart: start, selectionEnd: end } = this.input;
      const found = this.ranges.findIndex(([first, last]) => first <= start && end <= last);
      return start === end && found >= 0 ? found : null;
    };
    this.input.addEventListener("pointermove", (event) => this.nodes.length && this.onpoint(at(event)));
    this.input.addEventListener("pointerleave", () => this.onpoint(null));
    this.input.addEventListener("blur", () => this.onpoint(null));
    this.input.addEventListener("click", (event) => this.nodes.length && this.onchoose(at(event)));
    this.input.addEventListener("keyup", (event) => { if (/^(Arrow|Home|End|Page)/.test(event.key) && this.nodes.length) this.onpoint(caret()); });
  }
}

// Words in a line: pointed at, focused one at a time, chosen, shaded by weights, underlined where a model was in doubt.

import { element, styled } from "../../shared/elements.js";

const DOUBT = 0.6; // a word that is less probable is underlined
const THINNEST = 1, THICKEST = 4; // px of the line under a word
const NEXT = { ArrowRight: 1, ArrowLeft: -1 };

/** Return the words of a text as a server returns them: with what is before each. */
export function splitWords(text) {
  return Array.from(text.matchAll(/(\s*)(\S+)/g), ([, before, word]) => ({ before, text: word }));
}

/** Return a score as people read it. */
export function scored(score) {
  return score.toFixed(2).replace("-", "\u2212");
}

/** Shade or frame elements of words, and remember which. */
export class Marks {
  constructor(nodes) {
    this.nodes = nodes; // returns the elements
    this.shaded = [];
    this.framed = null;
  }

  /** Shade words by shares from 0 to 1, the first of which is that of the word `first`. */
  shade(first, shares) {
    for (const node of this.shaded) node.style.removeProperty("--shade");
    const found = shares.map((share, index) => [this.nodes()[first + index], share]).filter(([node, share]) => node && share > 0.02);
    this.shaded = found.map(([node, share]) => styled(node, { "--shade": `${(100 * Math.min(1, share)).toFixed(1)}%` }));
  }

  /** Frame the word that is pointed at or locked; none with null. */
  frame(index, locked) {
    this.framed?.removeAttribute("data-frame");
    this.framed = index === null ? null : this.nodes()[index] ?? null;
    if (this.framed) this.framed.dataset.frame = locked ? "locked" : "pointed";
  }
}

/** A side of an `AlignedText` that is read: one stop of the Tab key, where arrow keys lead from word to word. */
export class WordLine {
  constructor(label) {
    this.root = element("div", { class: "words", dir: "auto", role: "group", "aria-label": label });
    this.words = [];
    this.nodes = []; // [text before, element] of each word; longer than `words` while a draft replaces them
    this.marks = new Marks(() => this.nodes.map(([, node]) => node));
    this.stop = 0; // index of the word that the Tab key leads to
    this.linked = false; // whether words can be pointed at
    this.onpoint = this.onchoose = () => {};
    this.describe = (index) => this.words[index].text; // a word for screen readers
    this.listen();
  }

  /** Show words. Those at the start that are shown already stay as they are; with `draft`, later ones stay too, faint. */
  show(words, draft = false) {
    words.forEach((word, index) => {
      const [space, node] = this.nodes[index] ?? this.add(index);
      if (space.data !== word.before) space.data = word.before;
      if (node.textContent !== word.text) node.textContent = word.text;
      node.classList.remove("stale");
      underline(node, word.probability);
    });
    for (const [, node] of this.nodes.slice(words.length)) node.classList.add("stale");
    if (!draft) for (const pair of this.nodes.splice(words.length)) for (const node of pair) node.remove();
    this.words = words;
  }

  add(index) {
    const pair = [document.createTextNode(""), element("span", { class: "word", "data-word": index })];
    this.nodes.push(pair);
    this.root.append(...pair);
    return pair;
  }

  /** Whether words are linked, and can be pointed at and focused. */
  link(linked) {
    this.linked = linked;
    this.stopAt(Math.min(this.stop, this.words.length - 1));
  }

  /** Make a word the one that the Tab key leads to. It alone is a button: the others are read as text. */
  stopAt(index) {
    for (const node of this.root.querySelectorAll("[tabindex]")) for (const name of ["tabindex", "role", "aria-label", "aria-haspopup"]) node.removeAttribute(name);
    this.stop = Math.max(0, index);
    const node = this.nodes[this.stop]?.[1];
    if (!node || !this.linked) return;
    const opens = this.words[this.stop].runners_up?.length ? { "aria-haspopup": "menu" } : {};
    for (const [name, value] of Object.entries({ tabindex: 0, role: "button", "aria-label": this.describe(this.stop), ...opens })) node.setAttribute(name, value);
  }

  focus(index) {
    this.stopAt(index);
    this.nodes[this.stop]?.[1].focus();
  }

  shade(first, shares) { this.marks.shade(first, shares); }

  frame(index, locked) { this.marks.frame(index, locked); }

  listen() {
    const at = (event) => (this.linked && event.target.dataset.word ? Number(event.target.dataset.word) : null);
    this.root.addEventListener("pointerover", (event) => this.onpoint(at(event)));
    this.root.addEventListener("pointerleave", () => this.onpoint(null));
    this.root.addEventListener("focusin", (event) => this.onpoint(at(event)));
    this.root.addEventListener("focusout", () => this.onpoint(null));
    this.root.addEventListener("click", (event) => {
      if (!getSelection().isCollapsed || !this.linked) return; // a text was selected
      const index = at(event);
      if (index !== null) this.focus(index);
      this.onchoose(index);
    });
    this.root.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || at(event) === null) return;
      const index = this.after(event.key);
      if (index !== null) this.focus(index);
      else if (event.key === "Enter" || event.key === " ") this.onchoose(this.stop);
      else return;
      event.preventDefault();
    });
  }

  /** The index of the word to which a key leads; null for other keys. */
  after(key) {
    const last = this.words.length - 1, clamp = (index) => Math.min(last, Math.max(0, index));
    const step = getComputedStyle(this.nodes[this.stop][1]).direction === "rtl" ? -1 : 1;
    if (key in NEXT) return clamp(this.stop + step * NEXT[key]);
    if (key === "Home" || key === "End") return key === "Home" ? 0 : last;
    return key === "ArrowUp" || key === "ArrowDown" ? this.across(key === "ArrowDown" ? 1 : -1) : null;
  }

  /** The index of the word in the next line, or the one before it, that is nearest from side to side. */
  across(step) {
    const box = (index) => this.nodes[index][1].getBoundingClientRect(), middle = ({ left, right }) => (left + right) / 2;
    const from = box(this.stop), on = (line, { top, bottom }) => top < line.bottom && bottom > line.top;
    let found = this.stop, line = null, least = Infinity;
    for (let index = this.stop + step; index >= 0 && index < this.words.length; index += step) {
      const place = box(index), distance = Math.abs(middle(place) - middle(from));
      if (on(from, place) && !line) continue;
      line ??= place;
      if (!on(line, place)) break;
      if (distance < least) [found, least] = [index, distance];
    }
    return found;
  }
}

/** Underline a word that is not sure: the thicker the line, the greater the doubt. */
function underline(node, probability = 1) {
  const doubt = Math.max(0, 1 - probability / DOUBT);
  node.classList.toggle("doubtful", doubt > 0);
  if (doubt) styled(node, { "--line": `${(THINNEST + (THICKEST - THINNEST) * doubt).toFixed(1)}px` });
  else node.style.removeProperty("--line");
}

// Two texts whose words are linked: pointing at a word shades those of the other text that it goes with.

import { element, percent, shown } from "../../shared/elements.js";

const OTHER = { source: "output", output: "source" };
const LEAST = 0.3; // a weight that is shaded fully, where none of a word's weights is greater
const NAMED = 3; // partners in the description of a word
const MENTIONED = 0.05; // weight of a partner that is

/**
 * The links between two sides, `source` and `output`. A side shows words: it has `shade(first, shares)`,
 * `frame(index, locked)` and `link(linked)`, and calls its `onpoint(index)` and `onchoose(index)`, null for no word.
 *
 * A word that is chosen is locked, until it is chosen again, Escape is pressed, or nothing is chosen. `changed` is called
 * with the description of the word that is shown, null where there is none; `locked` with a lock or null.
 */
export class AlignedText {
  constructor(source, output, { verbs = ["read by", "reads"], changed, locked = () => {} }) {
    this.sides = { source, output };
    Object.assign(this, { verbs, changed, locked });
    this.blocks = []; // {row, column, links, rows, columns}: first words of a sentence, its links, and its words
    this.pointed = this.lock = null; // {side, index}
    for (const [side, one] of Object.entries(this.sides)) {
      one.onpoint = (index) => this.point(side, index);
      one.onchoose = (index) => this.choose(side, index);
      one.describe = (index) => this.describe({ side, index }).map((part) => part.textContent ?? part).join("");
      one.root.addEventListener("keydown", (event) => { if (event.key === "Escape") this.free(); });
    }
  }

  /** Show the links of sentences, `{words, source_words, links}`: a row per word of the output, a column per word of the source. */
  show(sentences) {
    let row = 0, column = 0;
    this.blocks = sentences.map(({ words: rows, source_words: columns, links }) => {
      const block = { row, column, rows, columns, links };
      [row, column] = [row + rows.length, column + columns.length];
      return block;
    });
    this.linked(true);
  }

  /** Forget the links: one of the texts has changed. */
  clear() {
    this.pointed = this.lock = null;
    this.draw();
    this.blocks = [];
    this.linked(false);
  }

  linked(linked) {
    for (const side of Object.values(this.sides)) side.link(linked);
  }

  point(side, index) {
    this.pointed = index === null ? null : { side, index };
    this.draw();
  }

  /** Lock a word, or free it if it is locked; null frees any. */
  choose(side, index) {
    const again = this.lock?.side === side && this.lock.index === index;
    if (index === null || again) return this.free();
    this.restore({ side, index });
    if (this.lock) this.locked(this.lock);
  }

  /** Lock a word that was locked before. */
  restore(lock) {
    if (!this.weights(lock)) return;
    this.lock = lock;
    this.draw();
  }

  free() {
    if (!this.lock) return;
    this.lock = null;
    this.draw();
    this.locked(null);
  }

  draw() {
    const active = this.lock ?? this.pointed, found = active && this.weights(active);
    for (const [side, one] of Object.entries(this.sides)) {
      one.frame(found && active.side === side ? active.index : null, Boolean(this.lock));
      if (!found || active.side === side) one.shade(0, []);
    }
    if (!found) return this.changed(null);
    const most = Math.max(LEAST, ...found.weights);
    this.sides[OTHER[active.side]].shade(found.first, found.weights.map((weight) => weight / most));
    this.changed(this.describe(active));
  }

  /** The weights of a word's links, and the first word of the other side that they are with; null for no such word. */
  weights({ side, index }) {
    const isRow = side === "output";
    for (const { row, column, rows, columns, links } of this.blocks) {
      const [first, count] = isRow ? [row, rows.length] : [column, columns.length], at = index - first;
      if (at < 0 || at >= count) continue;
      return isRow ? { word: rows[at], first: column, others: columns, weights: links[at] }
        : { word: columns[at], first: row, others: rows, weights: links.map((weights) => weights[at]) };
    }
    return null;
  }

  /** A word and its partners, as children of an element. */
  describe({ side, index }) {
    const found = this.weights({ side, index });
    if (!found) return [];
    const { word, others, weights } = found;
    const ranked = weights.map((weight, other) => [weight, others[other].text]).sort((one, other) => other[0] - one[0])
      .filter(([weight]) => weight >= MENTIONED).slice(0, NAMED);
    const named = ranked.flatMap(([weight, text], at) => [at ? " · " : ` ${this.verbs[side === "output" ? 1 : 0]} `, bold(text), ` ${shown(weight)}`]);
    return [bold(word.text), word.probability === undefined ? "" : ` ${percent(word.probability)}`, ...named];
  }
}

const bold = (text) => element("b", { dir: "auto" }, text);

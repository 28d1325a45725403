// A translator: the translation appears while one types, and its words are linked with those of the text.

import { markDifferences } from "../../shared/differences.js";
import { element } from "../../shared/elements.js";
import { IDLE, SOON, View } from "../view.js";
import { AlignedText } from "../words/aligned_text.js";
import { closeRunnersUp, openRunnersUp } from "../words/runners_up.js";
import { WordLine, scored, splitWords } from "../words/word_line.js";

const ALTERNATIVES = 3;
const HINT = "Point at a word to see which words go with it. Underlined words are in doubt: choose one to see others.";

export class TranslateView extends View {
  constructor(app) {
    super(app, { caption: "Translation" });
    this.output = new WordLine("Translation");
    this.aligned = new AlignedText(this.fields.all.text, this.output, { changed: (parts) => this.say(parts), locked: (lock) => this.lock(lock) });
    this.several = element("button", { class: "tool", type: "button", "aria-pressed": "false", onclick: () => this.toggleSeveral() }, "Alternatives");
    this.undo = element("button", { class: "tool", type: "button", hidden: true, onclick: () => this.continueFrom("") }, "Undo the choice");
    this.others = element("ol", { class: "alternatives", "aria-label": "Alternatives" });
    this.note = element("p", { class: "note" });
    this.result.append(this.output.root, this.note, this.others);
    this.tools.prepend(this.several, this.undo);
    this.prefix = "";
    this.locks = null; // the word that the address locks, once its translation is there
  }

  steps() { return [[SOON, (signal) => this.draft(signal)], [IDLE, (signal) => this.settle(signal)]]; }

  /** The greedy translation, as it grows. */
  async draft(signal) {
    if (this.prefix) return;
    const body = { ...this.body, beam: 1 };
    if (!this.model.streams) return this.show((await this.connection.result("translate", body, signal)).text);
    let text = "", frame = 0;
    for await (const event of this.connection.events("translate", body, signal)) {
      if (event.type === "done") {
        cancelAnimationFrame(frame);
        return this.show(event.results[0].text);
      }
      text = event.type === "delta" ? text + event.text : event.text;
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (!signal.aborted) this.show(text, true);
      });
    }
  }

  show(text, draft = false) {
    this.language();
    this.output.show(splitWords(text), draft);
  }

  /** The best translation, with the links of its words. */
  async settle(signal) {
    const body = { ...this.body, details: true, ...(this.prefix ? { prefix: this.prefix } : {}), ...(this.isSeveral ? { alternatives: ALTERNATIVES } : {}) };
    const found = await this.connection.result("translate", body, signal);
    this.found = found;
    this.words = found.sentences.flatMap(({ words }) => words);
    this.language();
    this.output.show(this.words);
    this.fields.all.text.markWords(found.sentences.flatMap(({ source_words: words }) => words));
    this.aligned.show(found.sentences);
    if (this.locks) this.aligned.restore(this.locks);
    if (this.chosen !== undefined) this.output.focus(this.chosen);
    this.locks = this.chosen = undefined;
    this.hint = this.words.length ? HINT : "";
    if (!this.aligned.lock && !this.aligned.pointed) this.say(null);
    this.note.textContent = found.complete === false ? "The translation is not complete: it reached the greatest length." : "";
    this.showOthers(found);
    this.undo.hidden = !this.prefix;
    await this.settled(found.text);
  }

  showOthers({ text, alternatives = [] }) {
    this.others.classList.remove("stale");
    this.others.replaceChildren(...(this.isSeveral ? alternatives : []).map((other) => element("li", { dir: "auto", lang: this.app.to || null },
      element("span", {}, markDifferences(other.text, text)), element("span", { class: "number", title: "log P over the length penalty" }, scored(other.score)))));
  }

  get isSeveral() { return this.several.getAttribute("aria-pressed") === "true"; }

  toggleSeveral() {
    this.several.setAttribute("aria-pressed", String(!this.isSeveral));
    if (this.isSeveral) this.start({ soon: true, from: 1 });
    else this.others.replaceChildren();
  }

  language() {
    if (this.app.to) this.output.root.lang = this.app.to;
  }

  /** A word was locked, or freed. */
  lock(lock) {
    this.app.changed();
    if (lock) this.app.announce(this.readout.textContent);
    if (lock?.side !== "output") return closeRunnersUp();
    const { index } = lock, word = this.words[index], node = this.output.nodes[index][1];
    if (word.runners_up?.length) openRunnersUp(node, [word, ...word.runners_up.map((other) => named(word, other))], ({ text, prefix }) => {
      this.output.show([...this.words.slice(0, index), { before: word.before, text }], true);
      this.continueFrom(prefix, index);
    });
  }

  /** Translate again, with a given beginning. */
  continueFrom(prefix, index) {
    this.aligned.clear();
    this.prefix = prefix;
    this.chosen = index;
    this.start({ soon: true, from: 1 });
  }

  age() {
    super.age();
    closeRunnersUp();
    this.aligned.clear();
    this.prefix = "";
    this.locks = undefined;
    this.undo.hidden = true;
    this.others.classList.add("stale");
  }

  clear() {
    this.aligned.clear();
    this.output.show([]);
    this.others.replaceChildren();
    this.note.textContent = "";
    this.hint = "";
    this.say(null);
  }

  /** The whole text; of several sentences the one with the locked word, as explanations are of one sentence. */
  explained() {
    const { sentences } = this.found, lock = this.aligned.lock, output = lock?.side === "output" ? lock.index : null;
    if (sentences.length === 1) return { body: { ...this.body, ...(this.prefix ? { target: this.found.text } : { search: true }) }, word: output };
    const key = lock?.side === "source" ? "source_words" : "words";
    let first = 0, chosen = 0;
    while (lock && chosen < sentences.length - 1 && first + sentences[chosen][key].length <= lock.index) first += sentences[chosen++][key].length;
    const { source_words: source, words } = sentences[chosen];
    return {
      body: { ...this.body, text: joined(source), target: joined(words) }, word: output === null ? null : output - first,
      note: `This is sentence ${chosen + 1} of ${sentences.length}. Choose a word of another one, then ask again.`,
    };
  }

  get state() {
    const { lock } = this.aligned, word = lock ? `${lock.side === "source" ? "s" : ""}${lock.index}` : null;
    return { ...super.state, prefix: this.prefix, word };
  }

  restore(state) {
    this.prefix = state.prefix ?? "";
    const { from, index } = /^(?<from>s?)(?<index>\d{1,6})$/.exec(state.word ?? "")?.groups ?? {};
    this.locks = index === undefined ? null : { side: from ? "source" : "output", index: Number(index) };
    super.restore(state);
  }

  remove() {
    closeRunnersUp();
    super.remove();
  }
}

/** A runner-up for a word after a space; one that continues the word before instead begins with dots. */
function named(word, other) {
  const continues = /\s$/.test(word.before) && /\S$/.test(other.prefix.slice(0, other.prefix.length - other.text.length));
  return { ...other, text: continues ? `\u2026${other.text}` : other.text };
}

const joined = (words) => words.map(({ before, text }) => before + text).join("").trim();

// A tagger: every word with its label below it, spans as one.

import { element, percent, shown, styled } from "../../shared/elements.js";
import { SOON, View } from "../view.js";

const COLOURS = 7; // of series, in the style
const NONE = "O"; // the label of words outside spans

export class TagView extends View {
  constructor(app) {
    super(app, { caption: "Labels", hint: "Point at a label to see its probability." });
  }

  steps() { return [[SOON, (signal) => this.answer(signal)]]; }

  async answer(signal) {
    const found = await this.connection.result("tag", this.body, signal);
    this.result.replaceChildren(element("p", { class: "tagged", dir: "auto" }, groups(found).flatMap((group) => [this.group(found, group), " "])));
    const named = found.spans?.map(({ type, text }) => `${text}: ${type}`) ?? found.words.map((word, index) => `${word}: ${found.labels[index]}`);
    await this.settled(named.join(", ") || "No spans.");
  }

  /** Words under one label. The label says what the colour says. */
  group({ words, probabilities }, { label, start, end }) {
    const text = words.slice(start, end).join(" ");
    if (label === NONE) return element("span", { class: "plain" }, text);
    const least = Math.min(...(probabilities ?? []).slice(start, end));
    const said = Number.isFinite(least) ? `${label} ${percent(least)}` : label;
    const made = element("span", { class: "tag", tabindex: 0, title: said }, element("span", { class: "tagged-text" }, text), element("span", { class: "label" }, label));
    for (const kind of ["pointerenter", "focus"]) made.addEventListener(kind, () => this.say([element("b", {}, text), ` ${label} ${Number.isFinite(least) ? shown(least) : ""}`]));
    for (const kind of ["pointerleave", "blur"]) made.addEventListener(kind, () => this.say(null));
    return styled(made, { "--tag": `var(--series-${this.colour(label)})` });
  }

  /** The number of a label's colour: labels of one type, such as B-PER and I-PER, have the same. */
  colour(label) {
    const types = [...new Set(this.model.labels.map(typeOf))].filter((type) => type !== NONE);
    return (Math.max(0, types.indexOf(typeOf(label))) % COLOURS) + 1;
  }
}

const typeOf = (label) => label.replace(/^[BIESLU]-/, "");

/** Return the words of a sentence in groups, {label, start, end}: its spans, and words outside them. */
function groups({ words, labels, spans }) {
  if (!spans) return words.map((_, index) => ({ label: labels[index], start: index, end: index + 1 }));
  const found = [];
  let last = 0;
  for (const { type, start, end } of [...spans, { start: words.length, end: words.length }]) {
    for (; last < start; last++) found.push({ label: NONE, start: last, end: last + 1 });
    if (type) found.push({ label: type, start, end });
    last = end;
  }
  return found;
}

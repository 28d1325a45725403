// What a model read and what it found: text, output, classes.

import { bars, element, percent } from "../shared/elements.js";

/** Make the part of the page. */
export function resultPart(item) {
  const [given, found] = item.labels;
  const list = element("dl", { class: "pair" }, element("dt", {}, given), element("dd", {}, item.text));
  if (item.cut) list.append(element("dt", {}, "Cut"), element("dd", { id: "cut" }, "The text is longer than the model reads: what follows is about a part of it."));
  if (item.question) list.append(element("dt", {}, "Question"), element("dd", { id: "question" }, item.question));
  if (item.output && found) list.append(element("dt", {}, found), element("dd", { id: "output" }, item.before ? marked(item.output, item.before.output) : item.output));
  if (item.change) list.append(element("dt", {}, "What if"), element("dd", { id: "change" }, item.change));
  if (item.before?.output && item.before.output !== item.output) list.append(element("dt", {}, "Before"), element("dd", { id: "before" }, marked(item.before.output, item.output)));
  const classes = Object.entries(item.classes).sort((one, other) => other[1] - one[1]);
  return element("div", {}, list, classes.length ? classesPart(item, classes) : null);
}

function classesPart(item, classes) {
  const likely = classes.slice(0, 12).filter(([, share], index) => index < 6 || share >= 0.001);
  return element("section", { "aria-labelledby": "classes-title" },
    element("div", { class: "head" }, element("h2", { id: "classes-title" }, item.question ? "Answers" : "Classes")),
    bars(likely.map(([name, share]) => [name, share, item.output.split(", ").includes(name)])),
    likely.length < classes.length ? element("p", { class: "note" }, `${classes.length - likely.length} others have less.`) : null,
    item.before ? element("p", { class: "note", id: "classes-before" }, `Before: ${Object.entries(item.before.classes).sort((one, other) => other[1] - one[1]).slice(0, 4).map(([name, share]) => `${name} ${percent(share)}`).join(" · ")}`) : null);
}

/** The words of a text; those that another text does not have are marked. */
function marked(text, other) {
  const there = new Set(other.split(/\s+/));
  return text.split(/\s+/).flatMap((word) => [there.has(word) ? word : element("mark", {}, word), " "]);
}

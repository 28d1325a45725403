// A document whose sentences and words are shaded by their weights.

import { cssColour, inkOn } from "../shared/colours.js";
import { element, percent, shown, styled } from "../shared/elements.js";
import { greatest } from "./weights.js";

/** Make the part of the page about a hierarchical model: its sentences, and the words of each; null of another model. */
export async function documentPart(attentions) {
  const [words, sentences] = ["words", "pool"].map((kind) => attentions.find((one) => one.kind === kind));
  if (!words || !sentences || sentences.keys !== "sentences") return null;
  await Promise.all([words.load(), sentences.load()]);
  return element("section", { "aria-labelledby": "document-title" },
    element("div", { class: "head" }, element("h2", { id: "document-title" }, "Words and sentences that decided")),
    element("p", { class: "note" }, "The bar is a sentence's weight in the document, the shade of a word its weight in the sentence times the root of the sentence's (Yang et al. 2016, figure 5)."),
    documentView(words, sentences));
}

/** Make the list of sentences, each with its words. */
function documentView(words, sentences) {
  const shares = [...sentences.matrix(0, "mean").subarray(0, sentences.width)], most = Math.sqrt(greatest(shares));
  const inside = words.matrix(0, "mean");
  return element("ol", { class: "document", id: "document" }, shares.map((share, sentence) => {
    const own = words.columns.texts.map((text, word) => [text, weightOf(words, inside, sentence, word)]).filter(([text, weight]) => weight > 0 && text !== "</s>");
    const greatestWord = greatest(own.map(([, weight]) => weight));
    return element("li", {},
      styled(element("span", { class: "share", title: "weight of the sentence" }, percent(share)), { "--cell": cssColour(share / most ** 2) }),
      element("ul", { class: "line" }, own.map(([text, weight]) => {
        const shade = (weight / greatestWord) * (Math.sqrt(share) / most) * 0.9;
        return element("li", {}, styled(element("span", { class: "word", title: shown(weight) }, text), { "--cell": shade > 0.02 ? cssColour(shade) : "transparent", "--on": shade > 0.02 ? inkOn(shade) : "inherit" }));
      })));
  }));
}

/** The weight of a word in a sentence: the sum over its pieces. */
function weightOf(words, values, sentence, word) {
  let sum = 0;
  words.columns.words.forEach((of, piece) => { if (of === word) sum += values[sentence * words.width + piece]; });
  return sum;
}

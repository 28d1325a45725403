// The words of an input that a prediction depends on most, by gradients.

import { shown } from "../../shared/elements.js";
import { Attention, greatest, ofWords } from "../../explorer/weights.js";

const NAMED = 3;

/** Return where words are in texts, [number of the text, start, end]; null for markers, and for words that are not there. */
function locate(words, texts) {
  // Vocabularies may be of small letters. The few texts whose length this changes are compared as they are.
  const lower = texts.map((text) => (text.toLowerCase().length === text.length ? text.toLowerCase() : text));
  let from = 0, at = 0;
  return words.map((word) => {
    for (let text = at; text < texts.length; text++) {
      const start = lower[text].indexOf(word.toLowerCase(), text === at ? from : 0);
      if (start < 0 || !word) continue;
      [at, from] = [text, start + word.length];
      return [text, start, from];
    }
    return null;
  });
}

/** Shade the words of text fields by their share in a prediction. Return the words with the greatest, in words. */
export async function shadeWords(item, fields) {
  const described = item.attentions.find(({ kind, keys }) => kind === "gradient" && keys === "text");
  if (!described || !fields.length) return "";
  const attention = new Attention({ ...described }, item.sequences);
  await attention.load();
  const { values, columns } = ofWords(attention.matrix(0, "mean"), attention.rows, attention.columns);
  const places = locate(columns, fields.map(({ value }) => value)), shares = [...values.slice(0, columns.length)];
  const here = places.map((place, index) => [place, shares[index], columns[index]]).filter(([place]) => place);
  const most = greatest(here.map(([, share]) => share));
  fields.forEach((field, number) => {
    const own = here.filter(([[text]]) => text === number);
    field.mark(own.map(([[, start, end]]) => [start, end]));
    field.shade(0, own.map(([, share]) => share / most));
  });
  const named = here.sort((one, other) => other[1] - one[1]).slice(0, NAMED).map(([, share, word]) => `${word} ${shown(share)}`);
  return named.length ? `Most of the prediction depends on: ${named.join(" · ")}` : "";
}

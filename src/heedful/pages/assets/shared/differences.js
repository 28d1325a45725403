// What one text has that another does not: words outside their longest common subsequence.

import { element } from "./elements.js";

const MOST = 400; // words of texts that are compared: the time grows with their product

/** Return the words of a text with the space before each; letters of languages without spaces are words of their own. */
function wordsOf(text) {
  return text.match(/\s*(?:[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{M}\p{N}]+|[^\s])/gu) ?? [];
}

/** Return a text as children of an element: what `other` does not have is marked, and where it has more. */
export function markDifferences(text, other) {
  const words = wordsOf(text), others = wordsOf(other);
  if (Math.max(words.length, others.length) > MOST) return [text];
  const common = commonWords(words.map((word) => word.trim()), others.map((word) => word.trim()));
  const parts = [];
  let last = [-1, -1];
  for (const [row, column] of [...common, [words.length, others.length]]) {
    const added = words.slice(last[0] + 1, row), missing = others.slice(last[1] + 1, column);
    parts.push(...added.flatMap((word) => [spaceOf(word), element("mark", {}, word.trimStart())]));
    if (!added.length && missing.length) parts.push(" ", element("mark", { class: "gap", title: `without ${missing.join("").trim()}` }));
    if (row < words.length) parts.push(words[row]);
    last = [row, column];
  }
  return parts;
}

const spaceOf = (word) => word.slice(0, word.length - word.trimStart().length);

/** Return the longest common subsequence: pairs of indices. */
function commonWords(words, others) {
  const lengths = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1)); // of what is left
  for (let row = words.length - 1; row >= 0; row--) {
    for (let column = others.length - 1; column >= 0; column--) {
      lengths[row][column] = words[row] === others[column] ? lengths[row + 1][column + 1] + 1 : Math.max(lengths[row + 1][column], lengths[row][column + 1]);
    }
  }
  const found = [];
  for (let row = 0, column = 0; row < words.length && column < others.length;) {
    if (words[row] === others[column]) found.push([row++, column++]);
    else if (lengths[row + 1][column] >= lengths[row][column + 1]) row++;
    else column++;
  }
  return found;
}

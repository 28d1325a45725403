// The list of words that a model considered in the place of one.

import { element, percent, styled } from "../../shared/elements.js";

const EDGE = 8; // px between the list and the edge of the window
let close = () => {};

/** Open the list below a word. The first of the words is the one that is shown; `choose` gets another one. */
export function openRunnersUp(anchor, words, choose) {
  close();
  const away = new AbortController(), { signal } = away;
  const items = words.map((word, index) => element("button", {
    type: "button", role: "menuitemradio", "aria-checked": String(index === 0), tabindex: -1,
    onclick: () => { close(); if (index) choose(word); else anchor.focus(); },
  }, element("span", { class: "name", dir: "auto" }, word.text), element("span", { class: "number" }, percent(word.probability))));
  const list = element("div", { class: "runners-up", role: "menu", "aria-label": `Other words for ${words[0].text}` }, items);
  close = () => { away.abort(); list.remove(); anchor.removeAttribute("aria-expanded"); close = () => {}; };
  list.addEventListener("keydown", (event) => {
    const at = items.indexOf(document.activeElement), last = items.length - 1;
    const next = { ArrowDown: Math.min(last, at + 1), ArrowUp: Math.max(0, at - 1), Home: 0, End: last }[event.key];
    if (next !== undefined) items[next].focus();
    else if (event.key === "Escape" || event.key === "Tab") { close(); anchor.focus(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  addEventListener("pointerdown", (event) => list.contains(event.target) || close(), { signal });
  addEventListener("resize", () => close(), { signal });
  anchor.setAttribute("aria-expanded", "true");
  document.body.append(list);
  place(list, anchor);
  items[Math.min(1, items.length - 1)].focus({ preventScroll: true });
}

/** Close the list, if it is open. */
export function closeRunnersUp() {
  close();
}

/** Put the list under its word, within the window from side to side. */
function place(list, anchor) {
  const word = anchor.getClientRects()[0], room = document.documentElement.clientWidth;
  const left = Math.max(EDGE, Math.min(word.left - EDGE, room - list.offsetWidth - EDGE));
  styled(list, { left: `${left + scrollX}px`, top: `${word.bottom + scrollY + 4}px` });
}

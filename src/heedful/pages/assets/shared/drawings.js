// Drawings: SVG that Python or this page made, as elements.

import { element, saveButton } from "./elements.js";

const ACTIVE = "script, style, foreignObject, iframe, animate, set, a";

/** Return the element of an SVG. Nothing in it runs or loads anything. */
export function parseSvg(svg) {
  // Policies of pages may forbid attributes of style, but not styles that are set. Texts have no quotation marks here:
  // they are escaped, and attributes are all that this replaces.
  const quiet = svg.replaceAll(' style="', ' data-style="');
  const parsed = new DOMParser().parseFromString(quiet, "image/svg+xml").documentElement;
  if (parsed.localName !== "svg" || parsed.querySelector("parsererror")) {
    return element("p", { class: "note" }, "This drawing cannot be shown.");
  }
  for (const one of parsed.querySelectorAll(ACTIVE)) one.remove();
  for (const one of [parsed, ...parsed.querySelectorAll("*")]) {
    for (const { name, value } of [...one.attributes]) if (isActive(name, value)) one.removeAttribute(name);
  }
  const drawing = document.importNode(parsed, true);
  for (const one of [drawing, ...drawing.querySelectorAll("[data-style]")]) {
    if (one.dataset.style) one.style.cssText = one.dataset.style;
    one.removeAttribute("data-style");
  }
  return drawing;
}

/** Whether an attribute may run something, or load it from elsewhere. */
function isActive(name, value) {
  return name.startsWith("on") || (name.endsWith("href") && !/^(#|data:image\/(png|jpeg|webp);)/.test(value));
}

/** Make a part of the page from a drawing that Python made. */
export function drawingPart({ name, title, note, svg }) {
  return element("section", { "aria-labelledby": `${name}-title` },
    element("div", { class: "head" }, element("h2", { id: `${name}-title` }, title), saveButton(name, () => svg)),
    element("p", { class: "note" }, note), element("div", { class: "scroll drawing", id: name }, parseSvg(svg)));
}

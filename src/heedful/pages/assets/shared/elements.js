// Elements, texts and downloads.

/** Make an element with attributes and children; a text is a child, never markup. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu; // in XML, even escaped

/** Return a text that can be a part of XML. */
export function escaped(text) {
  return String(text).replace(FORBIDDEN, "\ufffd").replace(/[&<>"]/g, (letter) => ENTITIES[letter]);
}

/** Return a text that is cut where it is too long. */
export function shortened(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** Return a number as people read it. */
export function shown(value) {
  return value.toFixed(value !== 0 && Math.abs(value) < 0.01 ? 4 : 3);
}

/** Return a share in percent. */
export function percent(share) {
  const value = 100 * share;
  if (value < 0.1) return value ? "<0.1%" : "0%";
  return `${value > 99.9 && value < 100 ? "99.9" : value.toFixed(value < 10 || value >= 99 ? 1 : 0)}%`;
}

/** Make a button that downloads an image; `draw` returns its SVG. */
export function saveButton(name, draw, label = "SVG") {
  return element("button", {
    class: "save", type: "button", "data-save": name, "aria-label": `Download ${name} as SVG`,
    onclick: () => {
      const link = element("a", { href: URL.createObjectURL(new Blob([draw()], { type: "image/svg+xml" })), download: `${name}.svg` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    },
  }, `${label} ↓`);
}

/** Make a group of radio buttons; `choose` gets the value. */
export function choices(title, name, options, chosen, choose) {
  const made = options.map(([value, label, spoken]) => element("label", {},
    element("input", { type: "radio", name, value, checked: String(value) === String(chosen), "aria-label": spoken ?? null, onchange: () => choose(value) }),
    element("span", {}, label)));
  return element("fieldset", {}, element("legend", {}, title), element("div", { class: "choices" }, made));
}

/** Make a list of bars: [name, share, chosen]. */
export function bars(rows, most = 1) {
  return element("ul", { class: "bars" }, rows.map(([name, share, chosen]) => element("li", { class: chosen ? "chosen" : null },
    element("span", { class: "name", title: name }, name),
    element("span", { class: "track", "aria-hidden": "true" }, styled(element("i"), { width: `${100 * Math.min(1, share / most)}%` })),
    element("span", { class: "number" }, percent(share)))));
}

/** Set the style of an element. */
export function styled(target, properties) {
  for (const [name, value] of Object.entries(properties)) target.style.setProperty(name, value);
  return target;
}

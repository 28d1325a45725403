// One sequential scale of one hue: lightness alone carries the value, so it is safe for every kind of colour vision.

const LIGHT = [[252, 252, 251], [214, 223, 247], [152, 173, 233], [84, 110, 207], [41, 58, 143], [20, 27, 77]];
const DARK = [[18, 21, 28], [34, 45, 84], [56, 80, 160], [96, 131, 226], [158, 187, 255], [236, 242, 255]];
const darkness = window.matchMedia("(prefers-color-scheme: dark)");

const chosen = new EventTarget();
let theme = "auto";

/** Whether the page is shown dark. */
export function isDark() {
  return theme === "auto" ? darkness.matches : theme === "dark";
}

/** Call a function whenever the page changes between light and dark, until a signal is aborted. */
export function onTheme(call, signal) {
  for (const target of [darkness, chosen]) target.addEventListener("change", call, { signal });
}

/** Draw in the colours of a theme, "light" or "dark"; "auto" is that of the system. */
export function setTheme(name) {
  theme = name;
  chosen.dispatchEvent(new Event("change"));
}

/** Return the red, green and blue of a share from 0 to 1. */
export function colourOf(share, dark = isDark()) {
  const stops = dark ? DARK : LIGHT;
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((value, channel) => Math.round(value + (stops[low + 1][channel] - value) * (place - low)));
}

/** Return the colour of a share, as CSS. */
export function cssColour(share, dark = isDark()) {
  return `rgb(${colourOf(share, dark).join(" ")})`;
}

/** Return the colour of text on that of a share. */
export function inkOn(share, dark = isDark()) {
  const [red, green, blue] = colourOf(share, dark);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#1d2433" : "#ffffff";
}

/** Return the value of a custom property of the page. */
export function property(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The theme: that of the system, light or dark.

import { setTheme } from "../shared/colours.js";
import { element } from "../shared/elements.js";
import { recall, remember } from "./memory.js";

const THEMES = { auto: "(prefers-color-scheme: dark)", light: "not all", dark: "all" }; // when the dark colours apply
const NAME = "heedful-theme";
const store = () => localStorage;

/** Make the list of themes, and show the one that was chosen last. */
export function themeSelect() {
  const last = recall(store, NAME), chosen = last in THEMES ? last : "auto";
  const select = element("select", { id: "theme", onchange: () => { remember(store, NAME, select.value); show(select.value); } },
    Object.keys(THEMES).map((name) => element("option", { value: name, selected: name === chosen }, name)));
  show(chosen);
  return select;
}

/** The style has the dark colours once, under a condition: the condition is what changes. */
const conditions = [...document.styleSheets].flatMap(({ cssRules }) => [...cssRules])
  .filter((rule) => rule instanceof CSSMediaRule && rule.media.mediaText.includes("prefers-color-scheme"));

function show(theme) {
  for (const { media } of conditions) media.mediaText = THEMES[theme];
  document.documentElement.style.colorScheme = theme === "auto" ? "light dark" : theme;
  setTheme(theme);
}

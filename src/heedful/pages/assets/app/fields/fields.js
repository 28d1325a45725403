// The fields of an input: a text, two of them, a question, an image.

import { element } from "../../shared/elements.js";
import { ImageField } from "./image_field.js";
import { TextField } from "./text_field.js";

const LABELS = { text: "Text", second: "Second text", question: "Question", image: "Image" };

/** The fields for the roles that a model reads. */
export class Fields {
  constructor(roles, changed, labels = {}) {
    const named = { ...LABELS, ...(roles.includes("second") ? { text: "First text" } : {}), ...labels };
    this.all = Object.fromEntries(roles.map((role) => [role, role === "image"
      ? new ImageField({ name: role, label: named[role], changed })
      : new TextField({ name: role, label: named[role], short: role === "question", changed })]));
    this.root = element("div", { class: "fields" }, Object.values(this.all).map(({ root }) => root));
  }

  /** The input as requests have it. */
  get values() {
    return Object.fromEntries(Object.entries(this.all).map(([role, { value }]) => [role, value]));
  }

  /** The texts, which the address can hold. */
  get texts() {
    return Object.fromEntries(Object.entries(this.values).filter(([role]) => role !== "image"));
  }

  set texts(texts) {
    for (const [role, field] of Object.entries(this.all)) if (role !== "image" && texts[role]) field.value = texts[role];
  }

  /** Whether there is an input to send. */
  get ready() { return Object.values(this.all).every(({ ready }) => ready); }

  /** Say next to a field why it is refused: next to the first one if the reason is another. */
  refuse(error) {
    (this.all[error.param] ?? Object.values(this.all)[0]).refuse(error.message);
  }

  accept() {
    for (const field of Object.values(this.all)) field.refuse("");
  }

  focus() { Object.values(this.all)[0].focus(); }

  remove() { this.all.image?.remove(); }
}

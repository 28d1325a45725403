// An image that is chosen, dropped or pasted.

import { element } from "../../shared/elements.js";

const LARGEST = 20_000_000; // bytes of a file

/** A field whose value is an image as a data URI. */
export class ImageField {
  constructor({ name, label, changed }) {
    this.value = "";
    this.changed = changed;
    this.image = element("img", { alt: "The chosen image", hidden: true });
    this.input = element("input", { id: name, type: "file", accept: "image/png,image/jpeg,image/webp", class: "unseen", onchange: () => this.take(this.input.files) });
    this.refusal = element("p", { class: "refusal", role: "alert" });
    this.hint = element("span", {}, "Choose an image, drop it here, or paste it.");
    this.zone = element("label", { class: "drop", for: name }, this.hint, this.image);
    this.root = element("div", { class: "field" }, element("span", { class: "caption" }, label), this.input, this.zone, this.refusal);
    this.paste = (event) => event.clipboardData.files.length && this.take(event.clipboardData.files);
    addEventListener("paste", this.paste);
    for (const kind of ["dragover", "dragleave", "drop"]) {
      this.zone.addEventListener(kind, (event) => {
        event.preventDefault();
        this.zone.classList.toggle("over", kind === "dragover");
        if (kind === "drop") this.take(event.dataTransfer.files);
      });
    }
  }

  get ready() { return Boolean(this.value); }

  refuse(message) { this.refusal.textContent = message; }

  /** Take the first image of some files. */
  async take(files) {
    const file = [...files].find(({ type }) => type.startsWith("image/"));
    if (!file) return this.refuse("This is not an image: choose a PNG, JPEG or WebP file.");
    if (file.size > LARGEST) return this.refuse("This image is larger than 20 MB: choose a smaller one.");
    this.refuse("");
    this.value = await read(file);
    this.image.src = this.value;
    this.image.hidden = false;
    this.hint.textContent = "Choose another image, drop it here, or paste it.";
    this.changed();
  }

  focus() { this.input.focus(); }

  remove() { removeEventListener("paste", this.paste); }
}

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

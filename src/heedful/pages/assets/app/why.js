// "Why?": the explorer, in its place on the page, and the same page as a file.

import { mountExplorer } from "../explorer/view.js";
import { element } from "../shared/elements.js";

/** Two buttons, and the part of the page that the first one opens. `asked` returns what to explain: {body, word, note}. */
export class Why {
  constructor(connection, asked) {
    Object.assign(this, { connection, asked });
    this.mounted = this.running = null;
    this.open = element("button", { class: "tool", type: "button", "aria-expanded": "false", "aria-controls": "why", onclick: () => (this.shown ? this.close() : this.show()) }, "Why?");
    this.save = element("button", { class: "tool", type: "button", title: "Download the explanation as a page in one file", onclick: () => this.download() }, "Save");
    this.said = element("span", { class: "said", role: "status" });
    this.root = element("div", { id: "why", hidden: true });
    this.tools = [this.open, this.save, this.said];
    this.enable(false);
  }

  get shown() { return !this.root.hidden; }

  /** Whether there is something to explain. */
  enable(enabled) {
    for (const button of [this.open, this.save]) button.disabled = !enabled;
  }

  /** Explain what the page shows now. */
  async show() {
    this.root.hidden = false;
    this.open.setAttribute("aria-expanded", "true");
    const { body, word, note = "" } = this.asked();
    await this.run("Reading what the model did …", async (signal) => {
      const { item } = await this.connection.json("v1/explain", { ...body, form: "item" }, signal);
      if (this.mounted) await this.mounted.update(item, word);
      else await (this.mounted = mountExplorer(this.root, item, word)).ready;
      this.said.textContent = note;
    });
  }

  /** What is explained has changed. */
  async refresh() {
    if (this.shown) await this.show();
  }

  /** The explanation is of an earlier input, until it is refreshed. */
  age() {
    this.root.classList.add("stale");
  }

  close() {
    this.running?.abort();
    this.mounted?.remove();
    this.mounted = null;
    this.root.hidden = true;
    this.open.setAttribute("aria-expanded", "false");
  }

  async download() {
    await this.run("Writing the page …", async (signal) => {
      const response = await this.connection.request("v1/explain", { ...this.asked().body, form: "page" }, signal);
      const link = element("a", { href: URL.createObjectURL(await response.blob()), download: "explanation.html" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      this.said.textContent = "";
    });
  }

  /** Run something, and say so; an earlier run ends. */
  async run(said, call) {
    this.running?.abort();
    const { signal } = (this.running = new AbortController());
    this.said.textContent = said;
    try {
      await this.connection.attempt(call, signal);
      this.root.classList.remove("stale");
    } catch (error) {
      if (!signal.aborted) this.said.textContent = error.message;
    }
  }
}

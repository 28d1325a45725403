// A language model: a continuation that appears as it is written.

import { element } from "../../shared/elements.js";
import { View } from "../view.js";

const ENDS = { end: "The text ended.", stop: "It reached a stop text.", length: "It reached the maximum number of tokens." };

export class GenerateView extends View {
  constructor(app) {
    super(app, { labels: { text: "Beginning" }, caption: "Continuation", hint: "Ctrl-Enter continues the text." });
    this.temperature = number("Temperature", { min: 0, max: 5, step: 0.1, value: 0.8 });
    this.tokens = number("Tokens, at most", { min: 1, max: 4096, step: 1, value: 100 });
    this.button = element("button", { class: "tool main", type: "button", onclick: () => (this.writing ? this.stop() : this.write()) }, "Continue");
    this.written = element("div", { class: "words", dir: "auto" });
    this.status = element("p", { class: "note" });
    this.result.append(this.written, this.status);
    this.tools.prepend(this.button, this.temperature.root, this.tokens.root);
    this.fields.root.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.write(); });
    this.writing = false;
  }

  steps() { return [[0, (signal) => this.stream(signal)]]; }

  /** Nothing is written while one types: a continuation takes long, and differs each time. */
  start() {
    this.live.stop();
    this.fields.accept();
    if (!this.fields.ready) this.clear();
    this.why.close();
    this.why.enable(false);
  }

  async write() {
    if (!this.fields.ready) return this.fields.focus();
    this.start();
    this.become(true);
    await this.live.start({ soon: true });
    this.become(false);
  }

  stop() {
    this.live.stop();
    this.status.textContent = "Stopped.";
    this.finish();
  }

  become(writing) {
    this.writing = writing;
    this.button.textContent = writing ? "Stop" : "Continue";
  }

  async stream(signal) {
    const body = { ...this.body, temperature: this.temperature.value, max_tokens: this.tokens.value };
    this.show("");
    if (this.model.streams) {
      for await (const event of this.connection.events("generate", body, signal)) {
        if (event.type === "delta") this.continuation.append(event.text);
        if (event.type === "done") this.end(event.results[0]);
      }
    } else this.end(await this.connection.result("generate", body, signal));
    this.finish();
  }

  show(text) {
    this.continuation = element("span", {}, text);
    this.written.replaceChildren(element("span", { class: "given" }, this.fields.values.text), this.continuation);
    this.status.textContent = "";
  }

  end({ text, tokens, ended }) {
    this.continuation.textContent = text;
    this.status.textContent = [ENDS[ended] ?? "", tokens === undefined ? "" : `${tokens} tokens.`].join(" ");
  }

  finish() {
    if (this.continuation?.textContent) this.settled(this.continuation.textContent);
  }

  /** The beginning and its continuation, each token given those before it. */
  explained() {
    return { body: { model: this.model.id, text: this.written.textContent }, word: null };
  }

  clear() {
    this.written.replaceChildren();
    this.status.textContent = "";
    this.continuation = null;
  }
}

/** A number with its name. */
function number(name, { value, ...limits }) {
  const id = name.split(/\W/)[0].toLowerCase();
  const input = element("input", { type: "number", id, value, inputmode: "decimal", ...limits });
  return { root: element("span", { class: "option" }, element("label", { for: id }, name), input), get value() { return Number(input.value); } };
}

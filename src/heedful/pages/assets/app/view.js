// What the views of all tasks share: fields, a result next to them, tools, and the explorer below.

import { element } from "../shared/elements.js";
import { Refusal } from "./connection.js";
import { Fields } from "./fields/fields.js";
import { Live } from "./live.js";
import { Why } from "./why.js";

export const SOON = 150, IDLE = 600; // ms after the last key

/** The view of a model; `app` has its connection, and what the page around the view needs. */
export class View {
  constructor(app, { labels, caption = "Result", hint = "" }) {
    this.app = app;
    this.connection = app.connection;
    this.model = app.model;
    this.hint = hint;
    this.fields = new Fields(this.model.roles, () => this.typed(), labels);
    const steps = this.steps().map(([wait, step]) => [wait, async (signal) => {
      await step(signal);
      this.result.classList.remove("stale");
    }]);
    this.live = new Live(this.connection, steps, (error) => this.fail(error));
    this.why = new Why(this.connection, () => this.explained());
    this.caption = element("p", { class: "caption" }, caption);
    this.result = element("div", { class: "result" });
    this.readout = element("p", { class: "readout" }, hint);
    this.tools = element("div", { class: "tools" }, this.model.explains ? this.why.tools : []);
    this.foot = element("div", { class: "foot" }, this.readout, this.tools);
    this.root = element("div", {}, element("div", { class: "panes" }, this.fields.root, element("div", { class: "field" }, this.caption, this.result)),
      this.foot, this.why.root);
  }

  /** What follows from an input: [ms after the last key, call with a signal]. */
  steps() { return []; }

  /** Show nothing, as there is no input. */
  clear() { this.result.replaceChildren(); }

  /** The input was changed: `clear` and `age` are what views do then. */
  typed() {
    this.age();
    this.start();
    this.app.changed();
  }

  /** What is shown is of an earlier input. */
  age() {
    this.why.age();
    this.result.classList.add("stale");
  }

  /** Ask about the input, now or when no more keys come. */
  start(how) {
    this.fields.accept();
    if (this.fields.ready) return this.live.start(how);
    this.live.stop();
    this.why.close();
    this.why.enable(false);
    this.say(null);
    this.clear();
  }

  /** What is shown is the answer to the input. */
  settled(spoken) {
    this.why.enable(true);
    this.app.announce(spoken);
    this.app.changed();
    return this.why.refresh();
  }

  fail(error) {
    if (!(error instanceof Refusal)) console.error(error); // a mistake of this page
    this.fields.refuse(error);
    this.why.close();
    this.why.enable(false);
  }

  /** Show the parts of a line under the texts; with null, what can be done. */
  say(parts) { this.readout.replaceChildren(...(parts ?? [this.hint])); }

  /** The input as a request has it. */
  get body() {
    return { model: this.model.id, ...this.fields.values, ...(this.app.to ? { to: this.app.to } : {}) };
  }

  /** What "Why?" explains. */
  explained() { return { body: this.body, word: null }; }

  /** What the address holds. */
  get state() { return this.fields.texts; }

  restore(state) {
    this.fields.texts = state;
    this.start({ soon: true });
  }

  remove() {
    this.live.stop();
    this.why.close();
    this.fields.remove();
    this.root.remove();
  }
}

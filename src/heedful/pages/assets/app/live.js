// What follows from a text while it is typed: step after step, each some time after the last key.

import { delay } from "./connection.js";

/** Runs steps, [ms after the last change, call], one after the other. A change aborts what still runs of an earlier one. */
export class Live {
  constructor(connection, steps, failed) {
    Object.assign(this, { connection, steps, failed });
    this.running = null;
  }

  /** Start again: what is shown is no longer asked for. With `soon`, the steps do not wait for more keys. */
  async start({ soon = false, from = 0 } = {}) {
    this.stop();
    const { signal } = (this.running = new AbortController()), began = performance.now();
    try {
      for (const [wait, step] of this.steps.slice(from)) {
        if (!soon) await delay(began + wait - performance.now(), signal);
        await this.connection.attempt(step, signal);
      }
    } catch (error) {
      if (!signal.aborted) this.failed(error);
    }
  }

  stop() {
    this.running?.abort();
  }
}

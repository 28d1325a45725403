// Requests to the server that this page came from. They wait while it is away or busy, and for a key where it wants one.

import { element } from "../shared/elements.js";
import { recall, remember } from "./memory.js";

const KEY = "heedful-key"; // in the storage of the tab
const FIRST_WAIT = 500, LONGEST_WAIT = 10_000; // ms between attempts to reach a lost server

/** What the server refuses: its message, and the field or option that it is about. */
export class Refusal extends Error {
  constructor({ message, param = null }) {
    super(message);
    this.param = param;
  }
}

/** A stream that ended before its answer was complete. */
class Lost extends Error {}

/** Wait some milliseconds, unless a signal is aborted meanwhile; `wake` is an event of the window that ends it early. */
export function delay(milliseconds, signal, wake = null) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const done = new AbortController();
    const end = (settle) => () => { clearTimeout(timer); done.abort(); settle(signal?.reason); };
    const timer = setTimeout(end(resolve), Math.max(0, milliseconds));
    signal?.addEventListener("abort", end(reject), { signal: done.signal });
    if (wake) addEventListener(wake, end(resolve), { signal: done.signal });
  });
}

/** The server. `line` is where the page says what is wrong with it. */
export class Connection {
  constructor(line) {
    this.line = line;
    this.key = recall(sessionStore, KEY);
    this.notices = new Map();
    this.recovery = this.unlocking = null;
  }

  /** Return the JSON of an answer; without a `body` by GET. */
  async json(path, body, signal) {
    const found = await (await this.request(path, body, signal)).json();
    signal?.throwIfAborted();
    return found;
  }

  /** Return the first result for one input. */
  async result(verb, body, signal) {
    return (await this.json(`v1/${verb}`, body, signal)).results[0];
  }

  /** Yield the events of a streamed answer, the last of which is `done`. */
  async *events(verb, body, signal) {
    const response = await this.request(`v1/${verb}`, { ...body, stream: true }, signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { done, value } = await reader.read().catch((error) => { throw signal?.aborted ? error : new Lost(); });
      signal?.throwIfAborted();
      if (done) throw new Lost();
      const parts = (rest + value).split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const event = JSON.parse(part.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n") || "{}");
        if (event.type === "error") throw new Refusal(event.error);
        yield event;
        if (event.type === "done") return;
      }
    }
  }

  /** Run something that makes requests; again from the start when a stream of it was cut. */
  async attempt(call, signal) {
    for (;;) {
      try {
        return await call(signal);
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
        await this.recover(signal);
      }
    }
  }

  /** Return the response to a request that succeeds in the end, or throw what the server refuses. */
  async request(path, body, signal) {
    for (;;) {
      signal?.throwIfAborted();
      const key = this.key, response = await this.send(path, body, signal);
      if (response === null) await this.recover(signal);
      else if (response.status === 401) await this.unlock(key, signal);
      else if (!response.ok && response.headers.has("Retry-After")) await this.rest(response, signal);
      else if (response.ok) return response;
      else throw new Refusal((await response.json().catch(() => ({}))).error ?? { message: `The server answered with status ${response.status}.` });
    }
  }

  /** Return a response; null where there is no server. */
  async send(path, body, signal) {
    const headers = { ...(body ? { "Content-Type": "application/json" } : {}), ...(this.key ? { Authorization: `Bearer ${this.key}` } : {}) };
    try {
      const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
      return response.status === 502 ? null : response; // a proxy whose server is away
    } catch (error) {
      if (signal?.aborted) throw error;
      return null;
    }
  }

  /** Wait until the server is back. All requests wait for one, which asks more and more rarely. */
  async recover(signal) {
    this.recovery ??= this.reach().finally(() => { this.recovery = null; });
    await unless(signal, this.recovery);
  }

  async reach() {
    this.notify("lost", "The server does not answer. Trying again until it does.");
    for (let wait = FIRST_WAIT; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
      await delay(wait, null, "online");
      if (await this.send("health/live", null, AbortSignal.timeout(LONGEST_WAIT)).catch(() => null)) break;
    }
    this.notify("lost", null);
  }

  /** Wait as long as a busy server asks for. */
  async rest(response, signal) {
    const asked = response.headers.get("Retry-After"), seconds = Math.max(1, Number(asked) || (Date.parse(asked) - Date.now()) / 1000 || 1);
    this.notify("busy", `The server is busy. The next attempt is in ${Math.ceil(seconds)} s.`);
    try {
      await delay(1000 * seconds, signal);
    } finally {
      this.notify("busy", null);
    }
  }

  /** Ask for a key, once for all requests. `sent` is the one that was refused: there may be a newer one. */
  async unlock(sent, signal) {
    if (sent !== this.key) return;
    this.unlocking ??= this.askKey().finally(() => { this.unlocking = null; });
    await unless(signal, this.unlocking);
  }

  askKey() {
    return new Promise((resolve) => {
      const input = element("input", { type: "password", id: "key", autocomplete: "off", required: true, spellcheck: "false" });
      const use = (event) => {
        event.preventDefault();
        this.key = input.value.trim();
        remember(sessionStore, KEY, this.key);
        this.notify("key", null);
        resolve();
      };
      this.notify("key", element("form", { class: "key", onsubmit: use },
        element("label", { for: "key" }, this.key ? "This key is not valid. Another key:" : "This server asks for a key:"),
        input, element("button", { class: "tool", type: "submit" }, "Use key")));
      input.focus();
    });
  }

  /** Say what the matter is, or with null that this one is over. */
  notify(kind, notice) {
    if (notice === null) this.notices.delete(kind);
    else this.notices.set(kind, notice);
    const [shown] = ["key", "lost", "busy"].filter((one) => this.notices.has(one));
    this.line.replaceChildren(...(shown ? [this.notices.get(shown)] : []));
  }
}

const sessionStore = () => sessionStorage;

/** Wait for a promise, but not longer than a signal allows. */
function unless(signal, promise) {
  if (!signal) return promise;
  return Promise.race([promise, new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }))]);
}

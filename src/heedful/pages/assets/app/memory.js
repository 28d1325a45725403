// What a browser remembers for this page, where it is allowed to: settings may forbid it.

/** Return a remembered text; `store` returns the storage, as asking for it may already fail. */
export function recall(store, name) {
  try {
    return store().getItem(name);
  } catch {
    return null;
  }
}

/** Remember a text. */
export function remember(store, name, text) {
  try {
    store().setItem(name, text);
  } catch {
    // It holds until the page is closed.
  }
}

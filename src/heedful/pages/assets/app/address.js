// The address holds what the page shows, after its #: servers never see that part.

const LONGEST = 30_000; // characters of an address; a longer text is left out
const PAUSE = 400; // ms: browsers refuse to change an address many times a second
let waiting = 0;

/** Return what the address holds, as texts by name. */
export function readAddress() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** Write texts by name into the address, soon; empty ones are left out. */
export function writeAddress(fields) {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const written = Object.entries(fields).filter(([, text]) => text !== null && text !== undefined && text !== "");
    const short = written.filter(([, text]) => String(text).length <= LONGEST);
    history.replaceState(null, "", `#${new URLSearchParams(short)}`);
  }, PAUSE);
}

// An explanation in a part of a page: its result, its drawings, its attention and its alignment.

import { onTheme } from "../shared/colours.js";
import { drawingPart } from "../shared/drawings.js";
import { element } from "../shared/elements.js";
import { alignmentPart } from "./alignment.js";
import { AttentionView } from "./attention.js";
import { documentPart } from "./document.js";
import { gatesPart } from "./gates.js";
import { captionPart } from "./image.js";
import { predictionPart } from "./predictions.js";
import { resultPart } from "./result.js";
import { statesPart } from "./states.js";
import { Attention } from "./weights.js";

/**
 * Show an explanation in an element. `update` shows another one, and `remove` takes it away; `ready` settles when what
 * was last asked for is there, and `view` is its attention. A `word` of the output is selected there, by its index.
 */
export function mountExplorer(root, item, word = null) {
  const spoken = element("div", { class: "unseen", "aria-live": "polite" });
  const away = new AbortController();
  let redrawn = [], waiting = 0;
  const redraw = () => {
    mounted.view?.draw();
    for (const again of redrawn) again();
  };

  /** Add a part that is drawn again when the theme or the width changes. */
  function addPart([part, again]) {
    root.append(part);
    redrawn.push(again);
  }

  function clear() {
    mounted.view?.tip.remove();
    mounted.view = null;
    redrawn = [];
    root.replaceChildren();
  }

  async function show(item, word) {
    clear();
    root.append(resultPart(item));
    const drawn = (parse) => root.append(...item.drawings.filter(({ name }) => (name === "parse") === parse).map(drawingPart));
    drawn(true);
    if (item.alignment) addPart(item.image ? captionPart(item) : alignmentPart(item));
    if (item.predictions.length) root.append(predictionPart(item));
    drawn(false);
    const attention = element("div");
    root.append(attention);
    if (item.states.length) addPart(statesPart(item.states, item.sequences));
    if (item.gates.length) root.append(gatesPart(item.gates));
    if (item.attentions.length) await showAttention(attention, item, word);
  }

  async function showAttention(holder, item, word) {
    item.loaded ??= item.attentions.map((one) => new Attention(one, item.sequences));
    const view = (mounted.view = new AttentionView(item.loaded, (text) => { spoken.textContent = text; }, item.image));
    holder.append(view.root);
    const first = item.loaded.findIndex((one) => one.kind === "cross");
    await view.choose({ kind: item.image && !item.predictions.length ? 0 : Math.max(0, first) });
    if (view !== mounted.view) return; // another explanation came meanwhile
    if (word !== null && view.matrix.rows[word] !== undefined) view.select(word);
    const sentences = await documentPart(item.loaded);
    if (sentences) view.root.before(sentences);
  }

  const mounted = {
    view: null,
    ready: null,
    update(item, word = null) {
      return (mounted.ready = show(item, word));
    },
    remove() {
      away.abort();
      clear();
      spoken.remove();
    },
  };
  document.body.append(spoken);
  onTheme(redraw, away.signal);
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(redraw); }, { signal: away.signal });
  mounted.update(item, word);
  return mounted;
}

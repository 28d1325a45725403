// Attention of one layer: words that show what they attend to, a heat map, and all heads of the layer.

import { cssColour, inkOn } from "../shared/colours.js";
import { choices, element, saveButton, shown, styled } from "../shared/elements.js";
import { ImageView } from "./image.js";
import { cellAt, drawHeatmap, heatmapSvg, layOut, paintPixels } from "./heatmap.js";
import { greatest, ofPieces, ofWords } from "./weights.js";

const NAMES = {
  encoder: ["Encoder", "Each token of the text, or patch of the image, reads the others."],
  question: ["Question", "Each token of the question reads the others."],
  decoder: ["Decoder", "Each token reads those before it, and itself."],
  cross: ["Source", "Each token of the output, or of a question, reads the source or the image."],
  words: ["Words", "Each sentence, or question, is a weighted sum of its words."],
  patches: ["Image", "What is seen of the image is a weighted sum of its patches."],
  pool: ["Pool", "The vector that is classified is a weighted sum of these."],
  gradient: ["Gradients", "Not attention: how much each token would change the prediction, |gradient · embedding| as shares. Compare it with the weights."],
  span: ["Answer", "Not attention: the probability that an answer starts or ends at each token; at the first token, that there is none."],
};

/** The part of the page about attention: its state, and what is drawn from it. */
export class AttentionView {
  constructor(attentions, note, image = null) {
    this.attentions = attentions;
    this.seen = image && new ImageView(image, Math.min(420, Math.max(288, image.width)), "Image");
    this.note = note; // called with a text for screen readers
    this.state = { kind: 0, layer: 0, head: "mean", unit: "words", selected: new Set(), pointed: null, cell: null };
    this.controls = element("div", { class: "controls" });
    this.from = element("ul", { class: "line", id: "queries" });
    this.to = element("ul", { class: "line", id: "keys" });
    this.fromCaption = element("p", { class: "hint" });
    this.toCaption = element("p", { class: "hint" });
    this.readout = element("p", { class: "readout", id: "readout" });
    this.canvas = element("canvas", { id: "heatmap", tabindex: 0, role: "img" });
    this.most = element("span");
    this.scale = element("i");
    this.heads = element("ul", { class: "heads", id: "heads" });
    this.explained = element("p", { class: "note" });
    const save = saveButton("attention", () => heatmapSvg(this.matrix, this.title));
    this.root = element("section", { "aria-labelledby": "attention-title" },
      element("div", { class: "head" }, element("h2", { id: "attention-title" }, "Attention"), save),
      this.explained, this.controls, this.fromCaption, this.from, this.toCaption, this.to,
      this.overlay = element("div", { class: "gallery", hidden: true }, this.seen?.root ?? "", this.seen ? saveButton("image", () => this.seen.svg()) : ""), this.readout,
      element("div", { class: "beside" },
        this.figure = element("figure", { class: "figure" }, element("div", { class: "scroll" }, this.canvas),
          element("div", { class: "legend" }, "0", this.scale, this.most)),
        this.headsPart = element("div", { class: "all-heads" }, element("p", { class: "hint" }, "Every head of this layer"), this.heads)));
    this.listen();
  }

  get attention() { return this.attentions[this.state.kind]; }

  /** What a kind of attention is called: the source of captions, and of answers about images, is an image. */
  name({ kind }) { return this.seen && kind === "cross" ? "Words and image" : NAMES[kind][0]; }

  /** What the matrix on the screen is, in words. */
  get title() {
    const { layer, head } = this.state;
    const which = head === "mean" ? "mean over heads" : head === "rollout" ? "rollout" : `head ${Number(head) + 1}`;
    if (this.attention.kind === "gradient") return "Gradient times input";
    if (this.attention.kind === "span") return "Where the answer starts and ends";
    return `${this.name(this.attention)} attention, layer ${layer + 1}, ${which}`;
  }

  /** Return a matrix of the attention in words or pieces. */
  shape(values) {
    return (this.state.unit === "words" ? ofWords : ofPieces)(values, this.attention.rows, this.attention.columns);
  }

  /** Change the state, and draw what depends on it. */
  async choose(change) {
    if ("kind" in change || "unit" in change) {
      this.state.selected.clear();
      this.state.pointed = this.state.cell = null;
    }
    if ("kind" in change) Object.assign(this.state, { layer: this.attentions[change.kind].layers - 1, head: "mean" });
    Object.assign(this.state, change);
    if (this.state.head === "rollout" && !this.attention.isSelf) this.state.head = "mean";
    if ("kind" in change && this.byPatch && this.seen.first) this.state.selected.add(0); // the class token
    await this.attention.load();
    if ("kind" in change) this.drawControls();
    this.draw("kind" in change || "unit" in change, !("head" in change));
  }

  /** Draw the matrix of the state, and where they may have changed the words and the heads of the layer. */
  draw(words = true, heads = true) {
    const { layer, head } = this.state;
    this.matrix = this.shape(this.attention.matrix(layer, head));
    words ? this.drawWords() : this.shadeKeys();
    this.drawMap();
    if (heads) this.drawHeads();
    else [...this.heads.children].forEach((item, index) => item.firstChild.setAttribute("aria-pressed", String(head) === String(index)));
    for (const input of this.controls.querySelectorAll("input")) input.checked = String(this.state[input.name]) === input.value;
  }

  drawControls() {
    const one = this.attention;
    this.explained.textContent = NAMES[one.kind][1];
    const plain = this.seen && [one.rows, one.columns].every(({ words, texts }) => words.length === texts.length);
    const numbers = (count, noun) => Array.from({ length: count }, (_, index) => [index, String(index + 1), `${noun} ${index + 1}`]);
    const heads = [["mean", "mean", "mean over heads"], ...(one.heads > 1 ? numbers(one.heads, "head") : []), ...(one.isSelf ? [["rollout", "rollout", "rollout through the layers"]] : [])];
    this.controls.replaceChildren(...[
      this.attentions.length > 1 ? choices("Kind", "kind", this.attentions.map((other, index) => [index, this.name(other)]), this.state.kind, (kind) => this.choose({ kind })) : null,
      one.layers > 1 ? choices("Layer", "layer", numbers(one.layers, "layer"), this.state.layer, (layer) => this.choose({ layer })) : null,
      heads.length > 1 ? choices("Head", "head", heads, this.state.head, (head) => this.choose({ head })) : null,
      plain ? null : choices("Show", "unit", [["words", "words"], ["pieces", "pieces"]], this.state.unit, (unit) => this.choose({ unit })),
    ].filter(Boolean));
  }

  /** The rows whose weights the words show: the one that is pointed at, or those that are selected, or all. */
  get active() {
    const { pointed, selected } = this.state;
    return pointed !== null ? [pointed] : selected.size ? [...selected].sort((a, b) => a - b) : null;
  }

  /** Whether queries are patches of the image, which are pointed at there. */
  get byPatch() { return Boolean(this.seen) && this.attention.queries === "patches"; }

  drawWords() {
    const { rows, columns } = this.matrix, named = this.byPatch ? rows.slice(0, this.seen.first) : rows;
    this.fromCaption.textContent = this.byPatch ? "From: point at a patch of the image, or select several" : "From: point at a word, or select several";
    this.to.hidden = Boolean(this.seen) && this.attention.keys === "patches";
    this.overlay.hidden = !this.to.hidden;
    this.figure.hidden = this.to.hidden && rows.length === 1; // the image shows it all
    this.fromCaption.hidden = this.from.hidden = rows.length === 1; // there is nothing to choose
    this.from.replaceChildren(...named.map((label, row) => element("li", {}, element("button", {
      type: "button", "data-query": row, "aria-pressed": this.state.selected.has(row),
      onpointerenter: () => this.point(row), onpointerleave: () => this.point(null),
      onfocus: () => this.point(row), onblur: () => this.point(null),
      onclick: () => this.select(row),
    }, label))));
    this.to.replaceChildren(...columns.map((label, column) => element("li", {}, element("span", { class: "word", "data-key": column }, label))));
    this.shadeKeys();
  }

  /** Shade keys by the weight that the active queries give them. */
  shadeKeys() {
    const { rows, columns, values } = this.matrix, active = this.active;
    const from = active ?? rows.map((_, row) => row);
    const weights = columns.map((_, column) => from.reduce((sum, row) => sum + values[row * columns.length + column], 0) / from.length);
    const most = active ? Math.max(greatest(weights), 0.2) : greatest(weights);
    [...this.to.children].forEach((item, column) => {
      const share = weights[column] / most;
      const word = styled(item.firstChild, { "--cell": share > 0.02 ? cssColour(share * 0.9) : "transparent", "--on": share > 0.02 ? inkOn(share * 0.9) : "inherit" });
      word.title = shown(weights[column]);
      word.dataset.weight = weights[column];
    });
    this.toCaption.textContent = rows.length === 1 ? "Weights" : active ? "To: their weights" : "To: mean weight over all of them";
    if (!this.overlay.hidden) this.seen.draw(weights, this.byPatch && active ? active : []);
    const ranked = weights.map((weight, column) => [weight, columns[column]]).sort((one, other) => other[0] - one[0]).filter(([weight], index) => index === 0 || weight >= 0.0005).slice(0, 4);
    const named = (label) => (this.overlay.hidden ? label : label.replace(/^(\d+),(\d+)$/, "row $1, column $2"));
    const names = active || rows.length === 1 ? from.map((row) => rows[row]).join(", ") : "On average, they";
    this.readout.replaceChildren(element("b", {}, names), ` ${(active ?? rows).length === 1 ? "reads" : "read"} `,
      ...ranked.flatMap(([weight, label], index) => [index ? " · " : "", element("b", {}, named(label)), ` ${shown(weight)}`]));
  }

  point(row) {
    if (this.state.pointed === row) return;
    this.state.pointed = row;
    this.shadeKeys();
    this.drawMap();
  }

  select(row) {
    const { selected } = this.state;
    selected.has(row) ? selected.delete(row) : selected.add(row);
    [...this.from.children].forEach((item, index) => item.firstChild.setAttribute("aria-pressed", selected.has(index)));
    this.shadeKeys();
    this.drawMap();
    this.note(this.readout.textContent);
  }

  drawMap() {
    const room = this.root.clientWidth || 960, several = this.attention.heads > 1;
    // Patches are many, and the image names them: their map is small and has no labels.
    this.layout = this.byPatch ? layOut(this.matrix, Math.min(room, 420), 24) : layOut(this.matrix, several && room > 900 ? room - 300 : room);
    drawHeatmap(this.canvas, this.matrix, this.layout, { rows: this.active, cell: this.state.cell });
    this.canvas.setAttribute("aria-label", `Heat map: ${this.title}. Arrow keys move from cell to cell.`);
    this.most.textContent = shown(this.matrix.most);
    this.scale.style.background = `linear-gradient(90deg, ${[0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => cssColour(share)).join(", ")})`;
  }

  drawHeads() {
    const one = this.attention, { layer, head } = this.state;
    this.headsPart.hidden = one.heads < 2;
    if (one.heads < 2) return this.heads.replaceChildren();
    this.heads.replaceChildren(...Array.from({ length: one.heads }, (_, index) => {
      const { values, rows, columns } = this.shape(one.matrix(layer, index));
      const canvas = element("canvas", { "aria-hidden": "true" });
      paintPixels(canvas, values, rows.length, columns.length, greatest(values));
      return element("li", {}, element("button", { type: "button", "aria-pressed": String(head) === String(index), "aria-label": `Show head ${index + 1}`, onclick: () => this.choose({ head: index }) }, `Head ${index + 1}`, canvas));
    }));
  }

  /** The cells of the heat map answer to the pointer and to the arrow keys. */
  listen() {
    const tip = this.tip = element("div", { class: "tip", role: "status", hidden: true });
    document.body.append(tip);
    const leave = () => {
      tip.hidden = true;
      this.state.cell = this.state.pointed = null;
      this.shadeKeys();
      this.drawMap();
    };
    this.canvas.addEventListener("pointermove", (event) => {
      const cell = cellAt(this.matrix, this.layout, event.offsetX, event.offsetY);
      if (!cell) return leave();
      if (cell[1] === null) {
        tip.hidden = true;
        this.state.cell = null;
        return this.point(cell[0]);
      }
      this.show(cell, event.clientX, event.clientY);
    });
    this.canvas.addEventListener("pointerleave", leave);
    this.canvas.addEventListener("click", (event) => {
      const cell = cellAt(this.matrix, this.layout, event.offsetX, event.offsetY);
      if (cell) this.select(cell[0]);
    });
    this.canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const [row, column] = this.state.cell ?? [0, -steps[event.key][1]];
      const clamp = (value, count) => Math.min(count - 1, Math.max(0, value));
      const cell = [clamp(row + steps[event.key][0], this.matrix.rows.length), clamp(column + steps[event.key][1], this.matrix.columns.length)];
      const box = this.canvas.getBoundingClientRect(), { left, top, cell: size } = this.layout;
      this.show(cell, box.left + left + (cell[1] + 0.5) * size, box.top + top + (cell[0] + 0.5) * size);
      this.note(tip.textContent);
    });
    this.canvas.addEventListener("blur", leave);
    this.seen?.canvas.addEventListener("pointermove", (event) => this.byPatch && this.point(this.seen.tokenAt(event.offsetX, event.offsetY)));
    this.seen?.canvas.addEventListener("pointerleave", () => this.point(null));
    this.seen?.canvas.addEventListener("click", (event) => this.byPatch && this.select(this.seen.tokenAt(event.offsetX, event.offsetY)));
  }

  /** Frame a cell and say its value. */
  show(cell, x, y) {
    const { rows, columns, values } = this.matrix, [row, column] = cell;
    Object.assign(this.state, { cell, pointed: row });
    this.shadeKeys();
    this.drawMap();
    this.tip.replaceChildren(element("b", {}, rows[row]), " → ", element("b", {}, columns[column]), ` ${shown(values[row * columns.length + column])}`);
    this.tip.hidden = false;
    const box = this.tip.getBoundingClientRect();
    styled(this.tip, { left: `${Math.min(x + 14, innerWidth - box.width - 8)}px`, top: `${Math.max(8, y - box.height - 12)}px` });
  }
}

// An image under a veil: the more weight a patch has, the clearer it is seen.

import { property } from "../shared/colours.js";
import { element, escaped, saveButton, shown, styled } from "../shared/elements.js";
import { greatest } from "./weights.js";

const VEIL = 0.88; // opacity over a patch without weight

/** An image whose patches are shaded by weights, and which says which patch is pointed at. */
export class ImageView {
  constructor(image, width, name) {
    this.image = image;
    this.name = name;
    this.first = image.class_token ? 1 : 0; // token of the first patch
    this.scale = width / image.width;
    this.canvas = element("canvas", { role: "img", tabindex: 0 });
    this.root = styled(element("div", { class: "image" }, element("img", { src: image.png, alt: name }), this.canvas), { width: `${width}px` });
    this.root.style.aspectRatio = `${image.width} / ${image.height}`;
    if (image.width < width) this.root.classList.add("coarse");
  }

  /** Where a patch is, in pixels of the image. */
  box(index) {
    const { patch, columns, width, height } = this.image;
    const x = (index % columns) * patch, y = Math.floor(index / columns) * patch;
    return [x, y, Math.min(patch, width - x), Math.min(patch, height - y)];
  }

  /** The token of the patch at a point of the canvas; null outside. */
  tokenAt(x, y) {
    const { patch, columns, rows } = this.image, size = patch * this.scale;
    const column = Math.floor(x / size), row = Math.floor(y / size);
    return column < 0 || row < 0 || column >= columns || row >= rows ? null : row * columns + column + this.first;
  }

  /** Veil the patches by the weights of all tokens; `marked` tokens are framed. */
  draw(weights, marked = []) {
    this.weights = Float32Array.from(weights).slice(this.first);
    const ratio = window.devicePixelRatio || 1, { width, height } = this.image, scale = this.scale;
    this.canvas.width = Math.round(width * scale * ratio);
    this.canvas.height = Math.round(height * scale * ratio);
    const context = this.canvas.getContext("2d"), most = greatest(this.weights);
    const onScreen = (index) => { // whole pixels: between two patches there is neither a gap nor an overlap
      const [x, y, wide, high] = this.box(index), [left, top, right, bottom] = [x, y, x + wide, y + high].map((edge) => Math.round(edge * scale * ratio));
      return [left, top, right - left, bottom - top];
    };
    context.fillStyle = property("--paper");
    this.weights.forEach((weight, index) => {
      context.globalAlpha = VEIL * (1 - weight / most);
      context.fillRect(...onScreen(index));
    });
    context.globalAlpha = 1;
    context.lineWidth = 2 * ratio;
    context.strokeStyle = property("--doubt");
    for (const token of marked) if (token >= this.first) context.strokeRect(...onScreen(token - this.first));
    this.canvas.setAttribute("aria-label", `${this.name}: clear patches have most weight, at most ${shown(most)}.`);
  }

  /** The image and its veil as SVG. */
  svg() {
    const { width, height, png } = this.image, scale = this.scale, most = greatest(this.weights);
    const veil = [...this.weights].map((weight, index) => {
      const [x, y, wide, high] = this.box(index);
      return `<rect x="${x}" y="${y}" width="${wide}" height="${high}" fill-opacity="${(VEIL * (1 - weight / most)).toFixed(3)}"><title>${shown(weight)}</title></rect>`;
    });
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width * scale}" height="${height * scale}" viewBox="0 0 ${width} ${height}" role="img"><title>${escaped(this.name)}</title><image href="${png}" width="${width}" height="${height}" style="image-rendering:pixelated"/><g fill="#fcfcfb">${veil.join("")}</g></svg>`;
  }
}

/** Make the part of the page that shows what each word of a description looked at. */
export function captionPart(item) {
  const { output } = item.sequences, views = [];
  const figures = output.texts.map((word, index) => [word, index]).filter(([word]) => word !== "</s>").map(([word, index]) => {
    const rows = output.words.flatMap((of, row) => (of === index ? [row] : []));
    const weights = item.alignment[0].map((_, key) => rows.reduce((sum, row) => sum + item.alignment[row][key], 0) / rows.length);
    const view = new ImageView(item.image, 148, word);
    views.push([view, weights]);
    view.draw(weights);
    return element("figure", { class: "looked" }, view.root, element("figcaption", {}, element("span", {}, word), saveButton(`looked-at-${word}`, () => view.svg())));
  });
  const part = element("section", { "aria-labelledby": "looked-title" },
    element("div", { class: "head" }, element("h2", { id: "looked-title" }, "What each word looked at")),
    element("p", { class: "note" }, "Clear patches had most weight while the word was written (Xu et al. 2015, figure 3)."),
    element("div", { class: "gallery", id: "looked" }, figures));
  return [part, () => views.forEach(([view, weights]) => view.draw(weights))];
}

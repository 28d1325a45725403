// Links between two columns of words: the stronger the weight, the stronger the line.

import { escaped, shown } from "../shared/elements.js";

const ROW = 27;
const GAP = 150;
const FONT = 15;
const LEAST = 0.04; // weight of a link that is drawn
const FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif";

/** Return an SVG of links from the columns (left) to the rows (right) of a matrix; `hard` are [row, column] pairs. */
export function linksSvg(matrix, hard, title, standalone = false) {
  const { rows, columns, values } = matrix;
  const measured = document.createElement("canvas").getContext("2d");
  measured.font = `${FONT}px ${FAMILY}`;
  const wide = (labels) => Math.ceil(Math.max(...labels.map((label) => measured.measureText(label).width)));
  const left = wide(columns) + 12, right = left + GAP, width = right + wide(rows) + 12;
  const count = Math.max(rows.length, columns.length), height = count * ROW + 12;
  const place = (index, of) => 6 + (count - of) * ROW / 2 + (index + 0.5) * ROW;
  const strongest = new Set(hard.map(([row, column]) => `${row} ${column}`));
  const parts = [];
  rows.forEach((to, row) => columns.forEach((from, column) => {
    const weight = values[row * columns.length + column], bold = strongest.has(`${row} ${column}`);
    if (weight < LEAST && !bold) return;
    const y1 = place(column, columns.length), y2 = place(row, rows.length), bend = GAP * 0.45;
    const opacity = Math.max(bold ? 0.35 : 0.06, Math.min(1, weight)).toFixed(3);
    parts.push(`<path class="link" data-row="${row}" data-column="${column}" d="M${left + 4} ${y1}C${left + bend} ${y1} ${right - bend} ${y2} ${right - 4} ${y2}" fill="none" stroke="${standalone ? "#3a56c5" : "currentColor"}" stroke-opacity="${opacity}" stroke-width="${bold ? 2.5 : 1.25}"><title>${escaped(from)} – ${escaped(to)}: ${shown(weight)}</title></path>`);
  }));
  columns.forEach((label, column) => parts.push(node(label, "column", column, left - 4, place(column, columns.length), "end")));
  rows.forEach((label, row) => parts.push(node(label, "row", row, right + 4, place(row, rows.length), "start")));
  const outer = standalone ? ` fill="#1d2433"` : ` class="links"`;
  const ground = standalone ? `<rect width="100%" height="100%" fill="#fcfcfb"/>` : "";
  return `<svg xmlns="http://www.w3.org/2000/svg"${outer} width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FAMILY}" font-size="${FONT}" role="img" aria-label="${escaped(title)}">${ground}${parts.join("")}</svg>`;
}

function node(label, side, index, x, y, anchor) {
  return `<g class="node" data-${side}="${index}"><text class="word" x="${x}" y="${y}" text-anchor="${anchor}" dominant-baseline="central">${escaped(label)}</text></g>`;
}

/** Let a word that is pointed at show its own links alone. */
export function liven(holder) {
  const links = [...holder.querySelectorAll("path.link")];
  for (const link of links) link.dataset.opacity = link.getAttribute("stroke-opacity");
  for (const one of holder.querySelectorAll("g.node")) {
    const [side, index] = one.dataset.row === undefined ? ["column", one.dataset.column] : ["row", one.dataset.row];
    one.addEventListener("pointerenter", () => links.forEach((link) => link.setAttribute("stroke-opacity", link.dataset[side] === index ? Math.max(0.25, link.dataset.opacity) : 0.03)));
    one.addEventListener("pointerleave", () => links.forEach((link) => link.setAttribute("stroke-opacity", link.dataset.opacity)));
  }
}

// Heat maps: drawn on a canvas, and written as SVG.

import { colourOf, cssColour, isDark, property } from "../shared/colours.js";
import { escaped, shortened } from "../shared/elements.js";
import { greatest } from "./weights.js";

const FONT = 13;
const FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif";
const LONGEST = 18; // letters of a label

/** Paint a matrix into a canvas, one pixel per weight; the style of the canvas scales it. */
export function paintPixels(canvas, values, height, width, most) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height), dark = isDark();
  const table = Array.from({ length: 256 }, (_, step) => colourOf(step / 255, dark));
  const packed = Uint32Array.from(table, ([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red);
  const pixels = new Uint32Array(image.data.buffer), scale = 255 / most;
  for (let place = 0; place < values.length; place++) {
    pixels[place] = packed[Math.min(255, Math.max(0, Math.round(values[place] * scale)))];
  }
  context.putImageData(image, 0, 0);
}

/** Return the pixels of a matrix, painted once for each theme. */
function pixelsOf(matrix) {
  const theme = isDark() ? "dark" : "light";
  if (matrix.painted !== theme) {
    matrix.pixels = document.createElement("canvas");
    matrix.most = greatest(matrix.values);
    paintPixels(matrix.pixels, matrix.values, matrix.rows.length, matrix.columns.length, matrix.most);
    matrix.painted = theme;
  }
  return matrix.pixels;
}

/** Say where the cells and the labels of a matrix are within a width; more than `most` rows or columns have no labels. */
export function layOut(matrix, room, most = 80) {
  const { rows, columns } = matrix;
  const measured = document.createElement("canvas").getContext("2d");
  measured.font = `${FONT}px ${FAMILY}`;
  const longest = (labels) => Math.max(...labels.map((label) => measured.measureText(shortened(label, LONGEST)).width));
  const named = Math.max(rows.length, columns.length) <= most;
  const left = named ? Math.ceil(longest(rows)) + 10 : 0;
  const top = named ? Math.ceil(longest(columns) * 0.82) + 18 : 0;
  const slant = named ? Math.ceil(longest([columns.at(-1) ?? ""]) * 0.57) + 6 : 0; // the last label leans over the edge
  const fit = (room - left - slant) / columns.length;
  const cell = named ? Math.min(34, Math.max(15, fit)) : Math.max(1, Math.min(12, fit));
  const width = left + cell * columns.length + slant, height = top + cell * rows.length + 1;
  return { cell, left, top, width, height, named };
}

/** Draw a matrix with its labels, and a frame around selected rows or a cell. */
export function drawHeatmap(canvas, matrix, layout, marks = {}) {
  const { cell, left, top, width, height, named } = layout;
  const ratio = window.devicePixelRatio || 1, context = canvas.getContext("2d");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.scale(ratio, ratio);
  const { rows, columns } = matrix;
  context.imageSmoothingEnabled = false;
  context.drawImage(pixelsOf(matrix), left, top, cell * columns.length, cell * rows.length);
  context.lineWidth = 1;
  context.strokeStyle = property("--rule");
  if (named) {
    context.beginPath();
    for (let row = 0; row <= rows.length; row++) line(context, left, top + row * cell, left + columns.length * cell, top + row * cell);
    for (let column = 0; column <= columns.length; column++) line(context, left + column * cell, top, left + column * cell, top + rows.length * cell);
    context.stroke();
    drawLabels(context, matrix, layout, marks);
  } else {
    context.strokeRect(left, top, columns.length * cell, rows.length * cell);
  }
  for (const [row, column] of marks.dots ?? []) {
    context.beginPath();
    context.arc(left + (column + 0.5) * cell, top + (row + 0.5) * cell, Math.max(2, cell * 0.13), 0, 7);
    context.fillStyle = property("--doubt");
    context.fill();
  }
  context.lineWidth = 2;
  context.strokeStyle = property("--accent");
  for (const row of marks.rows ?? []) context.strokeRect(left, top + row * cell, columns.length * cell, cell);
  if (marks.cell) context.strokeRect(left + marks.cell[1] * cell, top + marks.cell[0] * cell, cell, cell);
}

function line(context, fromX, fromY, toX, toY) {
  context.moveTo(Math.round(fromX) + 0.5, Math.round(fromY) + 0.5);
  context.lineTo(Math.round(toX) + 0.5, Math.round(toY) + 0.5);
}

function drawLabels(context, { rows, columns }, { cell, left, top }, marks) {
  const ink = property("--ink"), soft = property("--soft");
  const chosen = new Set(marks.rows ?? []);
  context.font = `${FONT}px ${FAMILY}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  rows.forEach((label, row) => {
    context.fillStyle = chosen.has(row) || marks.cell?.[0] === row ? ink : soft;
    context.fillText(shortened(label, LONGEST), left - 7, top + (row + 0.5) * cell);
  });
  context.textAlign = "left";
  columns.forEach((label, column) => {
    context.save();
    context.translate(left + (column + 0.5) * cell, top - 8);
    context.rotate(-0.96);
    context.fillStyle = marks.cell?.[1] === column ? ink : soft;
    context.fillText(shortened(label, LONGEST), 0, 0);
    context.restore();
  });
}

/** Return the row and the column at a point of a heat map; null outside. */
export function cellAt(matrix, { cell, left, top }, x, y) {
  const row = Math.floor((y - top) / cell), column = Math.floor((x - left) / cell);
  const inside = row >= 0 && row < matrix.rows.length && column < matrix.columns.length && column >= -1;
  return inside && x >= 0 ? [row, column < 0 ? null : column] : null;
}

/** Return a matrix as an SVG of its own. */
export function heatmapSvg(matrix, title, dots = []) {
  const layout = { ...layOut({ ...matrix, rows: matrix.rows, columns: matrix.columns }, 900) };
  const { cell, left, top, width, height, named } = layout;
  const most = greatest(matrix.values), parts = [];
  const count = matrix.columns.length;
  for (let row = 0; row < matrix.rows.length; row++) {
    for (let column = 0; column < count; column++) {
      const value = matrix.values[row * count + column];
      if (value / most < 0.004) continue;
      parts.push(`<rect x="${round(left + column * cell)}" y="${round(top + row * cell)}" width="${round(cell)}" height="${round(cell)}" fill="${cssColour(value / most, false)}"><title>${escaped(matrix.rows[row])} → ${escaped(matrix.columns[column])}: ${value.toFixed(4)}</title></rect>`);
    }
  }
  parts.push(`<rect x="${left}" y="${top}" width="${round(count * cell)}" height="${round(matrix.rows.length * cell)}" fill="none" stroke="#d0d5dd"/>`);
  if (named) {
    matrix.rows.forEach((label, row) => parts.push(`<text x="${left - 7}" y="${round(top + (row + 0.5) * cell)}" text-anchor="end" dominant-baseline="central">${escaped(label)}</text>`));
    matrix.columns.forEach((label, column) => parts.push(`<text transform="translate(${round(left + (column + 0.5) * cell)} ${top - 8}) rotate(-55)" dominant-baseline="central">${escaped(label)}</text>`));
  }
  for (const [row, column] of dots) parts.push(`<circle cx="${round(left + (column + 0.5) * cell)}" cy="${round(top + (row + 0.5) * cell)}" r="${round(Math.max(2, cell * 0.13))}" fill="#c2640c"/>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(width)}" height="${Math.ceil(height)}" viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}" font-family="${FAMILY}" font-size="${FONT}" fill="#1d2433" role="img"><title>${escaped(title)}</title><rect width="100%" height="100%" fill="#fcfcfb"/>${parts.join("")}</svg>`;
}

function round(number) {
  return Math.round(number * 100) / 100;
}

// Weights: unpacked when they are first needed, and what is computed from them.

/** Inflate bytes that were written as base64. */
async function inflate(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = letters.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return await new Response(stream).arrayBuffer();
}

/** The weights of one kind of attention: layer x head x query x key. */
export class Attention {
  constructor(described, sequences) {
    Object.assign(this, described);
    this.rows = sequences[described.queries];
    this.columns = sequences[described.keys];
    [this.layers, this.heads, this.height, this.width] = described.shape;
    this.isSelf = described.queries === described.keys;
    this.values = null;
    this.rolled = null;
  }

  /** Unpack the weights, once. */
  async load() {
    if (this.values) return;
    const buffer = await inflate(this.packed);
    this.packed = null;
    const codes = this.bits === 16 ? new Uint16Array(buffer) : new Uint8Array(buffer);
    const [low, high] = this.range, last = 2 ** this.bits - 1;
    const values = Float32Array.from({ length: last + 1 }, (_, code) => low + (high - low) * (code / last) ** (this.bits === 16 ? 1 : 2));
    const found = new Float32Array(codes.length);
    for (let place = 0; place < codes.length; place++) found[place] = values[codes[place]];
    this.values = found;
  }

  /** Return the weights of one head, or the mean over heads, or their rollout: query x key. */
  matrix(layer, head) {
    const size = this.height * this.width;
    if (head === "rollout") return this.rollout()[layer];
    if (head !== "mean") {
      const start = (layer * this.heads + Number(head)) * size;
      return this.values.subarray(start, start + size);
    }
    const mean = new Float32Array(size);
    for (let one = 0; one < this.heads; one++) {
      const start = (layer * this.heads + one) * size;
      for (let place = 0; place < size; place++) mean[place] += this.values[start + place] / this.heads;
    }
    return mean;
  }

  /** R_l = normalised((A_l + I) / 2) R_(l-1), A_l the mean over heads      Abnar and Zuidema 2020, 3 */
  rollout() {
    if (this.rolled) return this.rolled;
    const count = this.width;
    let last = new Float32Array(count * count);
    for (let one = 0; one < count; one++) last[one * count + one] = 1;
    this.rolled = [];
    for (let layer = 0; layer < this.layers; layer++) {
      const mean = this.matrix(layer, "mean");
      const next = new Float32Array(count * count);
      for (let row = 0; row < count; row++) {
        let sum = 0;
        for (let key = 0; key < count; key++) sum += mean[row * count + key];
        for (let key = 0; key < count; key++) {
          const share = (mean[row * count + key] + (key === row ? 1 : 0)) / (sum + 1);
          if (share < 1e-7) continue;
          for (let column = 0; column < count; column++) {
            next[row * count + column] += share * last[key * count + column];
          }
        }
      }
      this.rolled.push(next);
      last = next;
    }
    return this.rolled;
  }
}

/** Return a matrix of pieces with its labels. */
export function ofPieces(values, rows, columns) {
  return { values, rows: rows.pieces, columns: columns.pieces };
}

/** Return a matrix of words: the sum over the pieces of a key, the mean over the pieces of a query. */
export function ofWords(values, rows, columns) {
  const height = rows.texts.length, width = columns.texts.length;
  if (height === rows.words.length && width === columns.words.length) return { values, rows: rows.texts, columns: columns.texts };
  const found = new Float32Array(height * width), counts = new Array(height).fill(0);
  for (const word of rows.words) counts[word]++;
  for (let row = 0; row < rows.words.length; row++) {
    for (let column = 0; column < columns.words.length; column++) {
      found[rows.words[row] * width + columns.words[column]] +=
        values[row * columns.words.length + column] / counts[rows.words[row]];
    }
  }
  return { values: found, rows: rows.texts, columns: columns.texts };
}

/** Return the greatest value, at least a little above 0. */
export function greatest(values) {
  let most = 1e-6;
  for (const value of values) if (value > most) most = value;
  return most;
}

// The Vision Transformer in plain JavaScript: reads the course's .safetensors files, computes what PyTorch computes.
// T tokens, N patches, D width, h heads, d = D/h, L blocks, K classes. Matrices are flat arrays, row after row.

/** Fetch a file of weights and build its engine; `loaded(bytes, total)` is called while it arrives. */
export async function fetchEngine(address, loaded = () => {}) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status} ${answer.statusText}`);
  const total = Number(answer.headers.get("content-length")), reader = answer.body.getReader(), parts = [];
  let bytes = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    loaded((bytes += part.value.length), total);
  }
  return createEngine(await new Blob(parts).arrayBuffer());
}

/** Build an engine from the bytes of a .safetensors file: `info` describes the model, `run` answers. */
export function createEngine(file) {
  const { about, weights: w } = readWeights(file);
  const [D, C, P] = w["patch_embed.proj.weight"].shape, [H, W] = about.img_size, columns = W / P, N = (H / P) * columns;
  const L = Object.keys(w).filter((name) => name.endsWith(".norm1.weight")).length;
  const h = about.num_heads, d = D / h, T = N + 1, K = about.classes.length;
  const layer = (name) => [w[`${name}.weight`], w[`${name}.bias`]];
  const info = { name: about.name, classes: about.classes, size: [H, W], grid: [H / P, columns], patch: P, prefix: 1, depth: L, heads: h,
    width: D, accuracy: about.test_accuracy, can: { attention: true, layers: true, hide: true, positions: true, heads: true, detail: true } };

  /** Answer one picture. Hidden patches are left out of the sequence, which is what a mask in the softmax does.
   *  pixels: (H, W, 3) bytes; keep: (N) 1 or 0; positions: 1 or 0; heads: (L, h) 1 or 0; detail: also q, k, v. */
  function run({ pixels, keep, positions, heads, detail = false }) {
    const kept = [0, ...Array.from(keep.keys()).filter((n) => keep[n]).map((n) => n + 1)], t = kept.length;
    // step 1: cut into patches
    const patches = new Float32Array(N * C * P * P);
    for (let n = 0, at = 0; n < N; n++) for (let c = 0; c < C; c++) for (let y = 0; y < P; y++) for (let x = 0; x < P; x++) {
      const row = Math.floor(n / columns) * P + y, column = (n % columns) * P + x;
      patches[at++] = (pixels[(row * W + column) * 3 + c] / 255 - about.mean[c]) / about.std[c];
    }
    // step 2: each patch times E
    const embedded = linear(patches, N, ...layer("patch_embed.proj"), D);
    // step 3: CLS in front, plus positions
    const placed = new Float32Array(T * D);
    placed.set(w.cls_token);
    placed.set(embedded, D);
    for (let i = 0; i < T * D; i++) placed[i] += positions * w.pos_embed[i];
    // end
    let z = gather(placed, kept, D);
    const tokens = [z], middles = [], qkvs = [], attention = new Float32Array(L * h * T * T);
    for (let l = 0; l < L; l++) {
      const block = `blocks.${l}`;
      // step 4: queries, keys and values, one row of weights for each query
      const qkv = linear(norm(z, ...layer(`${block}.norm1`)), t, ...layer(`${block}.attn.qkv`), 3 * D);
      const merged = new Float32Array(t * D);
      for (let head = 0; head < h; head++) {
        const [q, k, v] = [0, 1, 2].map((part) => slice(qkv, t, 3 * D, part * D + head * d, d));
        const weights = softmax(linear(q, t, k, null, t), t, d ** -0.5);
        const found = linear(weights, t, transposed(v, t, d), null, d);
        // step 5: heads side by side
        for (let i = 0; i < t; i++) for (let j = 0; j < d; j++) merged[i * D + head * d + j] = heads[l * h + head] * found[i * d + j];
        // end
        scatter(weights, attention, (l * h + head) * T * T, kept, T);
      }
      // step 6: the residual stream, attention and MLP are added to it
      z = sum(z, linear(merged, t, ...layer(`${block}.attn.proj`), D));
      middles.push(z);
      const hidden = linear(norm(z, ...layer(`${block}.norm2`)), t, ...layer(`${block}.mlp.fc1`), w[`${block}.mlp.fc1.bias`].length);
      z = sum(z, linear(hidden.map(gelu), t, ...layer(`${block}.mlp.fc2`), D));
      // end
      tokens.push(z);
      qkvs.push(qkv);
    }
    // step 7: the head reads the CLS token
    const classify = (z) => linear(norm(z.subarray(0, D), ...layer("norm")), 1, ...layer("head"), K);
    const logits = classify(z);
    // end
    const answer = { logits, attention, layers: joined(tokens.map(classify)) };
    if (detail) {
      const whole = (list, width) => joined(list.map((x) => spread(x, kept, T, width)));
      Object.assign(answer, { embedded, placed, tokens: whole(tokens, D), middles: whole(middles, D), qkv: whole(qkvs, 3 * D) });
    }
    return answer;
  }
  return { info, run };
}

/** Read a .safetensors file: what is to be known of the model, and its arrays with their shapes. */
export function readWeights(file) {
  const size = Number(new DataView(file).getBigUint64(0, true));
  const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, size)));
  const weights = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(entries)) {
    const bytes = file.slice(8 + size + from, 8 + size + to);
    weights[name] = dtype === "F16" ? halves(new Uint16Array(bytes)) : new Float32Array(bytes);
    weights[name].shape = shape;
  }
  return { about: JSON.parse(metadata.about), weights };
}

/** y = x Wᵀ + b; x (rows, n), W (m, n), y (rows, m). Four rows meet four columns at once: 16 sums stay in registers. */
function linear(x, rows, W, b, m) {
  const n = W.length / m, y = new Float32Array(rows * m), sums = new Float32Array(16);
  for (let i = 0; i < rows; i += 4) {
    const [i0, i1, i2, i3] = [0, 1, 2, 3].map((k) => Math.min(i + k, rows - 1) * n);
    for (let j = 0; j < m; j += 4) {
      const j0 = j * n, j1 = Math.min(j + 1, m - 1) * n, j2 = Math.min(j + 2, m - 1) * n, j3 = Math.min(j + 3, m - 1) * n;
      let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0, c0 = 0, c1 = 0, c2 = 0, c3 = 0, d0 = 0, d1 = 0, d2 = 0, d3 = 0;
      for (let v = 0; v < n; v++) {
        const x0 = x[i0 + v], x1 = x[i1 + v], x2 = x[i2 + v], x3 = x[i3 + v], w0 = W[j0 + v], w1 = W[j1 + v], w2 = W[j2 + v], w3 = W[j3 + v];
        a0 += x0 * w0; a1 += x0 * w1; a2 += x0 * w2; a3 += x0 * w3;
        b0 += x1 * w0; b1 += x1 * w1; b2 += x1 * w2; b3 += x1 * w3;
        c0 += x2 * w0; c1 += x2 * w1; c2 += x2 * w2; c3 += x2 * w3;
        d0 += x3 * w0; d1 += x3 * w1; d2 += x3 * w2; d3 += x3 * w3;
      }
      sums.set([a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3]);
      for (let r = 0; r < 4 && i + r < rows; r++) for (let c = 0; c < 4 && j + c < m; c++)
        y[(i + r) * m + j + c] = sums[4 * r + c] + (b ? b[j + c] : 0);
    }
  }
  return y;
}

/** The rows of weights: softmax of scale · scores, in place; scores (rows, columns). */
function softmax(scores, rows, scale) {
  const columns = scores.length / rows;
  for (let i = 0; i < rows; i++) {
    const row = scores.subarray(i * columns, (i + 1) * columns);
    let most = -Infinity, total = 0;
    for (let j = 0; j < columns; j++) most = Math.max(most, row[j] * scale);
    for (let j = 0; j < columns; j++) total += row[j] = Math.exp(row[j] * scale - most);
    for (let j = 0; j < columns; j++) row[j] /= total;
  }
  return scores;
}

/** Layer norm of each row. */
function norm(x, weight, bias) {
  const D = weight.length, y = new Float32Array(x.length);
  for (let at = 0; at < x.length; at += D) {
    let mean = 0, variance = 0;
    for (let i = 0; i < D; i++) mean += x[at + i] / D;
    for (let i = 0; i < D; i++) variance += (x[at + i] - mean) ** 2 / D;
    const scale = 1 / Math.sqrt(variance + 1e-6);
    for (let i = 0; i < D; i++) y[at + i] = (x[at + i] - mean) * scale * weight[i] + bias[i];
  }
  return y;
}

/** The exact GELU; erf by Abramowitz and Stegun, 7.1.26, whose error is below 1.5e-7. */
function gelu(x) {
  const u = Math.abs(x) * Math.SQRT1_2, t = 1 / (1 + 0.3275911 * u);
  const tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-u * u);
  return x > 0 ? x * (1 - tail / 2) : (x * tail) / 2;
}

const sum = (a, b) => a.map((value, i) => value + b[i]);

/** Columns `from` to `from + count` of a matrix. */
function slice(x, rows, width, from, count) {
  const y = new Float32Array(rows * count);
  for (let i = 0; i < rows; i++) y.set(x.subarray(i * width + from, i * width + from + count), i * count);
  return y;
}

function transposed(x, rows, columns) {
  const y = new Float32Array(x.length);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) y[j * rows + i] = x[i * columns + j];
  return y;
}

/** Some rows of a matrix, and the inverse: rows back in their places among zeros. */
function gather(x, rows, width) {
  const y = new Float32Array(rows.length * width);
  rows.forEach((row, i) => y.set(x.subarray(row * width, (row + 1) * width), i * width));
  return y;
}
function spread(x, rows, count, width) {
  const y = new Float32Array(count * width);
  rows.forEach((row, i) => y.set(x.subarray(i * width, (i + 1) * width), row * width));
  return y;
}

/** Weights among the kept tokens into a table of all tokens. */
function scatter(weights, table, start, kept, T) {
  const t = kept.length;
  for (let i = 0; i < t; i++) for (let j = 0; j < t; j++) table[start + kept[i] * T + kept[j]] = weights[i * t + j];
}

function joined(arrays) {
  const all = new Float32Array(arrays.length * arrays[0].length);
  arrays.forEach((array, i) => all.set(array, i * array.length));
  return all;
}

/** Numbers in half precision, from their bits. */
function halves(bits) {
  return Float32Array.from(bits, (v) => {
    const sign = v & 0x8000 ? -1 : 1, exponent = (v >> 10) & 31, fraction = v & 1023;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
  });
}

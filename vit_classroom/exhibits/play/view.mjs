// The view of "See it think", for two hosts: the web book calls `start(element, host)`, JupyterLab `default.render`.
// It is one file without imports, because a notebook gets it as one text. Everything it draws is in a shadow root.
//
// host: { engine(kind, loaded) -> Promise<engine>, sizes: {photo: bytes}, samples: [{name, pixels, kind}], draws, lessons, source, address }
// engine: { info, run({pixels, keep, positions, heads, detail}) -> {logits, layers?, attention?, ...}, first? }

// -- numbers

const range = (n) => Array.from({ length: n }, (_, i) => i);
const percent = (x, digits = 0) => `${(100 * x).toFixed(digits)}\u00a0%`;
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const lengthOf = (x) => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));
const row = (x, i, width) => x.subarray(i * width, (i + 1) * width);

function softmax(logits) {
  const most = Math.max(...logits), powers = Array.from(logits, (x) => Math.exp(x - most)), sum = powers.reduce((a, b) => a + b);
  return powers.map((x) => x / sum);
}

/** The mean of the heads of every layer, (L, T, T), computed once for each answer. */
const means = new WeakMap();
function meansOf(attention, h, T) {
  if (means.has(attention)) return means.get(attention);
  const size = T * T, made = new Float32Array(attention.length / h);
  for (let i = 0; i < attention.length; i++) made[Math.floor(i / (h * size)) * size + (i % size)] += attention[i] / h;
  means.set(attention, made);
  return made;
}

/** Where one token looks: weights (T) of a head, the mean of the heads, or rollout through the layers up to this one. */
function weightsOf(attention, info, { query, layer, head }) {
  const T = info.prefix + info.grid[0] * info.grid[1], h = info.heads;
  if (head !== "mean" && head !== "rollout") return row(attention, ((layer - 1) * h + head) * T + query, T);
  const mean = meansOf(attention, h, T);
  if (head === "mean") return row(mean, (layer - 1) * T + query, T);
  let from = new Float32Array(T);
  from[query] = 1;
  for (let l = layer - 1; l >= 0; l--) {
    const below = from.map((x) => x / 2);
    for (let t = 0; t < T; t++) for (let s = 0, at = (l * T + t) * T; from[t] && s < T; s++) below[s] += 0.5 * from[t] * mean[at + s];
    from = below;
  }
  return from;
}

/** How far the patches of a head look on average, in patches: weight times distance, summed over the keys. */
function meanDistance(attention, info, layer, head) {
  const [rows, columns] = info.grid, N = rows * columns, T = info.prefix + N, start = ((layer - 1) * info.heads + head) * T * T;
  let total = 0, queries = 0;
  for (let n = 0; n < N; n++) {
    const at = start + (info.prefix + n) * T + info.prefix;
    let sum = 0, any = 0;
    for (let m = 0; m < N; m++) {
      const down = Math.floor(n / columns) - Math.floor(m / columns), right = (n % columns) - (m % columns), weight = attention[at + m];
      any += weight;
      sum += weight * Math.sqrt(down * down + right * right);
    }
    if (any) { total += sum; queries++; }
  }
  return total / Math.max(1, queries);
}

/** A permutation of n things that a seed gives; seed 0 leaves them in order. */
function shuffled(n, seed) {
  const order = range(n);
  let state = seed;
  for (let i = n - 1; seed && i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

// -- drawings: strokes in pixels of the image, so that any size of screen draws the same

const INKS = { cream: [0.85, 0.96, 0.81], lemon: [0.98, 0.9, 0.5], rose: [1, 0.72, 0.78], sky: [0.62, 0.86, 1] };
const PAPER = [0.14, 0.36, 0.44]; // every ink is lighter than the paper in all three colours, as in the training
const PEN = 4.8 / 32; // of the image's side: as thick as the bars of the crosses that the model was trained on
const FITS = { solid: [8.1 / 32, 9.2 / 32], line: [8.6 / 32, 9.6 / 32] }; // radius of a drawing, of the image's side: that of the training shapes
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const colour = (ink) => `rgb(${ink.map((x) => Math.round(255 * x)).join(" ")})`;
const distance = ([a, b], [c, d]) => Math.hypot(a - c, b - d);

/** Keep the points of a line that it bends at (Ramer, Douglas and Peucker). */
function simplified(points, tolerance) {
  if (points.length < 3) return points;
  const first = points[0], last = points.at(-1), length = distance(first, last) || 1e-9;
  let far = 0, most = 0;
  points.forEach((p, i) => {
    const off = length < tolerance ? distance(p, first)
      : Math.abs((last[0] - first[0]) * (first[1] - p[1]) - (first[0] - p[0]) * (last[1] - first[1])) / length;
    if (off > most) [far, most] = [i, off];
  });
  if (most < tolerance) return [first, last];
  return [...simplified(points.slice(0, far + 1), tolerance), ...simplified(points.slice(far), tolerance).slice(1)];
}

/** Is a stroke meant as the outline of an area? It is closed, or bends once, as the head of an arrow does. */
function enclosesArea(points) {
  let area = 0, length = 0, turn = 0;
  points.forEach((p, i) => {
    const next = points[(i + 1) % points.length], after = points[(i + 2) % points.length];
    area += (p[0] * next[1] - next[0] * p[1]) / 2;
    if (i < points.length - 1) length += distance(p, next);
    if (i < points.length - 2) {
      const angle = Math.atan2(after[1] - next[1], after[0] - next[0]) - Math.atan2(next[1] - p[1], next[0] - p[0]);
      turn += Math.atan2(Math.sin(angle), Math.cos(angle));
    }
  });
  const [xs, ys] = [0, 1].map((axis) => points.map((p) => p[axis])), span = Math.hypot(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys));
  const closed = points.length > 3 && distance(points[0], points.at(-1)) < 0.3 * span;
  const bent = Math.abs(area) > 0.04 * length ** 2 && Math.abs(turn) < (170 * Math.PI) / 180;
  return { closed, area: closed || bent };
}

/** Paint strokes on a canvas whose side is `side` of its own pixels. */
function paintStrokes(pen, strokes, side) {
  pen.fillStyle = colour(PAPER);
  pen.fillRect(0, 0, side, side);
  for (const { points, ink, how } of strokes) {
    pen.beginPath();
    points.forEach(([x, y]) => pen.lineTo(x * side, y * side));
    if (points.length === 1) pen.lineTo(points[0][0] * side + 0.01, points[0][1] * side);
    if (how !== "line") pen.closePath();
    Object.assign(pen, { lineWidth: PEN * side, lineCap: "round", lineJoin: "round", strokeStyle: colour(INKS[ink]), fillStyle: how === "hole" ? colour(PAPER) : colour(INKS[ink]) });
    if (how === "line" || how === "loop") pen.stroke(); else pen.fill();
  }
}

/** Strokes as the model gets them: bytes (side, side, 3), each the mean of 8 by 8 finer pixels. */
function rasterised(strokes, side) {
  const fine = 8, canvas = Object.assign(document.createElement("canvas"), { width: side * fine, height: side * fine });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  paintStrokes(pen, strokes, side * fine);
  const data = pen.getImageData(0, 0, side * fine, side * fine).data, pixels = new Uint8Array(side * side * 3), sums = new Float32Array(side * side * 3);
  for (let y = 0; y < side * fine; y++) for (let x = 0; x < side * fine; x++) for (let c = 0; c < 3; c++)
    sums[(Math.floor(y / fine) * side + Math.floor(x / fine)) * 3 + c] += data[(y * side * fine + x) * 4 + c];
  sums.forEach((sum, i) => { pixels[i] = Math.round(sum / fine ** 2); });
  return pixels;
}

/** Make a drawing as large as the shapes of the training, and move it into the image; both only as far as needed. */
function fitted(strokes) {
  const all = strokes.flatMap((stroke) => stroke.points);
  const edge = strokes.some((stroke) => stroke.how === "line" || stroke.how === "loop") ? PEN / 2 : 0;
  const low = [0, 1].map((axis) => Math.min(...all.map((p) => p[axis]))), high = [0, 1].map((axis) => Math.max(...all.map((p) => p[axis])));
  const middle = low.map((x, axis) => (x + high[axis]) / 2), radius = Math.max(...all.map((p) => distance(p, middle)), 0.02);
  const scale = clamp(radius + edge / 2, ...(edge ? FITS.line : FITS.solid)) / (radius + edge / 2);
  const centre = middle.map((x, axis) => { const half = (scale * (high[axis] - low[axis])) / 2 + edge; return clamp(x, half, 1 - half); });
  const place = (p) => p.map((x, axis) => Math.round(512 * clamp((x - middle[axis]) * scale + centre[axis], 0, 0.998)) / 512);
  return strokes.map((stroke) => ({ ...stroke, points: stroke.points.map(place) }));
}

const HOWS = ["line", "loop", "solid", "hole"];
const encoded = (strokes) => strokes.map(({ points, ink, how }) => LETTERS[HOWS.indexOf(how) * 8 + Object.keys(INKS).indexOf(ink)]
  + points.map((p) => { const v = Math.round(p[0] * 512) * 512 + Math.round(p[1] * 512); return LETTERS[v >> 12] + LETTERS[(v >> 6) & 63] + LETTERS[v & 63]; }).join("")).join(".");
function decoded(text) {
  return text.split(".").filter((part) => part.length > 3).map((part) => {
    const [kind, ...letters] = Array.from(part, (letter) => LETTERS.indexOf(letter)), points = [];
    for (let i = 0; i + 2 < letters.length; i += 3) { const v = letters[i] * 4096 + letters[i + 1] * 64 + letters[i + 2]; points.push([Math.floor(v / 512) / 512, (v % 512) / 512]); }
    return { how: HOWS[kind >> 3] ?? "line", ink: Object.keys(INKS)[kind & 7] ?? "cream", points };
  });
}

// -- colours and small pictures

const HEAT = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]]; // cividis
function heat(x) {
  const at = clamp(x, 0, 1) * (HEAT.length - 1), i = Math.min(Math.floor(at), HEAT.length - 2);
  return HEAT[i].map((low, c) => low + (HEAT[i + 1][c] - low) * (at - i));
}
const signed = (x) => (x < 0 ? [127 - 117 * -x, 127 - 22 * -x, 127 + 105 * -x] : [127 + 113 * x, 127 + 5 * x, 127 - 107 * x]); // blue, grey, orange

function node(tag, props = {}, ...children) {
  const { style, data, aria, ...rest } = props, made = Object.assign(document.createElement(tag), rest);
  if (style) made.style.cssText = style;
  for (const [key, value] of Object.entries(data ?? {})) made.dataset[key] = value;
  for (const [key, value] of Object.entries(aria ?? {})) made.setAttribute(key === "role" ? "role" : `aria-${key}`, value);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** A canvas with one pixel for each tile; `colourOf(i)` gives [r, g, b]. The style sheet enlarges it. */
function tiles(rows, columns, colourOf, canvas = document.createElement("canvas")) {
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const pen = canvas.getContext("2d"), data = pen.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) {
    const [red, green, blue] = colourOf(i);
    data.data[4 * i] = red; data.data[4 * i + 1] = green; data.data[4 * i + 2] = blue; data.data[4 * i + 3] = 255;
  }
  pen.putImageData(data, 0, 0);
  return canvas;
}
/** Weights as colours: the largest is yellow, the smallest dark blue; where all are nearly equal they look equal. */
function heatOf(weights) {
  const most = Math.max(...weights, 1e-9), least = Math.min(...weights, 0.7 * most);
  return (i) => heat((weights[i] - least) / (most - least));
}
const heatTiles = (weights, [rows, columns], canvas) => tiles(rows, columns, heatOf(weights), canvas);
/** A vector or matrix: blue is negative, orange is positive. */
function strip(values, rows = 1, most = null) {
  const top = most ?? Math.max(...Array.from(values, Math.abs), 1e-9);
  return tiles(rows, values.length / rows, (i) => signed(clamp(values[i] / top, -1, 1)));
}
function imageTiles(pixels, [height, width], canvas) {
  return tiles(height, width, (i) => pixels.subarray(3 * i, 3 * i + 3), canvas);
}

// -- style: colours of the host where it has some (the book's theme, JupyterLab), else of the system

const STYLE = `
:host { display: block; padding: 4px; container-type: inline-size; color: var(--text); font: 400 15px/1.5 var(--pst-font-family-base, var(--jp-ui-font-family, system-ui)), sans-serif;
  --text: var(--pst-color-text-base, var(--jp-ui-font-color1, CanvasText)); --ground: var(--pst-color-background, var(--jp-layout-color0, Canvas));
  --muted: color-mix(in srgb, var(--text) 72%, var(--ground)); --line: color-mix(in srgb, var(--text) 18%, var(--ground)); --soft: color-mix(in srgb, var(--text) 5%, var(--ground));
  --edge: color-mix(in srgb, var(--text) 52%, var(--ground)); --accent: #1a5fb4; --on-accent: #fff; --mark: #b45309; --bar: #2f7cc7; }
:host(.dark) { --accent: #8cc0ff; --on-accent: #08213f; --mark: #fbbf24; --bar: #5b9fe0; }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
h2, h3, p, figure, ul { margin: 0; padding: 0; }
h3, .card > h2 { font: 600 13px/1.4 inherit; line-height: 1.4; font-size: 13px; font-weight: 600; letter-spacing: .02em; color: var(--muted); }
p { max-width: 62ch; }
canvas { image-rendering: pixelated; display: block; }
.top { display: grid; grid-template: "picture looks answer" auto "picture looks choose" 1fr / minmax(0, 1fr) minmax(0, 1fr) minmax(0, 1fr); gap: 18px 28px; align-items: start; }
.picture { grid-area: picture; } .looks { grid-area: looks; } .answer { grid-area: answer; } .choose { grid-area: choose; }
.card { display: flex; flex-direction: column; gap: 8px; min-width: 0; }
.stage { position: relative; width: 100%; aspect-ratio: 1; border-radius: 10px; overflow: hidden; background: rgb(36 92 112); }
.stage canvas { position: absolute; inset: 0; width: 100%; height: 100%; }
.stage .over { touch-action: none; image-rendering: auto; outline: none; cursor: crosshair; }
.stage:has(:focus-visible) { outline: 3px solid var(--accent); outline-offset: 2px; }
.stage.drop { outline: 3px dashed var(--mark); outline-offset: 2px; }
.stage video { position: absolute; inset: 0; width: 100%; height: 100%; object-fit: cover; }
.hint { position: absolute; left: 0; right: 0; top: 10px; text-align: center; pointer-events: none; }
.hint span { background: rgb(0 0 0 / .72); color: #fff; padding: 4px 12px; border-radius: 99px; font-size: 14px; }
.row { display: flex; flex-wrap: wrap; gap: 6px 8px; align-items: center; }
button, select, .choice { font: inherit; font-size: 14px; line-height: 1.3; color: inherit; background: var(--soft); border: 1px solid var(--line); border-radius: 7px; padding: 5px 11px; min-height: 32px; cursor: pointer; }
button:hover:not(:disabled), .choice:hover, select:hover { border-color: var(--edge); }
button:focus-visible, select:focus-visible, summary:focus-visible, a:focus-visible, .choice:has(:focus-visible) { outline: 3px solid var(--accent); outline-offset: 2px; }
button:disabled, .off { opacity: .55; cursor: not-allowed; }
button[aria-pressed=true], .choice:has(input:checked) { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.choice { display: inline-flex; align-items: center; position: relative; }
.choice input { position: absolute; opacity: 0; inset: 0; margin: 0; cursor: pointer; width: 100%; height: 100%; }
.inks { display: inline-flex; gap: 6px; }
.inks .choice { width: 32px; padding: 0; border-radius: 50%; border: 2px solid var(--edge); }
.inks .choice:has(input:checked) { box-shadow: 0 0 0 2px var(--ground), 0 0 0 4px var(--accent); background: var(--ink); }
.inks .choice:has(:focus-visible) { outline-offset: 6px; }
.samples { display: flex; flex-wrap: wrap; gap: 5px; }
.samples button { padding: 2px; min-height: 0; border-radius: 6px; }
.samples canvas { width: 34px; height: 34px; border-radius: 4px; }
.samples button[aria-pressed=true] { box-shadow: 0 0 0 2px var(--accent); }
.samples button[aria-pressed=true]:focus-visible { outline-offset: 4px; }
.says { font-size: 19px; line-height: 1.3; min-height: 1.3em; }
.says b { font-size: 25px; font-weight: 650; }
.small { font-size: 13.5px; color: var(--muted); }
.bars { display: grid; gap: 5px; }
.bar { display: grid; grid-template-columns: 5.6em 1fr 3.4em; gap: 8px; align-items: center; font-size: 14.5px; }
.bar .track { position: relative; height: 16px; background: var(--soft); border-radius: 4px; }
.bar i { position: absolute; inset: 0 auto 0 0; width: 0; background: color-mix(in srgb, var(--bar) 55%, var(--ground)); border-radius: 4px; transition: width .25s; }
.bar u { position: absolute; top: -2px; bottom: -2px; width: 3px; background: var(--mark); border-radius: 2px; }
.bar.most { font-weight: 650; } .bar.most i { background: var(--bar); }
.bar span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; } .chips:empty { display: none; }
.chips button { border-color: var(--mark); border-radius: 99px; font-size: 13.5px; }
[role=tablist] { display: flex; flex-wrap: wrap; gap: 4px 6px; margin: 26px 0 0; border-bottom: 1px solid var(--line); }
[role=tab] { border: 0; border-bottom: 3px solid transparent; border-radius: 0; background: none; padding: 8px 12px; font-size: 15px; color: var(--muted); }
[role=tab][aria-selected=true], [role=tab][aria-selected=true]:hover { color: var(--text); font-weight: 650; border-color: var(--accent); }
[role=tabpanel] { padding: 18px 0 4px; min-height: 320px; }
.walk { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.35fr); gap: 18px 32px; align-items: start; }
.walk h2 { font-size: 20px; line-height: 1.3; font-weight: 650; }
.walk .words { display: grid; gap: 12px; }
.steps { display: flex; flex-wrap: wrap; gap: 5px; }
.steps button { width: 34px; padding: 0; border-radius: 50%; min-height: 34px; }
.shown .stack { max-width: 262px; } .shown .stack:has(.row) { max-width: 100%; }
.shown { display: flex; flex-wrap: wrap; gap: 14px 26px; align-items: center; min-width: 0; }
.shown figure { display: grid; gap: 5px; justify-items: start; min-width: 0; max-width: 100%; }
.shown figcaption, .grid figcaption { font-size: 13px; line-height: 1.35; color: var(--muted); max-width: 27ch; }
.shown canvas { border-radius: 3px; max-width: 100%; }
.sign { font-size: 22px; color: var(--muted); }
.apart { display: grid; gap: 3px; width: min(300px, 100%); } .apart canvas { width: 100%; }
.apart .asked { outline: 3px solid var(--mark); outline-offset: -1px; z-index: 1; }
details { border: 1px solid var(--line); border-radius: 8px; padding: 0 12px; }
summary { cursor: pointer; padding: 7px 0; font-size: 14px; }
pre { margin: 0 0 10px; font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.sum { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; } .sum td { white-space: nowrap; } .sum td, .sum th { padding: 3px 12px 3px 0; text-align: left; font-weight: 400; vertical-align: middle; }
.grid { display: grid; gap: 6px; justify-content: start; max-width: 100%; overflow-x: auto; padding: 6px; margin: -3px; }
.grid .name { align-self: center; font-size: 13px; color: var(--muted); white-space: nowrap; padding-right: 4px; }
.grid button { padding: 2px; min-height: 0; border-radius: 6px; position: relative; }
.grid button:has(canvas) { display: grid; align-content: start; }
.grid button canvas { width: 100%; border-radius: 4px; aspect-ratio: 1; }
.grid button:has(canvas)[aria-pressed=true] { box-shadow: 0 0 0 3px var(--mark); background: none; color: inherit; }
.grid small { display: block; font-size: 12px; line-height: 1.2; padding-top: 2px; font-variant-numeric: tabular-nums; }
.grid button.cut canvas { opacity: .25; } .grid button.cut::after { content: "off"; position: absolute; inset: 0; display: grid; place-items: center; font-size: 13px; color: var(--text); }
.halves { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 22px 32px; } .stack { display: grid; gap: 10px; align-content: start; justify-items: start; }
.levels { width: 100%; display: grid; grid-template-columns: auto minmax(0, 1fr) auto; gap: 6px 14px; align-items: center; max-width: 640px; font-size: 14.5px; }
.levels .track { position: relative; height: 16px; background: var(--soft); border-radius: 4px; } .levels i { position: absolute; inset: 0 auto 0 0; border-radius: 4px; background: var(--bar); }
a { color: var(--accent); }
.error { color: var(--text); border-left: 4px solid var(--mark); padding-left: 10px; }
.visually { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@container (max-width: 859px) { .top { grid-template: "picture looks" auto "answer answer" auto "choose choose" auto / minmax(0, 1fr) minmax(0, 1fr); gap: 18px 22px; } .bars { grid-template-columns: 1fr 1fr; gap: 6px 24px; grid-auto-flow: column; grid-template-rows: repeat(var(--half), auto); } .walk, .halves { grid-template-columns: minmax(0, 1fr); } }
@container (max-width: 519px) { .top { grid-template: "picture" auto "looks" auto "answer" auto "choose" auto / minmax(0, 1fr); } .bars { grid-template-columns: 1fr; grid-auto-flow: row; grid-template-rows: none; } [role=tab] { padding: 8px 7px; font-size: 14px; } button, select, .choice { min-height: 38px; } .inks .choice { width: 38px; } .samples canvas { width: 40px; height: 40px; } .grid { gap: 4px; } .grid .name { white-space: normal; text-align: center; font-size: 11.5px; line-height: 1.2; padding: 0; } }
@media (prefers-reduced-motion: reduce) { * { transition: none !important; } }
`;

// -- the walk: seven steps, each a picture and at most sixty words

const STEPS = [
  { title: "Cut the image into patches", lesson: "01", words: ({ size, grid, patch }) => `The image has ${size[0]} × ${size[1]} pixels. It is cut into ${grid[0] * grid[1]} patches of ${patch} × ${patch} pixels. From here on the model sees only a list of patches, in reading order. Click a patch in “Where it looks” to follow that patch through all seven steps.`, shown: showPatches },
  { title: "Multiply each patch by E", lesson: "01", words: ({ patch, width }) => `A patch is ${3 * patch ** 2} numbers, because each pixel has three colours. A learned matrix E turns them into a token, a vector of ${width} numbers. All patches share the same E, so two equal patches give two equal tokens.`, shown: showEmbedding },
  { title: "Add CLS and positions", lesson: "03", words: () => "A learned CLS token goes in front of the list. Later the head will read only CLS. Then every token gets a learned vector for its position, because attention cannot see where a patch was. The map compares one position with all others. Nearby positions became similar in training.", shown: showPositions },
  { title: "Ask with q, k and v", lesson: "04", words: () => "Each token makes a query q, a key k and a value v. The product of one token's query and another token's key is a score. The softmax turns all scores of one query into weights that sum to 1. The token receives the values in these proportions.", shown: showAttention },
  { title: "Look with several heads", lesson: "04", words: ({ heads }) => `Each block has ${heads} heads. Every head has its own queries, keys and values, so the heads look at different patches. Their results are put side by side, and a matrix W_O mixes them.`, shown: showHeads },
  { title: "Add to the residual stream", lesson: "05", words: () => "A block computes attention, then an MLP. Neither replaces the token. Each result is added to the token, which flows through all blocks and collects what they add. The length of a vector shows how large an addition is.", shown: showStream },
  { title: "Read CLS with the head", lesson: "06", words: ({ classes }) => `After the last block the head reads only the CLS token. A matrix gives each of the ${classes.length} classes a score. The softmax turns the scores into probabilities that sum to 1. The largest one is the answer.`, shown: showHead },
];

/** The lines of the engine between "// step n:" and the next mark, without their indentation. */
function linesOfStep(source, number) {
  const lines = source.split("\n"), from = lines.findIndex((line) => line.includes(`// step ${number}:`));
  if (from < 0) return "";
  const to = lines.findIndex((line, i) => i > from && /\/\/ (step \d:|end)/.test(line));
  const part = lines.slice(from, to), indent = Math.min(...part.filter((line) => line.trim()).map((line) => line.search(/\S/)));
  return part.map((line) => line.slice(indent)).join("\n");
}

const figure = (canvas, caption, width, height) => {
  canvas.style.width = `${width}px`;
  if (height) canvas.style.height = `${height}px`; else canvas.style.aspectRatio = `${canvas.width} / ${canvas.height}`;
  return node("figure", {}, canvas, node("figcaption", { textContent: caption }));
};
const sign = (text) => node("span", { className: "sign", textContent: text });
const patchPixels = (see, n) => {
  const { patch, size: [, W], grid: [, columns] } = see.info, made = new Uint8Array(3 * patch ** 2);
  for (let y = 0; y < patch; y++) for (let x = 0; x < patch; x++) for (let c = 0; c < 3; c++)
    made[(y * patch + x) * 3 + c] = see.pixels[((Math.floor(n / columns) * patch + y) * W + (n % columns) * patch + x) * 3 + c];
  return made;
};
const vector = (values, caption, most) => figure(strip(values, 1, most), caption, 250, 18);
const followed = (see) => (see.query >= see.info.prefix ? see.query : see.info.prefix + see.strongest); // a patch, even where CLS is asked

function showPatches(see) {
  const { grid: [rows, columns], patch, prefix } = see.info, asked = followed(see) - prefix;
  const apart = node("div", { className: "apart", style: `grid-template-columns: repeat(${columns}, 1fr)` }, range(rows * columns).map((n) => {
    const canvas = imageTiles(patchPixels(see, n), [patch, patch]);
    if (n === asked) canvas.className = "asked";
    return canvas;
  }));
  return [node("figure", {}, apart, node("figcaption", { textContent: `${rows} rows of ${columns} patches.` })), figure(imageTiles(patchPixels(see, asked), [patch, patch]), `${see.nameOf(asked + prefix)} is number ${asked + 1} in the list.`, 96)];
}

function showEmbedding(see) {
  const { patch, width, prefix } = see.info, asked = followed(see) - prefix, pixels = patchPixels(see, asked);
  return [figure(imageTiles(pixels, [patch, patch]), see.nameOf(asked + prefix), 84), sign("→"),
    figure(imageTiles(pixels, [1, patch ** 2]), `its ${patch ** 2} pixels in a row`, 190, 18), sign("× E ="),
    vector(row(see.out.embedded, asked, width), `its token: ${width} numbers, blue below 0, orange above`)];
}

function showPositions(see) {
  const { width, grid, prefix } = see.info, asked = followed(see), N = grid[0] * grid[1];
  const position = (t) => row(see.out.placed, t, width).map((x, i) => x - row(see.out.embedded, t - prefix, width)[i]);
  const own = position(asked), likeness = range(N).map((n) => { const other = position(n + prefix); return own.reduce((sum, x, i) => sum + x * other[i], 0) / (lengthOf(own) * lengthOf(other) || 1); });
  const off = lengthOf(own) < 1e-4;
  return [node("div", { className: "stack" }, vector(row(see.out.embedded, asked - prefix, width), `token of ${see.nameOf(asked)}`), sign("+"), vector(own, off ? "positions are switched off" : "vector of its position"), sign("="),
    vector(row(see.out.placed, asked, width), "what enters the first block"), prefix ? vector(row(see.out.placed, 0, width), "the CLS token in front, with a position of its own") : null),
    off ? null : figure(heatTiles(likeness.map((x) => Math.max(0, x)), grid), `Similarity of this position to all ${N} positions. Yellow is similar (cosine ${Math.max(...likeness).toFixed(0)}), blue is 0 or less.`, 150)];
}

/** The head of which numbers are shown: the chosen one, or else the one with the largest weight. */
function shownHead({ head, info, out, query, layer }) {
  if (Number.isInteger(head)) return head;
  const most = range(info.heads).map((i) => Math.max(...weightsOf(out.attention, info, { query, layer, head: i }).subarray(info.prefix)));
  return most.indexOf(Math.max(...most));
}
function showAttention(see) {
  const { width, heads, prefix, grid } = see.info, T = prefix + grid[0] * grid[1], d = width / heads, head = shownHead(see), l = see.layer - 1;
  const weights = weightsOf(see.out.attention, see.info, { query: see.query, layer: see.layer, head });
  const key = range(T).reduce((best, t) => (t >= prefix && weights[t] > weights[best] ? t : best), prefix);
  const part = (t, which) => see.out.qkv.subarray((l * T + t) * 3 * width + which * width + head * d).subarray(0, d);
  const [q, k, v] = [part(see.query, 0), part(key, 1), part(key, 2)], product = q.map((x, i) => x * k[i]), score = product.reduce((a, b) => a + b, 0);
  const numbers = node("table", { className: "sum" }, [["q · k, the sum of the products", score.toFixed(2)], [`divided by √${d}`, (score / Math.sqrt(d)).toFixed(2)], ["weight, after the softmax", percent(weights[key], 1)]]
    .map(([text, value]) => node("tr", {}, node("th", { textContent: text, scope: "row" }), node("td", { textContent: value }))));
  return [node("div", { className: "stack" }, vector(q, `q of ${see.nameOf(see.query)}: ${d} numbers`), vector(k, `k of ${see.nameOf(key)}, the patch with the largest weight`), vector(product, "their products"), numbers, vector(v, "its v, of which this share is received")),
    figure(heatTiles(weights.subarray(prefix), grid), `Layer ${see.layer}, head ${head + 1}: the weights of all patches. Yellow is ${percent(weights[key], 1)}.${prefix ? ` CLS gets ${percent(weights[0], 1)}.` : ""}`, 150)];
}

function showHeads(see) {
  const { heads, grid, prefix } = see.info;
  return range(heads).map((head) => {
    const weights = weightsOf(see.out.attention, see.info, { query: see.query, layer: see.layer, head });
    return figure(heatTiles(weights.subarray(prefix), grid), `Head ${head + 1}: at most ${percent(Math.max(...weights.subarray(prefix)))}${prefix ? `, CLS ${percent(weights[0])}` : ""}`, heads > 4 ? 104 : 132);
  }).concat(node("p", { className: "small", textContent: `Layer ${see.layer}, asked by ${see.nameOf(see.query)}.` }));
}

function showStream(see) {
  const { width, prefix, grid } = see.info, T = prefix + grid[0] * grid[1], l = see.layer - 1, at = (x, i) => row(x, i * T + see.query, width);
  const before = at(see.out.tokens, l), middle = at(see.out.middles, l), after = at(see.out.tokens, l + 1), minus = (a, b) => a.map((x, i) => x - b[i]);
  const most = Math.max(...Array.from(after, Math.abs), ...Array.from(before, Math.abs));
  return [node("div", { className: "stack" }, [["", before, `${see.nameOf(see.query)} before block ${see.layer}`], ["+", minus(middle, before), "what attention adds"], ["+", minus(after, middle), "what the MLP adds"], ["=", after, `after block ${see.layer}`]]
    .map(([operator, values, text]) => node("div", { className: "row" }, node("span", { className: "sign", style: "width: 1em", textContent: operator }), vector(values, `${text}, length ${lengthOf(values).toFixed(1)}`, most))))];
}

function showHead(see) {
  const { classes } = see.info, p = softmax(see.out.logits), most = Math.max(...Array.from(see.out.logits, Math.abs));
  const order = range(classes.length).sort((a, b) => p[b] - p[a]).slice(0, 10);
  return [node("table", { className: "sum" }, node("tr", {}, ["class", "score", "", "probability"].map((text) => node("th", { textContent: text, scope: "col" }))),
    order.map((k) => { const bar = strip([see.out.logits[k]], 1, most); bar.style.cssText = `width: ${(80 * Math.abs(see.out.logits[k])) / most}px; height: 12px`; return node("tr", {}, node("th", { textContent: classes[k], scope: "row" }), node("td", { textContent: see.out.logits[k].toFixed(2) }), node("td", {}, bar), node("td", { textContent: percent(p[k], 1) })); })),
    node("p", { className: "small", textContent: "Orange scores are above 0, blue scores are below." })];
}

// -- the view

/** Show the view in an element; returns what a host or a test needs: its state, and a promise of the first answer. */
export function start(element, host) {
  const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  element.dataset.lmSuppressShortcuts = "true"; // JupyterLab's: else the key b makes a new cell
  const samples = host.samples ?? [];
  const state = { kind: "drawing", sample: 0, strokes: [], photo: null, keep: null, gates: null, positions: 1, seed: 0, query: 0, layer: 1, head: "mean", tool: "draw", pen: "solid", ink: "cream", tab: "walk", step: 0, cursor: 0 };
  let engine = null, info = null, pixels = null, out = null, before = null, drawn = null, grip = null;
  const ui = {};

  // What is said and shown in words.
  const nameOf = (token) => (token < info.prefix ? (token === 0 ? "CLS" : `prefix token ${token}`) : `patch (${Math.floor((token - info.prefix) / info.grid[1]) + 1}, ${((token - info.prefix) % info.grid[1]) + 1})`);
  const longName = (token) => (token < info.prefix ? nameOf(token) : nameOf(token).replace(/patch \((\d+), (\d+)\)/, "the patch in row $1, column $2"));
  const headName = (head) => (head === "mean" ? "mean of the heads" : head === "rollout" ? "rollout" : `head ${head + 1}`);
  const changed = () => state.keep.some((x) => !x) || state.gates.some((x) => !x) || !state.positions || state.seed > 0;

  // -- building the page once

  const choice = (group, value, text, set, extra = {}) => node("label", { className: "choice", title: extra.title ?? "", style: extra.style ?? "" },
    node("input", { type: "radio", name: group, value, checked: state[group] === value, onchange: () => set(value), ariaLabel: extra.label ?? null }), text);
  function pictureCards() {
    ui.picture = node("canvas", { aria: { hidden: "true" } });
    ui.over = node("canvas", { className: "over", tabIndex: 0, aria: { role: "application", label: "The image. Draw with mouse, pen or finger, or choose a sample image. With the tool Hide patches, arrow keys move and space hides a patch." } });
    ui.hint = node("div", { className: "hint", aria: { hidden: "true" } }, node("span", { textContent: "Draw a shape here, for example a star" }));
    ui.stage = node("div", { className: "stage" }, ui.picture, ui.over, ui.hint);
    ui.says = node("p", { className: "says", aria: { role: "status" } });
    ui.chips = node("div", { className: "chips" });
    const inks = node("span", { className: "inks", aria: { role: "radiogroup", label: "colour" } }, Object.keys(INKS).map((name) =>
      choice("ink", name, "", (value) => { state.ink = value; }, { title: name, label: name, style: `background: ${colour(INKS[name])}; --ink: ${colour(INKS[name])}` })));
    ui.drawing = node("div", { className: "row", aria: { role: "group", label: "pen" } }, choice("pen", "solid", "Solid shape", (value) => { state.pen = value; }, { title: "A closed line becomes a solid shape; a shape inside a shape is a hole" }),
      choice("pen", "line", "Thick line", (value) => { state.pen = value; }, { title: "For a ring or a cross" }), inks, button("Undo", () => { if (state.strokes.pop()) redraw(); }), button("New", () => newDrawing()),
      node("p", { className: "small", textContent: "The first pen fills a closed line. Every drawing becomes as large as the shapes of the training." }));
    ui.hiding = node("p", { className: "small", textContent: "Click patches, or drag over them, to hide them. Click again to show them. With keys: arrows move, space hides." });
    ui.file = node("input", { type: "file", accept: "image/*", hidden: true, onchange: (event) => load(event.target.files[0]) });
    const size = host.sizes?.photo ? ` (loads ${(host.sizes.photo / 1e6).toFixed(1)} MB)` : "";
    ui.tools = node("div", { className: "row", aria: { role: "group", label: "tool" } }, choice("tool", "draw", "✎ Draw", (value) => setTool(value)), choice("tool", "hide", "▨ Hide patches", (value) => setTool(value)));
    ui.samples = node("div", { className: "samples", aria: { role: "group", label: "sample images" } }, samples.map((sample, i) =>
      node("button", { title: sample.kind === "photo" && host.sizes?.photo ? `${sample.name}, another model (${(host.sizes.photo / 1e6).toFixed(1)} MB)` : sample.name, onclick: () => showSample(i), aria: { label: `sample: ${sample.name}` } }, imageTiles(sample.pixels, sample.size ?? [32, 32]))));
    ui.more = node("div", { className: "row" }, ui.photo = button(`Photo${size}`, () => ui.file.click()), navigator.mediaDevices?.getUserMedia ? (ui.camera = button("Camera", camera)) : null, ui.file);
    ui.local = node("p", { className: "small", textContent: host.local ?? "Choose a photo, drop one on the image, or use the camera. It is cut to a square, shrunk to 32 × 32 pixels, and never leaves this page." });
    return [node("section", { className: "card picture", aria: { label: "Your image" } }, node("h2", { textContent: "Your image" }), ui.stage, ui.says, ui.chips, ui.tools, ui.drawing, ui.hiding),
      node("section", { className: "card choose", aria: { label: "Other images" } }, node("h2", { textContent: "Or choose an image" }), ui.samples, ui.more, ui.local)];
  }
  function looksCard() {
    ui.looks = node("canvas", { aria: { hidden: "true" } });
    ui.ask = node("canvas", { className: "over", tabIndex: 0, style: "cursor: pointer; touch-action: manipulation", aria: { role: "application", label: "Where the model looks. Click a patch, or press arrow keys, to see where that patch looks. Home asks CLS." } });
    ui.looked = node("p", { className: "small", aria: { role: "status" } });
    ui.cls = button("CLS", () => ask(0), { title: "CLS is the token from which the model reads its answer" });
    ui.layer = node("select", { onchange: () => { state.layer = Number(ui.layer.value); paint(); } });
    ui.head = node("select", { onchange: () => { state.head = /^\d/.test(ui.head.value) ? Number(ui.head.value) : ui.head.value; paint(); } });
    ui.looking = node("div", { className: "row" }, ui.cls, node("label", {}, "layer ", ui.layer), node("label", {}, ui.head, node("span", { className: "visually", textContent: "head" })));
    return node("section", { className: "card looks", aria: { label: "Where it looks" } }, node("h2", { textContent: "Where it looks (click a patch to ask it)" }), node("div", { className: "stage" }, ui.looks, ui.ask), ui.looking, ui.looked);
  }
  function answerCard() {
    ui.bars = node("div", { className: "bars", aria: { role: "list" } });
    ui.about = node("p", { className: "small" });
    return node("section", { className: "card answer", aria: { label: "What it says" } }, node("h2", { textContent: "What it says" }), ui.bars, ui.about);
  }
  function button(text, onclick, props = {}) { return node("button", { textContent: text, type: "button", onclick, ...props }); }

  const TABS = { walk: "Step by step", heads: "All layers and heads", whatif: "What if?", layers: "Block by block" };
  function tabs() {
    ui.tabs = Object.fromEntries(Object.entries(TABS).map(([name, text]) => [name, node("button", { textContent: text, type: "button", id: `tab-${name}`, onclick: () => openTab(name), aria: { role: "tab", controls: "panel" } })]));
    ui.panel = node("div", { id: "panel", aria: { role: "tabpanel" } });
    const list = node("div", { aria: { role: "tablist", label: "Look closer" }, onkeydown: (event) => {
      const names = Object.keys(TABS), step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault(); event.stopPropagation();
      const next = names[(names.indexOf(state.tab) + step + names.length) % names.length];
      openTab(next);
      ui.tabs[next].focus();
    } }, Object.values(ui.tabs));
    return [list, ui.panel];
  }

  // -- what a visitor does

  function setTool(tool) {
    state.tool = tool;
    if (tool === "draw" && state.kind !== "drawing") newDrawing(); else paint();
    for (const input of ui.tools.querySelectorAll("input")) input.checked = input.value === tool;
  }
  function everythingOn() {
    Object.assign(state, { positions: 1, seed: 0 });
    state.keep.fill(1);
    state.gates.fill(1);
  }
  function newDrawing() { Object.assign(state, { kind: "drawing", sample: null, strokes: [], photo: null, tool: "draw" }); return show(true); }
  function redraw() { Object.assign(state, { kind: "drawing", sample: null, photo: null }); return show(true); }
  function showSample(i) { const kind = samples[i].kind ?? "drawing"; Object.assign(state, { kind, sample: i, strokes: [], photo: null, tool: kind === "photo" ? "hide" : state.tool }); return show(true); }

  /** Take a photo: the square in its middle, as small as the images that the model was trained on. */
  async function load(blob) {
    if (!blob) return undefined;
    try {
      const whole = blob instanceof ImageBitmap ? blob : await createImageBitmap(blob), side = Math.min(whole.width, whole.height);
      state.kind = "photo";
      await prepare();
      const [H, W] = info.size, small = await createImageBitmap(whole, (whole.width - side) / 2, (whole.height - side) / 2, side, side, { resizeWidth: W, resizeHeight: H, resizeQuality: "high" });
      const pen = Object.assign(document.createElement("canvas"), { width: W, height: H }).getContext("2d", { willReadFrequently: true });
      pen.drawImage(small, 0, 0);
      const rgba = pen.getImageData(0, 0, W, H).data;
      state.photo = Uint8Array.from({ length: 3 * H * W }, (_, i) => rgba[Math.floor(i / 3) * 4 + (i % 3)]);
      Object.assign(state, { sample: null, strokes: [], tool: "hide" });
      offerAgain(state.photo);
    } catch (error) { complain(error.name === "InvalidStateError" ? "This file is not an image that the browser can read." : error); return undefined; }
    return show(true);
  }
  /** Put the last photo beside the samples, so that a drawing that takes its place does not lose it. */
  function offerAgain(photo) {
    ui.mine?.remove();
    ui.mine = button("", () => { Object.assign(state, { kind: "photo", sample: null, strokes: [], photo, tool: "hide" }); show(true); }, { title: "your photo" });
    ui.mine.ariaLabel = "your photo";
    ui.mine.append(imageTiles(photo, info.size));
    ui.samples.append(ui.mine);
  }
  async function camera() {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } }), video = node("video", { autoplay: true, muted: true, playsInline: true, srcObject: stream });
      const stop = () => { stream.getTracks().forEach((track) => track.stop()); video.remove(); ui.camera.textContent = "Camera"; ui.camera.onclick = camera; };
      ui.stage.append(video);
      ui.camera.textContent = "Take the photo";
      ui.camera.onclick = async () => { const taken = await createImageBitmap(video); stop(); load(taken); };
    } catch { complain("There is no camera that this page may use."); }
  }
  function ask(query) { state.query = clamp(query, 0, info.prefix + info.grid[0] * info.grid[1] - 1); paint(); }
  function openTab(name) { if (ui.tabs[name].disabled) return; state.tab = name; ui.panel.dataset.for = ""; ui.panel.replaceChildren(); run(); }

  // -- from a picture to an answer

  /** Make the engine of the kind of picture ready; another model has other layers, heads and patches. */
  async function prepare() {
    const kind = state.kind, next = host.engine(kind, (bytes, total) => { ui.says.textContent = `Loading the model: ${(bytes / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB`; });
    const ready = await next;
    if (ready === engine) return;
    if (kind === "photo") ui.photo.textContent = "Photo";
    [engine, info] = [ready, ready.info];
    const N = info.grid[0] * info.grid[1];
    Object.assign(state, { keep: new Uint8Array(N).fill(1), gates: new Uint8Array(Math.max(1, info.depth * info.heads)).fill(1), positions: 1, seed: 0, layer: Math.max(1, info.depth), head: "rollout", query: info.prefix ? 0 : Math.floor(info.grid[0] / 2) * info.grid[1] + Math.floor(info.grid[1] / 2), cursor: 0 });
    [out, before] = [null, null];
    const option = (value, text) => node("option", { value, textContent: text });
    ui.layer.replaceChildren(...range(info.depth).map((l) => option(l + 1, l + 1)));
    ui.head.replaceChildren(option("mean", "mean of the heads"), option("rollout", "rollout"), ...range(info.heads).map((h) => option(h, `head ${h + 1}`)));
    ui.rows = info.classes.map((name) => { const parts = [node("i"), node("u", { hidden: true }), node("span")]; return { name, fill: parts[0], ghost: parts[1], number: parts[2], row: node("div", { className: "bar", aria: { role: "listitem" } }, node("span", { textContent: name }), node("span", { className: "track" }, parts[0], parts[1]), parts[2]) }; });
    ui.bars.style.setProperty("--half", Math.ceil(info.classes.length / 2));
    ui.bars.replaceChildren(...ui.rows.map((bar) => bar.row));
    const sure = info.accuracy ? ` It is right on ${percent(info.accuracy)} of its test images.` : "";
    ui.about.textContent = `${info.depth} layers (or blocks), ${info.heads} heads each, ${N} patches. It must choose one of its ${info.classes.length} classes, whatever it sees.${sure}`;
    for (const [name, able] of Object.entries({ walk: info.can.detail, heads: info.can.attention, layers: info.can.layers })) Object.assign(ui.tabs[name], { disabled: !able, title: able ? "" : "The parts of this model do not show this." });
    if (ui.tabs[state.tab].disabled) state.tab = "whatif";
    ui.panel.dataset.for = "";
    ui.stage.style.aspectRatio = ui.ask.parentElement.style.aspectRatio = `${info.size[1]} / ${info.size[0]}`;
  }

  function originalPixels() {
    if (state.photo) return state.photo;
    if (state.sample !== null) return samples[state.sample].pixels;
    return rasterised(state.strokes, info.size[1]);
  }
  /** The picture with its patches in the order of the seed: what the model gets. */
  function arranged(original) {
    if (!state.seed) return original;
    const { size: [, W], grid: [rows, columns], patch: P } = info, made = new Uint8Array(original.length);
    shuffled(rows * columns, state.seed).forEach((from, to) => {
      for (let y = 0; y < P; y++) {
        const start = ((Math.floor(from / columns) * P + y) * W + (from % columns) * P) * 3, end = ((Math.floor(to / columns) * P + y) * W + (to % columns) * P) * 3;
        made.set(original.subarray(start, start + 3 * P), end);
      }
    });
    return made;
  }

  function show(fresh = false) {
    api.shown = prepare().then(() => {
      if (fresh) { everythingOn(); before = null; }
      return run();
    }).catch(complain);
    return api.shown;
  }

  // One question at a time; of those that come meanwhile only the last is asked.
  let busy = null, again = false;
  function run() {
    if (!engine) return Promise.resolve();
    pixels = arranged(originalPixels());
    paint();
    if (busy) { again = true; return busy; }
    busy = (async () => {
      do {
        again = false;
        const asked = { pixels, keep: state.keep.slice(), positions: state.positions, heads: state.gates.slice(), detail: state.tab === "walk" && info.can.detail }, whole = !changed(), by = engine, begun = performance.now();
        const answer = engine.first && whole && state.sample === 0 ? engine.first : await engine.run(asked);
        if (by !== engine) { again = true; continue; }
        out = Object.assign(answer, { changed: !whole });
        if (whole) before = softmax(out.logits);
        api.times.push(performance.now() - begun);
        api.inside.push(out.milliseconds ?? 0);
        paint();
      } while (again);
    })().catch(complain).finally(() => { busy = null; });
    return busy;
  }
  function complain(error) {
    console.error(error);
    ui.says.dataset.key = ""; // the answer comes back
    ui.says.replaceChildren(node("span", { className: "error", textContent: error.message ?? String(error) }));
  }

  // -- painting

  const empty = () => state.sample === null && !state.photo && !state.strokes.length;
  function paint() {
    if (!info || !pixels) return;
    paintPicture();
    paintTools();
    if (out) { paintAnswer(); paintLooks(); paintPanel(); }
    remember();
  }
  function sharp(canvas) {
    const ratio = Math.min(2, devicePixelRatio || 1), side = Math.max(1, Math.round((canvas.clientWidth || 320) * ratio)), tall = Math.round((side * info.size[0]) / info.size[1]);
    if (canvas.width !== side || canvas.height !== tall) Object.assign(canvas, { width: side, height: tall });
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, side, tall);
    return [pen, side / info.grid[1], ratio];
  }
  const boxOf = (n, s) => [(n % info.grid[1]) * s, Math.floor(n / info.grid[1]) * s, s, s];
  function hatch(pen, n, s, ratio) {
    const [x, y] = boxOf(n, s);
    pen.save();
    pen.beginPath();
    pen.rect(x, y, s, s);
    pen.clip();
    pen.fillStyle = "#d8d8d8";
    pen.fill();
    pen.strokeStyle = "#5a5a5a";
    pen.lineWidth = 1.6 * ratio;
    pen.beginPath();
    const gap = 7 * ratio, from = Math.floor((x + y) / gap) * gap; // lines of neighbours meet
    for (let at = from; at < x + y + 2 * s + gap; at += gap) { pen.moveTo(at - y, y); pen.lineTo(at - y - s, y + s); }
    pen.stroke();
    pen.restore();
  }
  function frame(pen, n, s, ratio, style) {
    const [x, y] = boxOf(n, s);
    for (const [width, stroke] of [[5, "#000"], [3, style]]) { Object.assign(pen, { lineWidth: width * ratio, strokeStyle: stroke }); pen.strokeRect(x + 2 * ratio, y + 2 * ratio, s - 4 * ratio, s - 4 * ratio); }
  }
  function grid(pen, s, ratio) {
    pen.strokeStyle = "rgb(255 255 255 / .16)";
    pen.lineWidth = ratio;
    pen.beginPath();
    for (let i = 1; i < info.grid[1]; i++) { pen.moveTo(i * s, 0); pen.lineTo(i * s, pen.canvas.height); }
    for (let i = 1; i < info.grid[0]; i++) { pen.moveTo(0, i * s); pen.lineTo(pen.canvas.width, i * s); }
    pen.stroke();
  }
  function paintPicture() {
    imageTiles(pixels, info.size, ui.picture);
    const [pen, s, ratio] = sharp(ui.over);
    grid(pen, s, ratio);
    state.keep.forEach((kept, n) => { if (!kept) hatch(pen, n, s, ratio); });
    if (grip?.stroke) { // while one draws: the line itself, over what is there
      pen.save();
      pen.globalAlpha = 0.95;
      pen.beginPath();
      grip.stroke.points.forEach(([x, y]) => pen.lineTo(x * pen.canvas.width, y * pen.canvas.height));
      Object.assign(pen, { lineCap: "round", lineJoin: "round", strokeStyle: colour(INKS[state.ink]), lineWidth: (state.pen === "line" ? PEN : 0.035) * pen.canvas.width });
      pen.stroke();
      pen.restore();
    }
    if (state.tool === "hide" && root.activeElement === ui.over) frame(pen, state.cursor, s, ratio, "#8cc0ff");
    ui.hint.hidden = !(empty() || (state.sample === 0 && !api.touched && state.kind === "drawing" && host.draws)) || Boolean(grip);
    ui.over.style.cursor = state.tool === "hide" ? "cell" : "crosshair";
  }
  function paintTools() {
    ui.drawing.hidden = state.tool !== "draw";
    ui.hiding.hidden = state.tool !== "hide" || !info.can.hide;
    for (const input of ui.tools.querySelectorAll("input")) { input.checked = input.value === state.tool; input.disabled = input.value === "hide" && !info.can.hide; }
    [...ui.samples.children].forEach((one, i) => one.setAttribute("aria-pressed", String(one === ui.mine ? Boolean(state.photo) : state.sample === i)));
    const hidden = state.keep.filter((x) => !x).length, off = state.gates.filter((x) => !x).length, chip = (text, undo) => button(`${text} ✕`, (event) => { undo(); if (!event.detail) ui.over.focus(); }, { ariaLabel: `${text}: undo` });
    ui.chips.replaceChildren(...[hidden && chip(hidden === 1 ? "1 patch hidden" : `${hidden} patches hidden`, () => { state.keep.fill(1); run(); }), state.seed && chip("patches shuffled", () => { state.seed = 0; run(); }),
      !state.positions && chip("positions off", () => { state.positions = 1; run(); }), off && chip(off === 1 ? "1 head off" : `${off} heads off`, () => { state.gates.fill(1); run(); })].filter(Boolean));
  }
  function paintAnswer() {
    const p = softmax(out.logits), best = p.indexOf(Math.max(...p)), moved = out.changed && before;
    if (empty()) ui.says.textContent = "The image is empty. Draw something.";
    else {
      const was = moved ? before.indexOf(Math.max(...before)) : best;
      const told = moved ? ` It was ${was === best ? percent(before[best]) : `${info.classes[was]}, ${percent(before[was])}`}.` : "";
      const key = `${info.classes[best]} ${percent(p[best])}${told}`;
      if (ui.says.dataset.key !== key) { ui.says.dataset.key = key; ui.says.replaceChildren("It says ", node("b", { textContent: info.classes[best] }), `, ${percent(p[best])}.`, node("span", { className: "small", textContent: told })); }
    }
    if (empty()) ui.says.dataset.key = "";
    ui.rows.forEach((bar, k) => {
      bar.fill.style.width = `${(100 * p[k]).toFixed(1)}%`;
      bar.number.textContent = percent(p[k], p[k] < 0.095 ? 1 : 0);
      bar.row.classList.toggle("most", k === best && !empty());
      bar.ghost.hidden = !moved;
      if (moved) bar.ghost.style.left = `calc(${(100 * before[k]).toFixed(1)}% - 1px)`;
      bar.row.ariaLabel = `${bar.name} ${percent(p[k], 1)}${moved ? `, before ${percent(before[k], 1)}` : ""}`;
    });
  }
  function paintLooks() {
    const [height, width] = info.size, P = info.patch;
    ui.layer.value = state.layer;
    ui.head.value = state.head;
    ui.cls.hidden = !info.prefix;
    ui.cls.setAttribute("aria-pressed", String(state.query === 0 && info.prefix > 0));
    ui.looking.classList.toggle("off", !info.can.attention);
    for (const control of [ui.cls, ui.layer, ui.head]) control.disabled = !info.can.attention;
    if (!info.can.attention) {
      imageTiles(pixels.map((x) => 60 + x / 6), info.size, ui.looks);
      sharp(ui.ask);
      ui.looked.textContent = "This model does not show its attention, because its parts compute attention in their own way.";
      return;
    }
    drawn = weightsOf(out.attention, info, state);
    const patches = drawn.subarray(info.prefix), most = Math.max(...patches, 1e-9), colours = heatOf(patches);
    tiles(height, width, (i) => {
      const n = Math.floor(Math.floor(i / width) / P) * info.grid[1] + Math.floor((i % width) / P), grey = (pixels[3 * i] + pixels[3 * i + 1] + pixels[3 * i + 2]) / 3;
      return colours(n).map((c) => 0.68 * c + 0.32 * grey);
    }, ui.looks);
    const [pen, s, ratio] = sharp(ui.ask);
    grid(pen, s, ratio);
    state.keep.forEach((kept, n) => { if (!kept) hatch(pen, n, s, ratio); });
    if (state.query >= info.prefix) frame(pen, state.query - info.prefix, s, ratio, "#fbbf24");
    const hidden = state.query >= info.prefix && !state.keep[state.query - info.prefix], asker = longName(state.query);
    const best = info.prefix + patches.indexOf(Math.max(...patches)), brightest = longName(best), toCls = info.prefix ? `; CLS gets ${percent(drawn[0], 1)}` : "";
    const text = hidden ? `${asker} is hidden, so it looks nowhere.`
      : state.head === "rollout" ? `Followed through ${state.layer === 1 ? "layer 1" : `layers 1 to ${state.layer}`}, most of ${asker}${state.query < info.prefix ? ", which gives the answer," : ""} comes from ${brightest} (${percent(most, 1)}${state.query < info.prefix ? "" : ", with its own place"}). Equal shares would be ${percent(1 / drawn.length, 1)}. Yellow gives most, dark blue least.`
      : `${asker} looks most at ${best === state.query ? "itself" : brightest}, which gets ${percent(most, 1)} of its attention${toCls}. Equal shares would be ${percent(1 / drawn.length, 1)}. Yellow gets most, dark blue least.`;
    ui.looked.textContent = text[0].toUpperCase() + text.slice(1);
  }

  // -- the panels

  function paintPanel() {
    for (const [name, tab] of Object.entries(ui.tabs)) { tab.setAttribute("aria-selected", String(name === state.tab)); tab.tabIndex = name === state.tab ? 0 : -1; }
    ui.panel.setAttribute("aria-labelledby", `tab-${state.tab}`);
    ({ walk: paintWalk, heads: paintHeads, whatif: paintWhatIf, layers: paintLayers })[state.tab]();
  }
  /** Build a panel once for a model; later only what changes is painted, so that the focus stays. */
  function panelFor(key, build) {
    const name = `${key} ${info.name} ${info.depth}`;
    if (ui.panel.dataset.for === name) return false;
    ui.panel.dataset.for = name;
    ui.panel.replaceChildren(...build());
    return true;
  }
  function paintWalk() {
    panelFor("walk", () => {
      ui.steps = STEPS.map((step, i) => button(i + 1, () => goTo(i), { ariaLabel: `step ${i + 1}: ${step.title}` }));
      ui.title = node("h2"); ui.words = node("p"); ui.link = node("p", { className: "small" }); ui.shown = node("div", { className: "shown" });
      ui.lines = node("pre");
      ui.engine = node("details", {}, node("summary", { textContent: "These lines of the code compute it" }), ui.lines);
      ui.previous = button("← Back", () => goTo(state.step - 1)); ui.next = button("Next →", () => goTo(state.step + 1));
      return [node("div", { className: "walk" }, node("div", { className: "words" }, node("div", { className: "steps", aria: { role: "group", label: "steps" } }, ui.steps), ui.title, ui.words, ui.link, node("div", { className: "row" }, ui.previous, ui.next), ui.engine), ui.shown)];
    });
    const step = STEPS[state.step], link = host.lessons?.[step.lesson];
    ui.steps.forEach((one, i) => one.setAttribute("aria-pressed", String(i === state.step)));
    ui.title.textContent = `${state.step + 1}. ${step.title}`;
    ui.words.textContent = step.words(info);
    ui.link.replaceChildren("You build this in ", link ? node("a", { href: link, textContent: `lesson ${step.lesson}` }) : `lesson ${step.lesson}`, ".");
    ui.previous.disabled = state.step === 0;
    ui.next.disabled = state.step === STEPS.length - 1;
    ui.lines.textContent = linesOfStep(host.source ?? "", state.step + 1);
    ui.engine.hidden = !ui.lines.textContent;
    if (!out.embedded) return; // the answer with all details is on its way
    const strongest = drawn ? drawn.subarray(info.prefix).indexOf(Math.max(...drawn.subarray(info.prefix))) : 0;
    ui.shown.replaceChildren(...step.shown({ info, out, pixels, nameOf, query: state.query, layer: state.layer, head: state.head, strongest }).filter(Boolean));
  }
  function goTo(step) { state.step = clamp(step, 0, STEPS.length - 1); paint(); if (root.activeElement?.disabled) (state.step ? ui.previous : ui.next).focus(); }

  function paintHeads() {
    panelFor("heads", () => {
      const columns = ["mean", "rollout", ...range(info.heads)];
      ui.cells = [];
      const side = `minmax(30px, ${info.heads > 4 ? 62 : 76}px)`, board = node("div", { className: "grid", style: `grid-template-columns: auto repeat(${columns.length}, ${side})` },
        node("span"), columns.map((head) => node("span", { className: "name", textContent: typeof head === "number" ? `head ${head + 1}` : head })));
      for (let layer = 1; layer <= info.depth; layer++) {
        board.append(node("span", { className: "name", textContent: `layer ${layer}` }));
        for (const head of columns) {
          const canvas = node("canvas"), far = node("small"), cell = node("button", { type: "button", onclick: () => { Object.assign(state, { layer, head }); paint(); } }, canvas, typeof head === "number" ? far : "");
          ui.cells.push({ layer, head, canvas, cell, far });
          board.append(cell);
        }
      }
      ui.asked = node("p");
      ui.nearest = node("p");
      return [node("div", { className: "stack" }, ui.asked, ui.nearest, board, node("p", { className: "small", textContent: "The number below a head is the average distance, in patches, at which the patches of this image look. A head that looks at all patches equally has about half the width of the image. The mean is that of all heads of a layer. The rollout follows the means through this layer and all before it." }))];
    });
    ui.asked.textContent = `Each small map shows where ${longName(state.query)} looks. Click a map to see it large above. Click a patch above to ask another patch.`;
    const near = { far: Infinity };
    for (const { layer, head, canvas, cell, far } of ui.cells) {
      heatTiles(weightsOf(out.attention, info, { query: state.query, layer, head }).subarray(info.prefix), info.grid, canvas);
      const off = typeof head === "number" && !state.gates[(layer - 1) * info.heads + head];
      cell.classList.toggle("cut", off);
      cell.setAttribute("aria-pressed", String(layer === state.layer && head === state.head));
      if (typeof head === "number") {
        const reach = meanDistance(out.attention, info, layer, head);
        far.textContent = reach.toFixed(1);
        if (!off && reach < near.far) Object.assign(near, { far: reach, layer, head });
      }
      cell.ariaLabel = cell.title = `layer ${layer}, ${headName(head)}${typeof head === "number" ? `, patches look ${far.textContent} patches far on average` : ""}${off ? ", off" : ""}`;
    }
    const other = near.far > 2 && host.sizes?.photo ? " The model for photos has heads that look at neighbours. Choose the ship to see them." : " Choose that head and click some patches to see it.";
    ui.nearest.textContent = near.far < Infinity ? `Layer ${near.layer}, head ${near.head + 1} looks nearest, ${near.far.toFixed(1)} patches away on average.${other}` : "";
  }

  function paintWhatIf() {
    panelFor("whatif", () => {
      const count = Math.round((info.grid[0] * info.grid[1]) / 8), toggle = (text, act) => button(text, act, { ariaPressed: "false" });
      const hideBy = (sign) => () => { const order = range(state.keep.length).sort((a, b) => sign * (drawn[info.prefix + b] - drawn[info.prefix + a])).filter((n) => state.keep[n]); order.slice(0, count).forEach((n) => { state.keep[n] = 0; }); run(); };
      ui.hideMost = button(`Hide the ${count} it looks at most`, hideBy(1), { disabled: !info.can.attention || !info.can.hide });
      ui.hideLeast = button(`Hide the ${count} it looks at least`, hideBy(-1), { disabled: !info.can.attention || !info.can.hide });
      ui.each = button("Which patch does it need? Hide each alone", testEach, { disabled: !info.can.hide });
      ui.needs = node("div", { className: "shown", aria: { role: "status" } });
      ui.mix = toggle("Shuffle the patches", () => { state.seed = (state.seed % 1e6) + 1; run(); });
      ui.sort = button("In order", () => { state.seed = 0; ui.mix.focus(); run(); });
      ui.positions = toggle("Positions off", () => { state.positions = 1 - state.positions; run(); });
      ui.positions.disabled = !info.can.positions;
      ui.gates = info.can.heads ? range(info.depth * info.heads).map((i) => toggle(`${(i % info.heads) + 1}`, () => { state.gates[i] = 1 - state.gates[i]; run(); })) : [];
      const gates = node("div", { className: "grid", style: `grid-template-columns: auto repeat(${info.heads}, 40px)` }, range(info.can.heads ? info.depth : 0).flatMap((l) => [node("span", { className: "name", textContent: `layer ${l + 1}, head` }), ...ui.gates.slice(l * info.heads, (l + 1) * info.heads)]));
      gates.querySelectorAll("button").forEach((one, i) => { one.style.minHeight = "32px"; one.title = `layer ${Math.floor(i / info.heads) + 1}, head ${(i % info.heads) + 1}`; one.ariaLabel = `switch off ${one.title}`; });
      ui.moved = node("p", { className: "small" });
      return [node("div", { className: "halves" }, node("div", { className: "stack" },
        node("p", { textContent: "Change something and watch the bars. The upright mark on each bar is the probability before the change." }), ui.moved,
        node("h3", { textContent: "Hide patches" }), node("p", { className: "small", textContent: "A map of attention is only a hypothesis. Hiding patches is a test, because the model has to answer without them." }),
        node("div", { className: "row" }, button("▨ Choose patches in the image", () => { setTool("hide"); ui.over.focus(); }, { disabled: !info.can.hide }), ui.hideMost, ui.hideLeast),
        node("div", { className: "row" }, ui.each), ui.needs,
        node("h3", { textContent: "Order" }), node("div", { className: "row" }, ui.mix, ui.sort, ui.positions),
        node("p", { className: "small", textContent: "Try both together. Without positions, the order of the patches makes no difference." })),
      node("div", { className: "stack" }, node("h3", { textContent: "Switch heads off" }), info.can.heads ? gates : node("p", { className: "small", textContent: "The heads of this model cannot be switched off from outside." }), button("Everything on", () => { everythingOn(); run(); })))];
    });
    if (ui.needs.asked !== undefined && ui.needs.asked !== question()) { ui.needs.asked = undefined; ui.needs.replaceChildren(); } // it was about something else
    ui.mix.ariaPressed = String(state.seed > 0);
    ui.sort.disabled = !state.seed;
    ui.positions.ariaPressed = String(!state.positions);
    ui.gates.forEach((one, i) => { one.ariaPressed = String(!state.gates[i]); });
    if (!before) { ui.moved.textContent = ""; return; }
    const p = softmax(out.logits), best = before.indexOf(Math.max(...before)), now = p.indexOf(Math.max(...p));
    ui.moved.textContent = out.changed ? `The probability of ${info.classes[best]} was ${percent(before[best])} and is now ${percent(p[best])}.${now === best ? "" : ` It now says ${info.classes[now]}.`}` : "Nothing is changed yet.";
  }

  /** What the model is asked, but for the patches that are hidden. */
  const question = () => [pixels, state.gates, state.positions].join("|");

  /** Hide every patch that is there alone, and show how far the probability of the answer falls: the test of a map. */
  async function testEach() {
    const whole = softmax(out.logits), best = whole.indexOf(Math.max(...whole)), falls = new Float32Array(state.keep.length), by = engine, asked = { pixels, positions: state.positions, heads: state.gates.slice(), detail: false }, kept = state.keep.slice();
    const canvas = node("canvas"), words = node("figcaption");
    canvas.style.cssText = "width: 160px; aspect-ratio: 1";
    ui.needs.ariaBusy = "true"; // read out at the end only
    ui.needs.asked = question();
    ui.needs.replaceChildren(node("figure", {}, canvas, words));
    ui.each.disabled = true;
    for (const n of range(kept.length).filter((i) => kept[i])) {
      const answer = await by.run({ ...asked, keep: kept.map((x, i) => (i === n ? 0 : x)) });
      if (by !== engine || !canvas.isConnected) break;
      falls[n] = Math.max(0, whole[best] - softmax(answer.logits)[best]);
      heatTiles(falls, info.grid, canvas);
      words.textContent = `Patch ${n + 1} of ${kept.length} is hidden ...`;
    }
    ui.each.disabled = false;
    ui.needs.ariaBusy = "false";
    if (!canvas.isConnected) return;
    const most = falls.indexOf(Math.max(...falls)), others = kept.filter((x) => !x).length, besides = others ? `, besides the ${others} that ${others === 1 ? "is" : "are"} hidden,` : "";
    state.cursor = most;
    words.textContent = falls[most] < 0.005 ? "It needs no single patch. Hide several." : `It needs ${longName(info.prefix + most)} most. Without that patch${besides} “${info.classes[best]}” falls from ${percent(whole[best])} to ${percent(whole[best] - falls[most])}. Yellow is the largest fall.`;
  }

  function paintLayers() {
    panelFor("layers", () => { ui.levels = node("div", { className: "levels" }); return [node("div", { className: "stack" }, node("p", { textContent: "What would the model say if it ended after this block? What reads its answer was trained for the last block only, so early rows are only a hint." }), ui.levels)]; });
    const K = info.classes.length, rows = range(info.depth + 1).map((l) => softmax(row(out.layers, l, K)));
    ui.levels.replaceChildren(...rows.flatMap((p, l) => {
      const best = p.indexOf(Math.max(...p));
      return [node("span", { textContent: l === 0 ? "before block 1" : `after block ${l}` }), node("span", { className: "track", aria: { hidden: "true" } }, node("i", { style: `width: ${(100 * p[best]).toFixed(1)}%` })), node("span", { textContent: `${info.classes[best]}, ${percent(p[best])}` })];
    }));
  }

  // -- hands: mouse, pen, finger and keys

  const placeOf = (event, canvas) => { const box = canvas.getBoundingClientRect(); return [clamp((event.clientX - box.left) / box.width, 0, 0.998), clamp((event.clientY - box.top) / box.height, 0, 0.998)]; };
  const patchAt = ([x, y]) => Math.floor(y * info.grid[0]) * info.grid[1] + Math.floor(x * info.grid[1]);
  function beginStroke(event) {
    if (!info || event.button > 0) return;
    ui.over.setPointerCapture(event.pointerId);
    api.touched = true;
    const place = placeOf(event, ui.over);
    if (state.tool === "hide") {
      grip = { hide: 1 - state.keep[patchAt(place)] };
      state.cursor = patchAt(place);
      if (info.can.hide) { state.keep[state.cursor] = grip.hide; run(); }
      return;
    }
    if (state.sample !== null || state.photo) Object.assign(state, { kind: "drawing", sample: null, photo: null, strokes: [] });
    grip = { stroke: { points: [place], ink: state.ink } };
    if (!state.strokes.length) { pixels = rasterised([], info.size[1]); state.keep.fill(1); }
    paintPicture();
  }
  function moveStroke(event) {
    if (!grip) return;
    if (grip.stroke) {
      const between = event.getCoalescedEvents?.() ?? []; // finer than frames, where a browser has them
      for (const one of between.length ? between : [event]) grip.stroke.points.push(placeOf(one, ui.over));
      paintPicture();
      return;
    }
    const n = patchAt(placeOf(event, ui.over));
    if (info.can.hide && state.keep[n] !== grip.hide) { state.keep[n] = grip.hide; run(); }
  }
  function endStroke() {
    const done = grip?.stroke;
    grip = null;
    if (!done) { paint(); return; }
    const points = simplified(done.points, 0.006).slice(0, 400), { closed, area } = enclosesArea(points);
    const inside = area && state.pen === "solid" && closed && state.strokes.length > 0 && points.every((p) => covered(state.strokes, p));
    const how = state.pen === "line" ? (closed ? "loop" : "line") : inside ? "hole" : area ? "solid" : "line";
    state.strokes = fitted([...state.strokes, { points, ink: done.ink, how }]);
    show(false);
  }
  /** Is a point on something solid that is drawn already? */
  function covered(strokes, [x, y]) {
    const canvas = Object.assign(document.createElement("canvas"), { width: 64, height: 64 }), pen = canvas.getContext("2d", { willReadFrequently: true });
    paintStrokes(pen, strokes.filter((stroke) => stroke.how === "solid" || stroke.how === "hole"), 64);
    return pen.getImageData(Math.floor(x * 64), Math.floor(y * 64), 1, 1).data[0] > 70;
  }
  function keys(canvas, act) {
    canvas.onkeydown = (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!info || !act(event.key, step)) return;
      event.preventDefault();
      event.stopPropagation();
    };
  }
  const moved = (n, [down, right]) => clamp(Math.floor(n / info.grid[1]) + down, 0, info.grid[0] - 1) * info.grid[1] + clamp((n % info.grid[1]) + right, 0, info.grid[1] - 1);
  function listen() {
    Object.assign(ui.over, { onpointerdown: beginStroke, onpointermove: moveStroke, onpointerup: endStroke, onpointercancel: endStroke, onfocus: paint, onblur: paint });
    ui.ask.onclick = (event) => { if (info?.can.attention) { const token = patchAt(placeOf(event, ui.ask)) + info.prefix; ask(token === state.query && info.prefix ? 0 : token); } };
    keys(ui.ask, (key, step) => {
      if (!info.can.attention || !(step || key === "Home")) return false;
      ask(key === "Home" || !step ? 0 : info.prefix + (state.query < info.prefix ? 0 : moved(state.query - info.prefix, step)));
      return true;
    });
    keys(ui.over, (key, step) => {
      if (state.tool !== "hide" || !(step || key === " " || key === "Enter")) return false;
      if (step) state.cursor = moved(state.cursor, step); else if (info.can.hide) { state.keep[state.cursor] = 1 - state.keep[state.cursor]; run(); }
      paint();
      return true;
    });
    ui.stage.ondragover = (event) => { event.preventDefault(); ui.stage.classList.add("drop"); };
    ui.stage.ondragleave = () => ui.stage.classList.remove("drop");
    ui.stage.ondrop = (event) => { event.preventDefault(); event.stopPropagation(); ui.stage.classList.remove("drop"); load(event.dataTransfer.files[0]); };
    new ResizeObserver(() => { if (info && pixels) paint(); }).observe(ui.stage);
    const lighting = () => { const [r, g, b] = (getComputedStyle(ui.about).color.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number); element.classList.toggle("dark", (r + g + b) / 3 > (r <= 1 && g <= 1 && b <= 1 ? 0.5 : 127)); };
    for (const host of [document.documentElement, document.body]) new MutationObserver(lighting).observe(host, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lighting);
    lighting();
  }

  // -- the address: whoever opens it sees the same

  let writing = 0;
  function remember() {
    if (!host.address) return;
    clearTimeout(writing);
    writing = setTimeout(() => history.replaceState(null, "", address()), 300);
  }
  function address() {
    const parts = new URLSearchParams(), bits = (x) => Array.from(x).join("").replace(/.{1,4}/g, (four) => parseInt(four.padEnd(4, "0"), 2).toString(16));
    if (state.sample !== null) parts.set("sample", samples[state.sample].name); else if (state.strokes.length) parts.set("drawn", encoded(state.strokes));
    if (state.keep.some((x) => !x)) parts.set("keep", bits(state.keep));
    if (state.gates.some((x) => !x)) parts.set("heads", bits(state.gates));
    if (state.seed) parts.set("shuffle", state.seed);
    if (!state.positions) parts.set("positions", "off");
    parts.set("look", [state.query, state.layer, state.head].join("."));
    parts.set("tab", state.tab === "walk" ? `walk${state.step + 1}` : state.tab);
    return `#${parts}`;
  }
  async function recall() {
    const parts = new URLSearchParams(host.address ? location.hash.slice(1) : ""), unpacked = (text, into) => into.forEach((_, i) => { into[i] = (parseInt(text[i >> 2] ?? "f", 16) >> (3 - (i & 3))) & 1; });
    const named = samples.findIndex((sample) => sample.name === parts.get("sample")), strokes = decoded(parts.get("drawn") ?? "");
    if (strokes.length) Object.assign(state, { sample: null, strokes }); else if (samples.length) Object.assign(state, { sample: Math.max(0, named), kind: samples[Math.max(0, named)].kind ?? "drawing" }); else state.sample = null;
    if (state.kind === "photo") state.tool = "hide";
    await prepare();
    if (named >= 0 || strokes.length) api.touched = true;
    unpacked(parts.get("keep") ?? "", state.keep);
    unpacked(parts.get("heads") ?? "", state.gates);
    Object.assign(state, { seed: clamp(Number.parseInt(parts.get("shuffle") ?? 0, 10) || 0, 0, 1e6), positions: parts.get("positions") === "off" ? 0 : 1 });
    const [query, layer, head] = (parts.get("look") ?? "").split(".");
    if (layer) Object.assign(state, { query: clamp(Number(query) || 0, 0, info.prefix + state.keep.length - 1), layer: clamp(Number(layer) || 1, 1, info.depth), head: head === "rollout" || head === "mean" ? head : clamp(Number(head) || 0, 0, info.heads - 1) });
    const tab = parts.get("tab") ?? "", [, step] = tab.match(/^walk([1-7])$/) ?? [];
    if (step) state.step = Number(step) - 1; else if (tab in TABS && !ui.tabs[tab].disabled) state.tab = tab;
    if (!changed()) { await run(); return; }
    before = softmax((await engine.run({ pixels: originalPixels(), keep: state.keep.map(() => 1), positions: 1, heads: state.gates.map(() => 1), detail: false })).logits);
    await run();
  }

  const api = { state, shown: null, times: [], inside: [], touched: false, load, run, show, answer: () => ({ ...out, classes: info.classes, probabilities: softmax(out.logits) }), address };
  root.replaceChildren(node("style", { textContent: STYLE }), node("div", { className: "top" }, ...pictureCards(), looksCard(), answerCard()), ...tabs());
  state.tool = host.draws === false ? "hide" : "draw";
  ui.tools.hidden = false;
  listen();
  element.play = api;
  api.ready = recall().catch(complain);
  if (host.address) window.addEventListener("hashchange", () => { if (location.hash !== address()) recall().catch(complain); });
  return api;
}

// -- JupyterLab: Python answers

function numbersIn(view) { return new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength)); }

/** An engine that asks Python; the answer to the first picture came with the state, because messages wait while cells run. */
function engineOf(model) {
  const waiting = new Map();
  let count = 0;
  const listen = ({ id, names, error }, buffers) => {
    const [resolve, reject] = waiting.get(id) ?? [];
    waiting.delete(id);
    if (error) reject?.(new Error(error)); else resolve?.(Object.fromEntries(names.map((name, i) => [name, numbersIn(buffers[i])])));
  };
  model.on("msg:custom", listen);
  return {
    info: model.get("info"),
    first: Object.fromEntries(Object.entries(model.get("first")).map(([name, view]) => [name, numbersIn(view)])),
    run: ({ pixels, keep, positions, heads, detail }) => new Promise((resolve, reject) => {
      const id = `${++count}-${Math.random()}`;
      waiting.set(id, [resolve, reject]);
      model.send({ id, positions, detail }, undefined, [pixels, keep, heads].map((array) => Uint8Array.from(array).buffer));
    }),
    close: () => model.off("msg:custom", listen),
  };
}

export default {
  render({ model, el }) {
    const engine = engineOf(model), { draws, size } = engine.info;
    const samples = model.get("samples").map(({ name, pixels: view }) => ({ name, size, pixels: new Uint8Array(view.buffer, view.byteOffset, view.byteLength) }));
    start(el, { engine: async () => engine, samples, draws, source: model.get("source"), local: "Choose a photo, drop one on the image, or use the camera. Only your own notebook gets it." });
    return () => engine.close();
  },
};

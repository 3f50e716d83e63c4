// What the page shows, kept in the URL's hash: a link opens the same view. Unknown or broken parts are dropped, and told.

const KEYS = {
  view: "v",
  graph: "g",
  selected: "s",
  query: "q",
  open: "o",
  camera: "c",
  overlay: "m",
  reach: "r",
  other: "b",
  sort: "t",
  theme: "d",
};

export function writeHash(state) {
  const parts = [];
  for (const [name, key] of Object.entries(KEYS)) {
    const value = state[name];
    if (value !== null && value !== undefined && value !== "") parts.push(`${key}=${encodeURIComponent(value)}`);
  }
  return "#" + parts.join("&");
}

/** Other words for a view that a person may type, and those of older links. */
const ALIASES = {
  timeline: "breaks",
  recompiles: "breaks",
  frames: "breaks",
  guards: "symbols",
  nodes: "table",
  code: "source",
  changes: "diff",
};

/** `{ state, broken }`: what the hash says, and the parts of it that cannot be read. */
export function readHash(hash) {
  const state = {};
  const broken = [];
  const names = Object.fromEntries(Object.entries(KEYS).map(([n, k]) => [k, n]));
  for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
    const at = part.indexOf("=");
    // a bare word is a view: page.html#table
    const name = at < 0 ? "view" : (names[part.slice(0, at)] ?? (part.slice(0, at) in KEYS ? part.slice(0, at) : null));
    try {
      if (name) state[name] = decodeURIComponent(part.slice(at + 1));
      else broken.push(part);
    } catch {
      broken.push(part);
    }
  }
  for (const key of ["graph", "other"]) {
    if (!(key in state)) continue;
    if (!/^\d+$/.test(state[key])) broken.push(`${key} ${state[key]}`);
    state[key] = /^\d+$/.test(state[key]) ? Number(state[key]) : undefined;
  }
  if (state.view) state.view = ALIASES[state.view.toLowerCase()] ?? state.view.toLowerCase();
  return { state, broken };
}

/** Numbers as ranges in base 36: 3, 4, 5, 9 is `3-5.9`. */
export function packNumbers(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let k = 0; k < sorted.length;) {
    let end = k;
    while (sorted[end + 1] === sorted[end] + 1) end++;
    parts.push(end > k ? `${sorted[k].toString(36)}-${sorted[end].toString(36)}` : sorted[k].toString(36));
    k = end + 1;
  }
  return parts.join(".");
}

export function unpackNumbers(text, limit) {
  const out = [];
  for (const part of (text || "").split(".")) {
    if (!/^[0-9a-z]+(-[0-9a-z]+)?$/.test(part)) continue;
    const [a, b = a] = part.split("-").map((x) => parseInt(x, 36));
    for (let k = a; k <= Math.min(b, limit - 1); k++) out.push(k);
  }
  return out;
}

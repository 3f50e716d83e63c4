// What the page shows, kept in the URL's hash: a link opens the same view. Unknown or broken parts are dropped.

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
  focus: "f",
};

export function writeHash(state) {
  const parts = [];
  for (const [name, key] of Object.entries(KEYS)) {
    const value = state[name];
    if (value !== null && value !== undefined && value !== "") parts.push(`${key}=${encodeURIComponent(value)}`);
  }
  return "#" + parts.join("&");
}

export function readHash(hash) {
  const state = {};
  const names = Object.fromEntries(Object.entries(KEYS).map(([n, k]) => [k, n]));
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    const name = names[part.slice(0, at)];
    if (!name) continue;
    try {
      state[name] = decodeURIComponent(part.slice(at + 1));
    } catch {
      /* not one of ours */
    }
  }
  for (const key of ["graph", "other"])
    if (key in state) state[key] = /^\d+$/.test(state[key]) ? Number(state[key]) : undefined;
  return state;
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

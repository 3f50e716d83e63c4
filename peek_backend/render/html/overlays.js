// Colours for nodes and containers by a fact: bytes, dtype, device, and any metric that the capture brings.

import { bytesText } from "./data.js";

// Viridis (matplotlib), read at eight points: order survives every form of colour blindness and greyscale.
const SCALE = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
// Okabe and Ito's eight, https://jfly.uni-koeln.de/color/
const NAMED = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"];

export const OVERLAYS = [
  { name: "", title: "Colour: kind of op", when: () => true },
  {
    name: "bytes",
    title: "Colour: bytes",
    when: () => true,
    make: (s) => amounts(s, (i) => s.graph.value(i)?.bytes ?? null, bytesText),
  },
  { name: "dtype", title: "Colour: dtype", when: () => true, make: (s) => names(s, (i) => s.graph.value(i)?.dtype) },
  { name: "device", title: "Colour: device", when: () => true, make: (s) => names(s, (i) => s.graph.value(i)?.device) },
  {
    name: "flops",
    title: "Colour: FLOPs",
    when: (g) => !!g.metrics?.flops,
    make: (s) =>
      amounts(
        s,
        (i) => s.graph.metrics.flops[i],
        (v) => count(v, "FLOP"),
      ),
  },
  {
    name: "memory",
    title: "Colour: live memory",
    when: (g) => !!g.metrics?.memory,
    make: (s) => amounts(s, (i) => s.graph.metrics.memory[i], bytesText),
  },
];

export function overlay(name, scene, app) {
  const found = OVERLAYS.find((o) => o.name === name);
  if (!found?.make || !found.when(scene.graph, app)) return null;
  scene.overlayCache ??= new Map();
  if (!scene.overlayCache.has(name)) scene.overlayCache.set(name, found.make(scene));
  return scene.overlayCache.get(name);
}

/** A sequential scale over powers: a container's colour is that of its largest node. */
function amounts(scene, value, text) {
  const { tree, graph } = scene;
  const best = new Float64Array(graph.n + tree.G).fill(-1);
  let lo = Infinity;
  let hi = 0;
  for (let i = 0; i < graph.n; i++) {
    const v = value(i);
    if (v === null || v === undefined || tree.chip[i]) continue;
    best[i] = v;
    if (v > 0) {
      lo = Math.min(lo, v);
      hi = Math.max(hi, v);
    }
    for (let g = tree.groupOf[i]; g >= 0; g = tree.groups.parent[g]) best[graph.n + g] = Math.max(best[graph.n + g], v);
  }
  const level = (v) =>
    hi <= lo ? SCALE.length - 1 : Math.round((Math.log(Math.max(v, lo) / lo) / Math.log(hi / lo)) * (SCALE.length - 1));
  const legend =
    hi > 0
      ? SCALE.map((c, k) => [c, text(lo * (hi / lo) ** (k / (SCALE.length - 1)))])
      : [["transparent", "nothing to colour"]];
  return {
    fill: (item) => (best[item] >= 0 && hi > 0 ? SCALE[best[item] > 0 ? level(best[item]) : 0] : undefined),
    legend,
  };
}

/** A colour a name; a container takes a colour only where all its nodes agree. */
function names(scene, value) {
  const { tree, graph } = scene;
  const counts = new Map();
  const of = new Array(graph.n + tree.G);
  for (let i = 0; i < graph.n; i++) {
    const v = value(i);
    if (!v || tree.chip[i]) continue;
    of[i] = v;
    counts.set(v, (counts.get(v) ?? 0) + 1);
    for (let g = tree.groupOf[i]; g >= 0; g = tree.groups.parent[g])
      of[graph.n + g] = of[graph.n + g] === undefined || of[graph.n + g] === v ? v : null;
  }
  const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  const colour = new Map(order.map((n, k) => [n, NAMED[Math.min(k, NAMED.length - 1)]]));
  return {
    fill: (item) => (of[item] ? colour.get(of[item]) : undefined),
    legend: order.slice(0, 8).map((n) => [colour.get(n), `${n} (${counts.get(n)})`]),
  };
}

export function count(value, unit = "") {
  for (const prefix of ["", "k", "M", "G", "T", "P"]) {
    if (value < 1000 || prefix === "P")
      return `${value < 10 && prefix ? value.toFixed(1) : Math.round(value)} ${prefix}${unit}`;
    value /= 1000;
  }
}

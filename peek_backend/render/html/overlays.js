// Colours for nodes and containers by a fact: bytes, dtype, device, and any metric that the capture brings.

import { bytesText, count } from "./data.js";

// Okabe and Ito's eight, https://jfly.uni-koeln.de/color/
const NAMED = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"];

export const OVERLAYS = [
  { name: "", title: "kind of op", when: () => true },
  {
    name: "bytes",
    title: "bytes of the value",
    when: () => true,
    make: (s, dark) => amounts(s, (i) => s.graph.value(i)?.bytes ?? null, bytesText, { dark }),
  },
  { name: "dtype", title: "dtype", when: () => true, make: (s) => names(s, (i) => s.graph.value(i)?.dtype) },
  { name: "device", title: "device", when: () => true, make: (s) => names(s, (i) => s.graph.value(i)?.device) },
  {
    name: "flops",
    title: "FLOPs",
    when: (g) => g.total.flops > 0,
    make: (s, dark) => amounts(s, (i) => s.graph.metrics.flops[i], flopText, { dark, sum: true }),
  },
  {
    name: "moved",
    title: "bytes moved",
    when: (g) => !!g.metrics,
    make: (s, dark) => amounts(s, (i) => s.graph.moved(i), bytesText, { dark, sum: true }),
  },
  {
    name: "memory",
    title: "live memory",
    when: (g) => !!g.metrics?.memory,
    make: (s, dark) => amounts(s, (i) => s.graph.metrics.memory[i], bytesText, { dark }),
  },
];

export const flopText = (v) => count(v, "FLOP");

export function overlay(name, scene, app) {
  const found = OVERLAYS.find((o) => o.name === name);
  if (!found?.make || !found.when(scene.graph, app)) return null;
  const dark = app.dark();
  const key = `${name} ${dark}`;
  scene.overlayCache ??= new Map();
  if (!scene.overlayCache.has(key)) scene.overlayCache.set(key, found.make(scene, dark));
  return scene.overlayCache.get(key);
}

/**
 * A sequential scale over powers, strong where much is: dark on light ground, bright on dark. A container has the sum of its
 * nodes (`sum`), or the largest; nothing at all has no colour.
 */
function amounts(scene, value, text, { dark, sum = false }) {
  const { tree, graph } = scene;
  const { heat } = graph.capture;
  const colours = dark ? heat.dark : heat.light;
  const best = new Float64Array(graph.n + tree.G).fill(-1);
  for (let i = 0; i < graph.n; i++) {
    const v = value(i);
    if (v === null || v === undefined || v < 0 || tree.chip[i]) continue;
    best[i] = v;
    for (let g = graph.n + tree.groupOf[i]; g >= graph.n; g = graph.n + tree.groups.parent[g - graph.n])
      best[g] = sum ? Math.max(0, best[g]) + v : Math.max(best[g], v);
  }
  let lo = Infinity;
  let hi = 0;
  best.forEach((v, item) => {
    if (v <= 0 || item === tree.root) return;
    lo = Math.min(lo, v);
    hi = Math.max(hi, v);
  });
  lo = sum ? hi / heat.span : Math.max(lo, hi / heat.span);
  const last = colours.length - 1;
  const level = (v) => (hi <= lo ? last : Math.round((Math.log(Math.max(v, lo) / lo) / Math.log(hi / lo)) * last));
  return {
    fill: (item) => (best[item] > 0 ? colours[level(best[item])] : undefined),
    amount: (item) => (best[item] >= 0 ? best[item] : null),
    text: (item) => (best[item] > 0 ? text(best[item]) : ""),
    scale: hi > 0 ? { colours, lo: (sum ? "≤ " : "") + text(Math.round(lo)), hi: text(hi) } : null,
    legend: hi > 0 ? [] : [["transparent", "nothing to colour"]],
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

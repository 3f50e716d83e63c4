// Elements by hand: texts only ever go in as text nodes, so nothing in a capture can become markup.

/** `h("p.note", { onclick }, "text", child)`: tag and classes, properties and attributes, children. */
export function h(spec, ...rest) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const part of rest) add(element, part);
  return element;
}

function add(element, part) {
  if (part === null || part === undefined || part === false) return;
  if (Array.isArray(part)) for (const p of part) add(element, p);
  else if (part instanceof Node) element.append(part);
  else if (typeof part === "object") for (const [key, value] of Object.entries(part)) set(element, key, value);
  else element.append(String(part));
}

function set(element, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "class") element.className = `${element.className} ${value}`.trim();
  else if (key === "style") for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
  else if (key in element && key !== "list" && !key.startsWith("aria") && key !== "role") element[key] = value;
  else element.setAttribute(key, value === true ? "" : value);
}

export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

export const $ = (selector, root = document) => root.querySelector(selector);

const SVG = "http://www.w3.org/2000/svg";
/** A 16 px line icon from path data. */
export function icon(path) {
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "path");
  for (const [k, v] of Object.entries({
    viewBox: "0 0 16 16",
    width: 16,
    height: 16,
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 1.5,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
    "aria-hidden": "true",
  }))
    svg.setAttribute(k, v);
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

export const ICONS = {
  fit: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM11 11l3.5 3.5",
  theme: "M13.5 9.6A5.7 5.7 0 0 1 6.4 2.5a5.7 5.7 0 1 0 7.1 7.1z",
  expand: "M4 6l4 4 4-4",
  collapse: "M4 10l4-4 4 4",
  save: "M8 2v8M5 7l3 3 3-3M3 13h10",
  help: "M6 6a2 2 0 1 1 2.6 1.9c-.4.2-.6.5-.6 1.1M8 12h.01",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  copy: "M5 5V3h8v8h-2M3 5h8v8H3z",
  panel: "M2 3h12v10H2zM10 3v10",
};

/** The colour of a CSS variable where `element` stands, as `rgb(…)`: what a canvas paints with. Its own `color` is for this alone. */
export function colourOf(element, variable) {
  element.style.color = `var(${variable})`;
  const { color } = getComputedStyle(element);
  element.style.color = "";
  return color;
}

/** Runs `work` at most once a frame, however often it is asked for. */
export function perFrame(work) {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      work();
    });
  };
}

export function download(name, type, data) {
  const link = h("a", {
    href: URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type })),
    download: name,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    /* file:// without permission: the old way */
  }
  const area = h("textarea", { value: text, style: { position: "fixed", opacity: "0" } });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** Marks the sides on which a bar goes on out of sight, now and whenever that changes: they fade. */
export function fades(bar) {
  const mark = () => {
    const left = bar.scrollLeft > 2;
    const right = bar.scrollLeft + bar.clientWidth < bar.scrollWidth - 2;
    bar.dataset.more = [left && "left", right && "right"].filter(Boolean).join(" ");
  };
  bar.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(bar);
  new MutationObserver(mark).observe(bar, { childList: true });
}

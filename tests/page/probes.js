// What tests and benchmarks ask of the page, as functions of `window.probe`.

(() => {
  const { app } = window.peek;
  const view = app.graphView;
  const scene = () => view.current;

  /** Items that show, each with { item, group, open, title, times }. */
  const shown = () => {
    const found = [];
    const { layout, tree, sizes } = scene();
    layout.walk((item, x, y, box) => {
      const group = tree.isGroup(item) && item !== tree.root;
      const { title, times } = group ? sizes.groupText(item) : {};
      found.push({
        item,
        group,
        open: box.content !== null,
        title,
        times,
        fold: group && tree.groups.kind[item - tree.N] === "fold",
      });
      return true;
    });
    return found;
  };

  const label = (e) => `${e.tagName}.${e.className} ${(e.textContent || "").slice(0, 30)}`;
  const cross = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const BOXES =
    ".top > *, .tabs > button, .bar > *, .numbers > *, .list th, .grid .head > *, .tools > *, .acts > *, .card > *, .what > *";

  /** Neighbouring controls that cover each other, and what leaves the window. */
  const overlaps = () => {
    const seen = [];
    for (const element of document.querySelectorAll(BOXES)) {
      const box = element.getBoundingClientRect();
      if (box.width && box.height && !element.closest(".sr")) seen.push([element, box]);
    }
    const bad = [];
    for (const [a, boxA] of seen) {
      for (const [b, boxB] of seen) {
        if (a !== b && a.parentNode === b.parentNode && cross(boxA, boxB)) bad.push(`${label(a)} over ${label(b)}`);
      }
    }
    if (document.documentElement.scrollWidth > innerWidth + 1) bad.push("the page is wider than the window");
    for (const element of document.querySelectorAll(".top, main, .panel:not([hidden])")) {
      const { left, right } = element.getBoundingClientRect();
      if (left < -1 || right > innerWidth + 1) bad.push(`${label(element)} leaves the window`);
    }
    return bad;
  };

  /** Window coordinates of an item's top left. */
  const where = (item) => {
    const at = scene().layout.find(item);
    const { x, y, k } = view.canvas.camera;
    const { left, top } = view.canvasEl.getBoundingClientRect();
    return [left + (at.x - at.box.left) * k + x, top + at.y * k + y];
  };

  /** The same after the item was brought to the middle and painted. */
  const bring = (item) => {
    view.centre(item);
    view.paint();
    return where(item);
  };

  /** Whether a route's curve, walked in small steps, enters a rectangle. */
  const bends = (r, left, right, top, bottom) => {
    const ends = [[r[0], r[2], r[3], r[4]]];
    if (r.length === 8) ends.push([r[3], r[5], r[6], r[7]]);
    return ends.some(([x0, y0, x1, y1]) =>
      Array.from({ length: 61 }, (_, k) => k / 60).some((t) => {
        const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t ** 2 * (1 - t), t ** 3];
        const x = (a + b) * x0 + (c + d) * x1;
        const y = a * y0 + ((b + c) * (y0 + y1)) / 2 + d * y1;
        return x > left && x < right && y > top && y < bottom;
      }),
    );
  };

  /** The words that the last frame drew at edges: whether a box or its container's border crosses them, or a curve. */
  const edgeLabels = (whole = false) => {
    const { canvas } = view;
    const found = [];
    const { besideEdge } = canvas;
    canvas.besideEdge = function (content, ex, width, y, box, placed) {
      const at = besideEdge.call(this, content, ex, width, y, box, placed);
      if (!Number.isNaN(at)) found.push({ content, at, width, y, box });
      return at;
    };
    canvas.draw();
    delete canvas.besideEdge;
    if (whole) return found;
    return found.map(({ content, at, width, y, box }) => {
      const [left, right, top, bottom] = [at, at + width, y - 8, y + 2];
      const inBox = content.boxes.some((b, i) => {
        const [x0, x1] = [content.x[i] - b.left, content.x[i] + b.right];
        return x0 < right && x1 > left && content.y[i] < bottom && content.y[i] + b.height > top;
      });
      const texts = found.filter(
        (f) => f.content === content && Math.abs(f.y - y) < 9 && f.at < right && f.at + f.width > left,
      );
      const curved = content.routes.some((r) => bends(r, left, right, top, bottom));
      return {
        at,
        y,
        curved,
        crossed: inBox || texts.length > 1 || (box !== null && (left < -box.left || right > box.right)),
      };
    });
  };

  /** How many different colours the canvas shows. */
  const colours = () => {
    const { canvas } = view;
    canvas.draw();
    const { data } = canvas.ctx.getImageData(0, 0, canvas.element.width, canvas.element.height);
    const found = new Set();
    for (let i = 0; i < data.length; i += 4) found.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    return found.size;
  };

  /** Whether the address tells the camera and the theme as they are. */
  const isSaved = () => {
    const [x, y, k] = decodeURIComponent(/[#&]c=([^&]*)/.exec(location.hash)?.[1] ?? "")
      .split(",")
      .map(Number);
    const { camera, w, h } = view.canvas;
    const near = Math.abs((w / 2 - camera.x) / camera.k - x) < 1 && Math.abs((h / 2 - camera.y) / camera.k - y) < 1;
    return (
      near && Math.abs(k - camera.k) < 0.01 && location.hash.includes(`d=${document.documentElement.dataset.theme}`)
    );
  };

  const clock = (work) => {
    const start = performance.now();
    work();
    return performance.now() - start;
  };
  const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];

  /** ms of one painted frame after a move by (dx, dy); a pixel is read back, so that the raster counts. */
  const frame = (dx, dy) =>
    clock(() => {
      const { canvas } = view;
      canvas.camera.x += dx;
      canvas.camera.y += dy;
      canvas.draw();
      canvas.ctx.getImageData(0, 0, 1, 1);
    });

  /** ms of a pan frame, the median of 60. */
  const pan = () => median(Array.from({ length: 60 }, () => frame(7, -11)));

  /** The same at zooms from the whole graph to single boxes; the slowest zoom counts. */
  const panZooms = () => {
    const { canvas } = view;
    const { height } = scene().layout.box(scene().tree.root);
    const slow = [];
    for (let k = 0.002; k < 1; k *= 1.7) {
      canvas.camera = { k, x: canvas.w / 2, y: -height * 0.4 * k };
      slow.push(median(Array.from({ length: 10 }, () => frame(0, -11))));
    }
    return Math.max(...slow);
  };

  const QUERIES = ["op:linear", "mul", "module:layers.*.mlp", "shape:[1,*,512]", "dtype:f32 file:modeling"];

  /** ms of the slowest query with its redraw. */
  const search = () => {
    const times = QUERIES.map((query) => clock(() => (app.search(query, true), view.paint())));
    app.search("", true);
    return Math.max(...times);
  };

  /** ms of the slowest closed container to open, with its redraw. */
  const expand = () => {
    const closed = shown().filter((s) => s.group && !s.open && !s.fold);
    return Math.max(...closed.map(({ item }) => clock(() => (view.toggle(item), view.paint()))));
  };

  /** ms to open everything and paint the whole. */
  const expandAll = () => {
    const { tree, layout } = scene();
    const open = new Set(Array.from({ length: tree.G }, (_, g) => tree.N + g));
    return clock(() => {
      layout.setOpen(open);
      view.canvas.fit();
      view.canvas.draw();
    });
  };

  /** What the page's policy refuses of fetching, evaluating and loading an image. */
  const refused = async () => {
    const tries = {
      fetch: () => fetch("https://example.invalid/"),
      // from a timer: the debugger's own evaluations are exempt
      eval: () =>
        new Promise((ok, no) => {
          setTimeout(() => {
            try {
              ok(window["ev" + "al"]("1"));
            } catch (error) {
              no(error);
            }
          });
        }),
      image: () =>
        new Promise((ok, no) => {
          const image = new Image();
          image.onload = ok;
          image.onerror = no;
          image.src = "https://example.invalid/a.png";
        }),
    };
    const found = [];
    for (const [name, attempt] of Object.entries(tries)) await attempt().catch(() => found.push(name));
    return found;
  };

  window.probe = {
    shown,
    overlaps,
    edgeLabels,
    where,
    bring,
    colours,
    pan,
    panZooms,
    search,
    expand,
    expandAll,
    refused,
    isSaved,
  };
})();

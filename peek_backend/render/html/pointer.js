// Mouse, touch and wheel on the canvas, told as what they mean: pan, zoom, click, double click, hover.

const CLICK_SLACK = 4; // px that a click may wander

/** Distance and middle of two points. */
const spread = ([ax, ay], [bx, by]) => ({ distance: Math.hypot(ax - bx, ay - by), x: (ax + bx) / 2, y: (ay + by) / 2 });

export class Pointer {
  /** `acts`: pan(dx, dy), zoom(factor, x, y), click(x, y), double(x, y), hover(x, y), leave(); px in the element. */
  constructor(element, acts) {
    Object.assign(this, { element, acts, down: new Map(), moved: 0, last: null, distance: 0 });
    const on = (type, handler, options) => element.addEventListener(type, (e) => handler.call(this, e), options);
    on("pointerdown", this.press);
    on("pointermove", this.move);
    on("pointerup", this.release);
    on("pointercancel", this.forget);
    on("pointerleave", () => acts.leave());
    on("dblclick", (e) => acts.double(...this.at(e)));
    on("wheel", this.wheel, { passive: false });
  }

  at(e) {
    const { left, top } = this.element.getBoundingClientRect();
    return [e.clientX - left, e.clientY - top];
  }

  press(e) {
    this.element.setPointerCapture(e.pointerId);
    this.element.focus({ preventScroll: true });
    this.down.set(e.pointerId, this.at(e));
    Object.assign(this, { moved: 0, last: this.at(e), distance: 0 });
  }

  move(e) {
    if (!this.down.size) return this.acts.hover(...this.at(e));
    this.down.set(e.pointerId, this.at(e));
    if (this.down.size === 2) return this.pinch();
    const [x, y] = this.at(e);
    const [dx, dy] = [x - this.last[0], y - this.last[1]];
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.moved < CLICK_SLACK) return;
    this.last = [x, y];
    this.acts.pan(dx, dy);
  }

  pinch() {
    const { distance, x, y } = spread(...this.down.values());
    if (this.distance) this.acts.zoom(distance / this.distance, x, y);
    Object.assign(this, { distance, moved: Infinity });
  }

  release(e) {
    const single = this.down.size === 1;
    this.forget(e);
    if (single && this.moved < CLICK_SLACK) this.acts.click(...this.at(e));
  }

  forget(e) {
    this.down.delete(e.pointerId);
    if (this.down.size) this.last = this.down.values().next().value;
  }

  /** A mouse wheel zooms, a touchpad pans; pinching on one arrives as a wheel with ctrl. */
  wheel(e) {
    e.preventDefault();
    const unit = e.deltaMode === 1 ? 16 : 1;
    const [dx, dy] = [e.deltaX * unit, e.deltaY * unit];
    const touchpad = e.deltaX !== 0 || !Number.isInteger(e.deltaY) || Math.abs(e.deltaY) < 50;
    if (e.ctrlKey || e.metaKey) this.acts.zoom(Math.exp(-dy * 0.008), ...this.at(e));
    else if (e.shiftKey) this.acts.pan(-dx - dy, 0);
    else if (touchpad) this.acts.pan(-dx, -dy);
    else this.acts.zoom(Math.exp(-dy * 0.0016), ...this.at(e));
  }
}

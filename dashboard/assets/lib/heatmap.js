// One cell a node, coloured by a number: ten thousand of them on a canvas.

import { h, setText } from "./dom.js";
import { byName, number } from "./words.js";

// Dark blue, green and yellow: told apart without seeing red and green, and growing lighter in print, too.
const COLOURS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const LARGEST_CELL = 34;
const SMALLEST_CELL = 3;
const MOST_HEIGHT = 420;

export function colour(share) {
  const place = Math.min(Math.max(share, 0), 1) * (COLOURS.length - 1);
  const low = Math.min(Math.floor(place), COLOURS.length - 2);
  const mixed = COLOURS[low].map((from, channel) => Math.round(from + (COLOURS[low + 1][channel] - from) * (place - low)));
  return `rgb(${mixed.join(" ")})`;
}

// Cells are drawn with one of so many colours, which are made once.
const STEPS = Array.from({ length: 64 }, (_, step) => colour(step / 63));

export class Heatmap {
  /** `chosen(node)` is called when a cell is clicked, or Enter pressed on it. */
  constructor({ chosen }) {
    this.cells = [];
    this.at = -1;
    this.chosen = chosen;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "No nodes yet" });
    this.tip = h("p", { class: "tip", "aria-live": "polite" });
    this.low = h("span");
    this.high = h("span");
    const scale = h("canvas", { width: "160", height: "10", "aria-hidden": "true" });
    this.paintScale(scale);
    const legend = h("p", { class: "legend" }, this.low, scale, this.high, h("span", { class: "grey-cell", "aria-hidden": "true" }), "not fresh");
    this.element = h("div", { class: "heatmap" }, this.canvas, h("div", { class: "heatmap-foot" }, legend, this.tip));
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.select(-1));
    this.canvas.addEventListener("click", (event) => {
      this.point(event);
      this.choose();
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.select(-1));
    this.resized = new ResizeObserver(() => this.layOut());
    this.resized.observe(this.element);
  }

  end() {
    this.resized.disconnect();
  }

  /** `cells` are `{ node, value, state }`. The scale goes from the least to the greatest, or to where `range` says. */
  update(cells, what, range) {
    this.cells = cells.sort((one, other) => byName(one.node, other.node));
    this.what = what;
    let [low, high] = [Infinity, -Infinity];
    for (const { value } of cells) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    this.range = range || [low, high];
    const [from, to] = this.range;
    setText(this.low, Number.isFinite(from) ? number(from) : "");
    setText(this.high, Number.isFinite(to) ? number(to) : "");
    this.layOut();
    const fresh = cells.filter((cell) => cell.state === "fresh").length;
    const label = cells.length
      ? `${what} of ${cells.length} nodes, from ${number(low)} to ${number(high)}; ${fresh} are fresh. Arrow keys go from node to node.`
      : `No node has a number at ${what}`;
    this.canvas.setAttribute("aria-label", label);
    this.tell();
  }

  layOut() {
    const width = Math.floor(this.element.clientWidth);
    if (width === 0) return;
    const amount = Math.max(this.cells.length, 1);
    let size = LARGEST_CELL;
    while (size > SMALLEST_CELL && Math.ceil(amount / Math.floor(width / size)) * size > MOST_HEIGHT) size -= 1;
    this.size = size;
    this.columns = Math.max(1, Math.floor(width / size));
    const height = Math.ceil(amount / this.columns) * size;
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== width * scale || this.canvas.height !== height * scale) {
      this.canvas.width = width * scale;
      this.canvas.height = height * scale;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    this.draw(scale);
  }

  draw(scale = window.devicePixelRatio || 1) {
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const styles = getComputedStyle(this.element);
    const [grey, ink] = [styles.getPropertyValue("--cell-grey"), styles.getPropertyValue("--ink")];
    const gap = this.size > 12 ? 2 : this.size > 4 ? 1 : 0;
    const [low, high] = this.range || [0, 1];
    const width = high - low;
    this.cells.forEach(({ value, state }, place) => {
      const [x, y] = this.corner(place);
      const share = width > 0 ? (value - low) / width : 0.5;
      context.fillStyle = state === "fresh" ? STEPS[Math.round(Math.min(Math.max(share, 0), 1) * 63)] : grey;
      context.fillRect(x, y, this.size - gap, this.size - gap);
    });
    if (this.at >= 0 && this.at < this.cells.length) {
      const [x, y] = this.corner(this.at);
      context.strokeStyle = ink;
      context.lineWidth = 2;
      context.strokeRect(x, y, this.size - gap, this.size - gap);
    }
  }

  corner(place) {
    return [(place % this.columns) * this.size, Math.floor(place / this.columns) * this.size];
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    const place = Math.floor((event.clientY - box.top) / this.size) * this.columns + column;
    this.select(column < this.columns && place < this.cells.length ? place : -1);
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    if (event.key === "Enter" || event.key === " ") this.choose();
    else if (event.key in steps) {
      const next = this.at < 0 ? 0 : this.at + steps[event.key];
      if (next >= 0 && next < this.cells.length) this.select(next);
    } else if (event.key === "Home") this.select(0);
    else if (event.key === "End") this.select(this.cells.length - 1);
    else return;
    event.preventDefault();
  }

  select(place) {
    if (place === this.at) return;
    this.at = place;
    this.draw();
    this.tell();
  }

  tell() {
    const cell = this.cells[this.at];
    setText(this.tip, cell ? `${cell.node}: ${number(cell.value)}${cell.state === "fresh" ? "" : ` (${cell.state})`}` : "");
  }

  choose() {
    const cell = this.cells[this.at];
    if (cell) this.chosen(cell.node);
  }

  paintScale(canvas) {
    const context = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x += 1) {
      context.fillStyle = colour(x / canvas.width);
      context.fillRect(x, 0, 1, canvas.height);
    }
  }
}

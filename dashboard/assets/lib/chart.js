// Lines over time, by uPlot, which `index.html` loads; and sparklines, which are a path.

import { drawn, fill, h } from "./dom.js";
import { number } from "./words.js";

const LINES = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6", "--line-7", "--line-8"];

/** A chart of `{ label, points: [[seconds, value], …] }`, drawn anew by `update`. */
export class Chart {
  constructor({ label, height = 240, stepped = false, format = number }) {
    Object.assign(this, { label, height, stepped, format, plot: null, shape: null, series: [] });
    this.place = h("div", { class: "chart", role: "img", "aria-label": label });
    this.element = h("div", {}, this.place);
    this.resized = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.resized.observe(this.element);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => {
      this.shape = null;
      this.update(this.series);
    };
    this.dark.addEventListener("change", this.repaint);
  }

  end() {
    this.resized.disconnect();
    this.dark.removeEventListener("change", this.repaint);
    this.plot?.destroy();
    this.plot = null;
  }

  size() {
    return { width: Math.max(200, Math.floor(this.element.clientWidth)), height: this.height };
  }

  update(series) {
    this.series = series;
    if (!this.element.isConnected) return;
    const data = align(series);
    const shape = JSON.stringify(series.map(({ label, dashed }) => [label, dashed]));
    this.place.setAttribute("aria-label", this.summary(series));
    if (this.plot && shape === this.shape) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    fill(this.place);
    this.shape = shape;
    this.plot = new uPlot(this.options(series), data, this.place);
  }

  summary(series) {
    const said = series.map(({ label, points }) => {
      const values = points.map(([, value]) => value).filter((value) => value !== null);
      if (values.length === 0) return `${label}: nothing`;
      const [least, most] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
      return `${label}: last ${this.format(values.at(-1))}, from ${this.format(least)} to ${this.format(most)}`;
    });
    return `${this.label}. ${said.join("; ")}`;
  }

  options(series) {
    const styles = getComputedStyle(this.element);
    const [text, grid] = [styles.getPropertyValue("--muted"), styles.getPropertyValue("--border")];
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font };
    const paths = this.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
    const line = ({ label, dashed }, place) => ({
      label,
      stroke: styles.getPropertyValue(LINES[place % LINES.length]),
      width: 1.75,
      dash: dashed ? [5, 4] : undefined,
      paths,
      spanGaps: true,
      points: { show: false },
      value: (_, value) => (value === null || value === undefined ? "" : this.format(value)),
    });
    const when = (_, seconds) => (seconds ? new Date(seconds * 1000).toLocaleString() : "");
    return {
      ...this.size(),
      series: [{ label: "Time", value: when }, ...series.map(line)],
      axes: [axis, { ...axis, size: 72, values: (_, ticks) => ticks.map((tick) => this.format(tick)) }],
      scales: { y: { range: (_, low, high) => spread(low, high) } },
      cursor: { points: { size: 7 } },
    };
  }
}

// Room above and below, also for a line that is flat.
function spread(low, high) {
  if (low === null || high === null) return [0, 1];
  const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

/** One list of times, and for each series its value at each of them, or null. */
export function align(series) {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].sort((one, other) => one - other);
  const columns = series.map(({ points }) => {
    const known = new Map(points);
    return times.map((at) => known.get(at) ?? null);
  });
  return [times, ...columns];
}

/** A small line of numbers, without axes. */
export function sparkline(points) {
  const [width, height] = [96, 22];
  const drawing = drawn("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  if (points.length < 2) return drawing;
  const [first, last] = [points[0][0], points.at(-1)[0]];
  let [low, high] = [Infinity, -Infinity];
  for (const [, value] of points) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const x = (at) => ((at - first) / (last - first || 1)) * (width - 2) + 1;
  const y = (value) => (high > low ? height - 2 - ((value - low) / (high - low)) * (height - 4) : height / 2);
  const d = points.map(([at, value], place) => `${place ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  drawing.append(drawn("path", { d }));
  return drawing;
}

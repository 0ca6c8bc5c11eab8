// The origin of a value as a drawing, from left to right. Each box is a link whose title says all of it; the arrow keys go
// along the lines.

import { poll, segment } from "./api.js";
import { drawn, fill, h, note, tag } from "./dom.js";
import { layers } from "./layers.js";
import { notice } from "./notice.js";
import { originOf } from "./origin.js";
import { age, command, count, number, STATE_TONES, value as oneLine } from "./words.js";

const EVERY_MS = 5000;
const SIZE = { width: 212, height: 92, across: 44, below: 18 };
const MOST_CHARACTERS = 400;
const MAKERS = { builtin: "built-in", expr: "expression", stream: "stream" };

export class Provenance {
  constructor(name, node, signal) {
    Object.assign(this, { name, node, signal, shape: "", links: new Map(), layout: null });
    this.element = h("div", {}, note("Looking …"));
    const failed = (error) => this.say(notice(error, "Its origin"));
    poll(() => this.look(), EVERY_MS, { signal, failed });
  }

  async look() {
    const graph = await originOf(this.name, this.node, this.signal);
    const [first, ...others] = graph.boxes;
    if (!first.value && !others.length) return this.say(note(`${this.node} has no value of ${this.name}, and no registration makes it.`));
    const shape = JSON.stringify([graph.boxes.map(({ key }) => key), graph.edges]);
    if (shape !== this.shape) this.draw(graph, shape);
    for (const box of graph.boxes) this.refresh(box, graph);
  }

  say(told) {
    this.shape = "";
    fill(this.element, told);
  }

  draw(graph, shape) {
    const focused = [...this.links].find(([, link]) => link === document.activeElement)?.[0];
    this.shape = shape;
    this.links = new Map(graph.boxes.map(({ key }) => [key, h("a", { class: "origin-box" })]));
    this.layout = layers(graph.boxes.map(({ key }) => key), graph.edges, SIZE);
    const { boxes, edges, width, height } = this.layout;
    const lines = edges.map(({ points }) => drawn("path", { d: curve(points) }));
    const places = boxes.map(({ key, x, y }) => drawn("foreignObject", { x, y, width: SIZE.width, height: SIZE.height }, this.links.get(key)));
    const label = `The origin of ${this.name} of ${this.node}`;
    const drawing = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label }, drawn("g", { "aria-hidden": "true" }, lines), places);
    drawing.addEventListener("keydown", (event) => this.move(event));
    const told = note("From left to right: the value, what made it, and the values that it was made of.");
    fill(this.element, told, h("div", { class: "origin" }, drawing));
    this.links.get(focused)?.focus({ preventScroll: true });
  }

  refresh(box, graph) {
    const link = this.links.get(box.key);
    const { place, title, lines } = box.kind === "value" ? valueBox(box) : makerBox(box);
    const from = graph.edges.filter(([made]) => made === box.key).map(([, key]) => calledIn(graph, key));
    link.setAttribute("href", place);
    link.setAttribute("title", [title, from.length ? `Made of: ${from.join(", ")}` : null].filter(Boolean).join("\n"));
    link.className = `origin-box ${box.kind}`;
    // A drawing that is the same stays, so that it can be read and marked.
    const sign = lines.flat().map((part) => part?.textContent ?? part).join("\n");
    if (link.dataset.sign === sign) return;
    link.dataset.sign = sign;
    fill(link, lines.map((line, at) => h("span", { class: at === 0 ? "origin-head" : at === 1 ? "origin-text" : "origin-note" }, line)));
  }

  /** Along a line to the right or left, else to the box above or below. */
  move(event) {
    const steps = { ArrowRight: ["from", "to"], ArrowLeft: ["to", "from"] };
    const key = [...this.links].find(([, link]) => link === event.target)?.[0];
    if (!key || !(event.key in steps || event.key === "ArrowUp" || event.key === "ArrowDown")) return;
    const [here, there] = steps[event.key] ?? [];
    const at = (wanted) => this.layout.boxes.find((box) => box.key === wanted);
    const column = this.layout.boxes.filter(({ x }) => x === at(key).x);
    const near = here
      ? this.layout.edges.filter((edge) => edge[here] === key).map((edge) => at(edge[there])).sort((one, other) => one.y - other.y)[0]
      : column[column.indexOf(at(key)) + (event.key === "ArrowDown" ? 1 : -1)];
    if (near) this.links.get(near.key).focus();
    event.preventDefault();
  }
}

function curve(points) {
  return points.map(([x, y], at) => {
    if (at === 0) return `M${x} ${y}`;
    const [before, height] = points[at - 1];
    const middle = (before + x) / 2;
    return `C${middle} ${height} ${middle} ${y} ${x} ${y}`;
  }).join("");
}

function calledIn({ boxes }, key) {
  const box = boxes.find((one) => one.key === key);
  return box.kind === "value" ? `${box.name} of ${box.node}` : `a run of ${box.name}`;
}

const shortened = (text) => (text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)} …` : text);

function valueBox({ name, node, value, binding }) {
  const place = `#/data/${segment(name)}/${segment(node)}`;
  const serves = binding ? `, serves ${binding.to}${binding.field ?? ""}` : "";
  if (!value) return { place, title: `${node} has no value of ${name}`, lines: [[h("strong", {}, name), tag("missing", "bad")], ["no such value"], [`of ${node}${serves}`]] };
  const text = shortened(oneLine(value.dataValue));
  const how = binding || value.provenance ? "" : ", written directly";
  return { place, title: text, lines: [[h("strong", {}, name), tag(value.state, STATE_TONES[value.state])], [text], [`of ${node}${serves || `${how || ","} ${age(value.collectedAt)} ago`}`]] };
}

function makerBox({ name, run, registration, at, more }) {
  const exit = run?.exit && run.exit !== "exit 0" ? tag(run.exit, "bad") : null;
  const word = registration ? (MAKERS[registration.mode] ?? "command") : "run";
  const version = run?.version === undefined ? "" : `, version ${run.version}`;
  const text = registration ? command(registration.cmd) : "no longer registered";
  const took = run?.durationMs === undefined ? "" : `, took ${number(run.durationMs)} ms`;
  const did = run ? `${run.run === undefined ? "run" : `run ${number(run.run)}`}${version}` : "no value for this node yet";
  const rest = more ? `; ${count(more, "more input")} not drawn` : "";
  const where = run?.node ? ` on ${run.node}` : "";
  return {
    place: registration ? `#/registrations/${segment(name)}` : `#/data/${segment(name)}`,
    title: shortened(`The ${word} ${text}${run ? `: ${did}${where}, ${age(at)} ago${took}` : ""}${rest}`),
    lines: [[h("strong", {}, word), exit], [text], [`${did}${rest}`]],
  };
}

// Bindings: the names that schedulers read, what each serves, what else it could serve, and its swaps.

import { ask, get, json, poll, segment } from "../lib/api.js";
import { announce, button, confirm, dialog, facts, fill, h, link, note, section, setText, tag } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { LiveValues } from "../lib/live.js";
import { notice } from "../lib/notice.js";
import { Table } from "../lib/table.js";
import { age, byName, count, instant, number, numericParts, part, STATE_TONES, value as oneLine } from "../lib/words.js";

const EVERY_MS = 3000;
// As many candidates stand side by side.
const MOST_CANDIDATES = 6;

export async function show(place, [name], signal) {
  return name ? showOne(place, name, signal) : showAll(place, signal);
}

const at = (name) => `#/estimators/${segment(name)}`;
const target = ({ to, field }) => (field ? `${to}${field}` : to);

function showAll(place, signal) {
  const table = new Table({
    label: "Bindings",
    empty: "No name is bound. A binding is a name that schedulers read, while the estimator behind it can be swapped.",
    key: ({ dataName }) => dataName,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Name", cell: ({ dataName }) => link(dataName, at(dataName)), sign: ({ dataName }) => dataName, order: ({ dataName }) => dataName },
      { title: "Serves", cell: (binding) => target(binding) },
      { title: "Since", cell: ({ since }) => `${age(since)} ago`, order: ({ since }) => -Date.parse(since) },
      { title: "Before", cell: ({ before }) => (before ? target(before) : "") },
    ],
  });
  const list = h("div", {}, note("Looking …"));
  fill(place, h("h1", {}, "Estimators"), section("Bindings", { tools: button("Bind a name", () => bindDialog({}, signal), { class: "primary" }) }, list));
  const look = async () => {
    const all = await get("/api/bindings", { signal });
    if (!table.element.isConnected) fill(list, table.element);
    table.update(all);
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(list, notice(error, "The list of bindings")) });
}

const forced = (is) => (is ? "?force=true" : "");

/** A box to tick, and the line with it. */
function forceBox() {
  const box = h("input", { type: "checkbox", id: "force" });
  return { box, line: h("p", { class: "check" }, box, h("label", { for: "force" }, "Also if its readers lose all values")) };
}

/** Asks for a name and a target, and binds it. */
function bindDialog(given, signal, done = () => {}) {
  dialog(given.name ? `What \`${given.name}\` serves` : "Bind a name", (close) => {
    const form = new Form({
      label: "Binding",
      word: "Bind",
      aliases: { dataName: "name" },
      fields: [
        { name: "name", label: "Name", value: given.name, hint: "The name that schedulers read" },
        { name: "to", label: "Serves the values of", value: given.to, list: [] },
        { name: "field", label: "Only the part", value: given.field, hint: "A JSON pointer such as /value; empty: the whole value" },
        { name: "force", label: "Also if its readers would lose all values", kind: "check" },
      ],
      more: [button("Cancel", close)],
      submit: async (filled) => {
        const name = filled.value("name") ?? "";
        const response = await ask("PUT", `/api/bindings/${segment(name) || "-"}${forced(filled.value("force"))}`, { body: { to: filled.value("to"), field: filled.value("field"), from: given.from } });
        announce(response.headers.get("Estimand-Hint") || `${name} is bound`);
        close();
        if (done() !== true) location.hash = at(name);
      },
    });
    get("/api/data/names", { signal }).then((all) => {
      fill(form.input("to").list, all.filter(({ boundTo }) => !boundTo).map(({ dataName }) => h("option", { value: dataName })));
    }).catch(() => {});
    return form.element;
  });
}

async function showOne(place, name, signal) {
  const now = h("div", {}, note("Looking …"));
  const tools = h("div", { class: "buttons" });
  const compared = h("div", {}, note("Looking …"));
  const choice = h("div", { class: "tools" });
  const past = h("div", {});
  fill(place, h("p", { class: "path" }, link("Estimators", "#/estimators"), ` / ${name}`), h("h1", {}, name), tools,
    section("Now", {}, now), section("Candidates side by side", { tools: choice }, compared), section("Swaps", {}, past));
  let sign = "";
  let candidates = null;
  let watching = new AbortController();
  signal.addEventListener("abort", () => watching.abort());

  const compare = (binding) => {
    watching.abort();
    watching = new AbortController();
    const side = new Comparison(name, binding, candidates, (candidate) => swap(name, binding, candidate, side, look));
    fill(compared, side.element);
    const failed = (error) => fill(compared, notice(error, "The comparison"));
    const names = [...new Set(candidates.map(({ to }) => to))];
    new LiveValues(names, { signal: watching.signal, changed: ({ values }) => side.update(values), failed });
  };

  const look = async () => {
    const binding = await get(`/api/bindings/${segment(name)}`, { signal });
    const seen = JSON.stringify(binding);
    if (seen === sign) return;
    sign = seen;
    const swaps = await get(`/api/bindings/${segment(name)}/history?limit=50`, { signal });
    fill(now, facts([
      ["Serves", link(target(binding), `#/data/${segment(binding.to)}`)],
      ["Since", `${instant(binding.since)} (${age(binding.since)} ago)`],
      ["Before", binding.before ? target(binding.before) : "nothing else"],
      ["Revision", number(binding.revision)],
    ]));
    fill(tools,
      button("Swap to another", () => bindDialog({ name, to: "", from: binding.to }, signal, () => { look(); return true; })),
      binding.before ? button(`Roll back to ${target(binding.before)}`, () => rollBack(name, binding, look)) : null,
      link("Values", `#/data/${segment(name)}`, { class: "button" }),
      button("Unbind", () => unbind(name), { class: "danger" }));
    fill(past, h("ul", { class: "lines" }, swaps.map((swap) => h("li", {}, tag(swap.action), ` ${target(swap)} by ${swap.by}, ${instant(swap.at)}`))));
    candidates = gather(binding, swaps, candidates);
    const others = h("select", { "aria-label": "Add a candidate" }, h("option", { value: "" }, "Add a candidate …"));
    others.addEventListener("change", () => {
      if (!others.value || candidates.length >= MOST_CANDIDATES) return;
      const { to, field } = JSON.parse(others.value);
      if (!candidates.some((one) => one.to === to && one.field === field)) candidates.push({ to, field });
      others.value = "";
      compare(binding);
    });
    fill(choice, others);
    offer(others, signal).catch(() => {});
    compare(binding);
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(now, notice(error, "This binding")) });
}

/** What is bound now, what was before, and what was added by hand; each once. */
function gather(binding, swaps, added) {
  const all = [binding, binding.before, ...(added ?? []), ...swaps.filter(({ to }) => to)].filter(Boolean);
  const seen = new Map();
  for (const { to, field } of all) if (!seen.has(target({ to, field }))) seen.set(target({ to, field }), { to, field });
  return [...seen.values()].slice(0, MOST_CANDIDATES);
}

/** Names whose values are numbers, or have parts that are. */
async function offer(select, signal) {
  const names = (await get("/api/data/names", { signal })).filter(({ boundTo }) => !boundTo).slice(0, 60);
  for (const { dataName } of names) {
    const [sample] = await get(`/api/data?dataName=${segment(dataName)}&limit=1`, { signal });
    if (!sample) continue;
    for (const pointer of numericParts(sample.dataValue).slice(0, 6)) {
      const candidate = { to: dataName, field: pointer || undefined };
      select.append(h("option", { value: JSON.stringify(candidate) }, target(candidate)));
    }
  }
}

/** The values of candidates by node, and how far each is from what is bound. */
class Comparison {
  constructor(name, binding, candidates, swap) {
    this.candidates = candidates;
    this.bound = candidates.findIndex((one) => target(one) === target(binding));
    this.rows = [];
    const columns = candidates.map((candidate, place) => ({
      title: target(candidate), class: place === this.bound ? "number bound" : "number",
      cell: ({ values }) => this.cell(values[place]), sign: ({ values }) => JSON.stringify([values[place]?.state, values[place]?.shown]),
      order: ({ values }) => (typeof values[place]?.shown === "number" ? values[place].shown : -Infinity),
    }));
    const node = { title: "Node", cell: ({ node: named }) => named, order: ({ node: named }) => named };
    this.table = new Table({ label: `Candidates of ${name}`, columns: [node, ...columns], key: ({ node: named }) => named, empty: "None of them has a value.", sorted: { place: 0, down: false } });
    this.said = candidates.map(() => h("p", { class: "note" }));
    const cards = candidates.map((candidate, place) => h("div", { class: place === this.bound ? "candidate bound" : "candidate" },
      h("h3", {}, target(candidate)), this.said[place],
      place === this.bound ? tag("bound now", "good") : button(`Swap to ${target(candidate)}`, () => swap(candidate))));
    this.element = h("div", {}, h("div", { class: "candidates" }, cards), this.table.element);
  }

  cell(value) {
    if (!value) return h("span", { class: "note" }, "no value");
    return [oneLine(value.shown), value.state === "fresh" ? null : [" ", tag(value.state, STATE_TONES[value.state])]];
  }

  update(values) {
    const nodes = new Set();
    for (const { to } of this.candidates) for (const node of values.get(to)?.keys() ?? []) nodes.add(node);
    this.rows = [...nodes].map((node) => ({ node, values: this.candidates.map(({ to, field }) => {
      const value = values.get(to)?.get(node);
      const shown = value && part(value.dataValue, field);
      return shown === undefined ? null : { shown, state: value.state };
    }) }));
    this.table.update(this.rows);
    this.candidates.forEach((candidate, place) => setText(this.said[place], this.change(place).text));
  }

  /** What would be another if this candidate were bound. */
  change(place) {
    const have = this.rows.filter(({ values }) => values[place]).length;
    const without = this.rows.filter(({ values }) => values[this.bound] && !values[place]).map(({ node }) => node).sort(byName);
    const both = this.rows.map(({ values }) => [values[this.bound]?.shown, values[place]?.shown]).filter((pair) => pair.every((value) => typeof value === "number"));
    const moved = both.filter(([now, then]) => now !== then);
    const most = Math.max(0, ...moved.map(([now, then]) => Math.abs(now - then)));
    const text = [`${count(have, "node")} with a value`];
    if (place !== this.bound && both.length) text.push(moved.length ? `another value for ${moved.length}, by ${number(most)} at most` : "the same value everywhere");
    if (place !== this.bound && without.length) text.push(`none for ${count(without.length, "node")} that ${without.length === 1 ? "has" : "have"} one now`);
    return { text: text.join("; "), without };
  }
}

function swap(name, binding, candidate, side, look) {
  const place = side.candidates.indexOf(candidate);
  const { text, without } = side.change(place);
  const told = [h("p", {}, `Whoever reads \`${name}\` gets ${target(candidate)} from then on: ${text}.`)];
  if (without.length) told.push(h("p", {}, `Without a value: ${without.slice(0, 12).join(", ")}${without.length > 12 ? ", …" : ""}`));
  const { box, line } = forceBox();
  if (without.length) told.push(line);
  confirm(`Swap ${name}?`, told, "Swap it", async () => {
    const response = await ask("PUT", `/api/bindings/${segment(name)}${forced(box.checked)}`, { body: { to: candidate.to, field: candidate.field, from: binding.to } });
    announce(response.headers.get("Estimand-Hint") || `${name} serves ${target(candidate)}`);
    await look();
  });
}

function rollBack(name, binding, look) {
  const { box, line } = forceBox();
  confirm(`Roll back ${name}?`, [h("p", {}, `It serves ${target(binding.before)} again.`), line], "Roll it back", async () => {
    await json("POST", `/api/bindings/${segment(name)}/rollback${forced(box.checked)}`, { body: { from: binding.to } });
    announce(`${name} serves ${target(binding.before)} again`);
    await look();
  });
}

function unbind(name) {
  confirm(`Unbind ${name}?`, h("p", {}, "Who reads it finds no values any more."), "Unbind it", async () => {
    await ask("DELETE", `/api/bindings/${segment(name)}`);
    announce(`${name} is unbound`);
    location.hash = "#/estimators";
  });
}

// Every name with its values: by node with age and state, over time, and where a value comes from.

import { get, poll, segment } from "../lib/api.js";
import { Chart, sparkline } from "../lib/chart.js";
import { facts, fill, h, link, note, section, setText, tag } from "../lib/dom.js";
import { history, LiveValues } from "../lib/live.js";
import { notice } from "../lib/notice.js";
import { Provenance } from "../lib/provenance.js";
import { filterBox, Table } from "../lib/table.js";
import { age, byName, count, instant, number, numericParts, part, STATE_TONES, value as oneLine } from "../lib/words.js";

const EVERY_MS = 3000;
const AGES_EVERY_MS = 1000;
// As many nodes are drawn at first; more lines cannot be told apart.
const DRAWN_AT_FIRST = 8;
const PAST = "15m";
const PAST_ENTRIES = 20_000;
const SPARK_POINTS = 120;

export async function show(place, [name, node], signal) {
  if (name && node) return showValue(place, name, node, signal);
  if (name) return showName(place, name, signal);
  return showNames(place, signal);
}

function showNames(place, signal) {
  let wanted = "";
  let all = [];
  const table = new Table({
    label: "Names",
    empty: "No name fits.",
    key: ({ dataName }) => dataName,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Name", cell: ({ dataName }) => link(dataName, `#/data/${segment(dataName)}`), sign: ({ dataName }) => dataName, order: ({ dataName }) => dataName },
      { title: "Nodes", class: "number", cell: ({ values }) => number(values), order: ({ values }) => values },
      { title: "State", cell: ({ states }) => tags(states), sign: ({ states }) => JSON.stringify(states), order: ({ states }) => (states.failed || 0) * 1e6 + (states.stale || 0) },
      { title: "Serves", cell: ({ dataName, boundTo }) => (boundTo ? link(boundTo, `#/estimators/${segment(dataName)}`) : ""), sign: ({ boundTo }) => boundTo ?? "" },
      { title: "Changed", cell: ({ changedAt }) => (changedAt ? `${age(changedAt)} ago` : ""), order: ({ changedAt }) => Date.parse(changedAt) },
    ],
  });
  const list = h("div", {}, note("Looking …"));
  const update = () => table.update(all.filter(({ dataName }) => dataName.toLowerCase().includes(wanted)));
  const filter = filterBox("Find a name", (text) => { wanted = text; update(); });
  fill(place, h("h1", {}, "Data"), section("Names", { tools: filter }, list));
  const look = async () => {
    all = await get("/api/data/names", { signal });
    if (!table.element.isConnected) fill(list, table.element);
    update();
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(list, notice(error, "The list of names")) });
}

const tags = (states) => Object.entries(states).filter(([, amount]) => amount).map(([state, amount]) => tag(`${number(amount)} ${state}`, STATE_TONES[state]));

function head(place, name, rest) {
  fill(place, h("p", { class: "path" }, link("Data", "#/data"), " / ", rest ? link(name, `#/data/${segment(name)}`) : name), h("h1", {}, rest || name));
}

async function showName(place, name, signal) {
  head(place, name);
  const parts = h("select", { "aria-label": "Part of the value", hidden: true });
  const body = h("div", {}, note("Looking …"));
  place.append(body);
  const chart = new Chart({ label: `${name} over time` });
  signal.addEventListener("abort", () => chart.end());
  const chartNote = h("p", { class: "note" });
  const past = new Map();
  let drawn = null;
  let wanted = "";
  let latest = null;

  const points = (node) => past.get(node) || [];
  const numberOf = (row) => part(row.dataValue, parts.value);
  const table = new Table({
    label: `Values of ${name}`,
    empty: "No node has a value of it.",
    key: ({ nodeName }) => nodeName,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Node", cell: ({ nodeName }) => link(nodeName, `#/data/${segment(name)}/${segment(nodeName)}`), sign: ({ nodeName }) => nodeName, order: ({ nodeName }) => nodeName },
      { title: "Value", class: "value", cell: ({ dataValue }) => oneLine(dataValue), order: (row) => { const found = numberOf(row); return typeof found === "number" ? found : oneLine(row.dataValue); } },
      { title: "Lately", class: "lately", cell: ({ nodeName }) => sparkline(points(nodeName).slice(-SPARK_POINTS)), sign: ({ nodeName }) => points(nodeName).at(-1)?.join() ?? "" },
      { title: "State", cell: ({ state }) => tag(state, STATE_TONES[state]), sign: ({ state }) => state, order: ({ state }) => state },
      { title: "Age", class: "number", cell: ({ collectedAt }) => age(collectedAt), order: ({ collectedAt }) => -Date.parse(collectedAt) },
    ],
  });
  const amount = h("span", { class: "note" });
  const update = () => {
    if (!latest) return;
    const rows = [...latest.values()];
    table.update(wanted ? rows.filter(({ nodeName }) => nodeName.toLowerCase().includes(wanted)) : rows);
    setText(amount, count(rows.length, "node"));
  };
  const draw = () => {
    const nodes = drawn || [...(latest?.keys() || [])].sort(byName).slice(0, DRAWN_AT_FIRST);
    const series = nodes.map((node) => ({ label: node, points: points(node) })).filter((line) => line.points.length);
    const hasAny = series.some((line) => line.points.length > 1);
    chart.element.hidden = !hasAny;
    setText(chartNote, hasAny ? (latest && latest.size > nodes.length ? `The first ${nodes.length} of ${latest.size} nodes are drawn; each node has a page of its own.` : "")
      : "There is no past to draw yet: what changes from now on is drawn. A registration with a history keeps its past.");
    if (hasAny) chart.update(series);
  };
  const loadPast = async () => {
    past.clear();
    drawn = null;
    if (latest.size <= 200) {
      for (const [node, line] of await history(name, { field: parts.value, since: PAST, limit: PAST_ENTRIES, signal })) past.set(node, line);
    } else {
      const some = [...latest.keys()].sort(byName).slice(0, DRAWN_AT_FIRST);
      await Promise.all(some.map(async (node) => {
        const found = await history(name, { node, field: parts.value, since: PAST, signal });
        past.set(node, found.get(node) || []);
      }));
    }
  };
  const keep = (values) => {
    for (const value of values) {
      const found = numberOf(value);
      if (typeof found !== "number") continue;
      if (!past.has(value.nodeName)) past.set(value.nodeName, []);
      const line = past.get(value.nodeName);
      const at = Date.parse(value.collectedAt) / 1000;
      if (!line.length || line.at(-1)[0] < at) line.push([at, found]);
      if (line.length > 2000) line.shift();
    }
  };
  const filter = filterBox("Find a node", (text) => { wanted = text; update(); });
  const changed = async ({ values }) => {
    const isFirst = latest === null;
    latest = values.get(name);
    if (isFirst) {
      const sample = latest.values().next().value;
      const found = sample ? numericParts(sample.dataValue) : [];
      fill(parts, found.map((pointer) => h("option", { value: pointer }, pointer || "the value itself")));
      parts.hidden = found.length < 2;
      const values = section("Values", { tools: h("div", { class: "tools" }, amount, filter) }, table.element);
      fill(body, found.length ? section("Over time", { tools: parts }, chart.element, chartNote) : null, values);
      if (found.length) await loadPast().catch(() => {});
    }
    keep(latest.values());
    update();
    draw();
  };
  parts.addEventListener("change", async () => {
    await loadPast().catch(() => {});
    keep(latest.values());
    update();
    draw();
  });
  new LiveValues([name], { signal, changed, failed: (error) => fill(body, notice(error, `\`${name}\``)) });
  poll(async () => update(), AGES_EVERY_MS, { signal });
}

async function showValue(place, name, node, signal) {
  head(place, name, node);
  const now = h("div", {}, note("Looking …"));
  const chart = new Chart({ label: `${name} of ${node} over time` });
  signal.addEventListener("abort", () => chart.end());
  const over = section("Over time", {}, chart.element);
  over.hidden = true;
  const origin = new Provenance(name, node, signal);
  place.append(section("Now", {}, now), over, section("Where it comes from", {}, origin.element));
  let past = null;
  const changed = async ({ values }) => {
    const value = values.get(name).get(node);
    if (!value) return fill(now, note(`${node} has no value of ${name}.`));
    fill(now, h("pre", { class: "json" }, JSON.stringify(value.dataValue, null, 2)), facts([
      ["State", tag(value.state, STATE_TONES[value.state])],
      ["Collected", `${instant(value.collectedAt)} (${age(value.collectedAt)} ago)`],
      ["Received", instant(value.receivedAt)],
      ["Valid for", value.validFor === null ? "ever" : `${number(value.validFor)} s`],
      ["Revision", number(value.revision)],
    ]));
    const found = numericParts(value.dataValue).slice(0, 8);
    if (past === null) {
      past = new Map(found.map((pointer) => [pointer, []]));
      for (const pointer of found) {
        const before = await history(name, { node, field: pointer, since: PAST, signal }).catch(() => new Map());
        past.set(pointer, before.get(node) || []);
      }
    }
    for (const [pointer, line] of past) {
      const at = Date.parse(value.collectedAt) / 1000;
      const current = part(value.dataValue, pointer);
      if (typeof current === "number" && (!line.length || line.at(-1)[0] < at)) line.push([at, current]);
    }
    const series = [...past].map(([pointer, points]) => ({ label: pointer || name, points }));
    over.hidden = !series.some(({ points }) => points.length > 1);
    if (!over.hidden) chart.update(series);
  };
  const failed = (error) => fill(now, notice(error, `\`${name}\``));
  new LiveValues([name], { node, signal, changed, failed });
}

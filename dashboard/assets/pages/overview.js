// What the cluster is doing: nodes as a heat map, counts by state, what fails and why, what runs.

import { get, poll, Problem, query } from "../lib/api.js";
import { fill, h, link, note, section, setText, tag } from "../lib/dom.js";
import { Heatmap } from "../lib/heatmap.js";
import { LiveValues } from "../lib/live.js";
import { notice } from "../lib/notice.js";
import { Table } from "../lib/table.js";
import { age, command, count, numericParts, number } from "../lib/words.js";

const EVERY_MS = 3000;
// The manager looks at every instance for the answer.
const INSTANCES_EVERY_MS = 5000;
const CLOCK_IS_OFF_MS = 1000;
const ALIVE = "PLACED,ACCEPTED,PREPARING,RUNNING,STOPPING,LOST,QUEUED";
const MOST_TASKS = 200;
// The first of these that has a number is what the map shows at first.
const FIRST_CHOICES = [["cpu", "/usageFraction"], ["load", "/one"]];

export async function show(place, _, signal) {
  const cards = h("div", { class: "tiles" });
  const failing = h("div", {}, note("Looking …"));
  const running = h("div", {}, note("Looking …"));
  fill(place,
    h("h1", {}, "Overview"),
    cards,
    heatmapCard(signal),
    h("div", { class: "columns" },
      section("Failing", {}, failing),
      section("Running and waiting", {}, running)));
  const tiles = new Tiles(cards);
  watchNames(tiles, signal);
  watchInstances(tiles, failing, signal);
  watchTasks(tiles, running, signal);
}

/** The counts at the top; each is there as soon as it is known. */
class Tiles {
  constructor(place) {
    this.place = place;
    this.tiles = new Map();
    for (const [name, place] of [["Nodes", "#/data"], ["Values", "#/data"], ["Instances", "#/registrations"], ["Tasks", "#/tasks"]]) {
      const amount = h("strong", {}, "–");
      const parts = h("span", { class: "parts" });
      this.tiles.set(name, { amount, parts });
      this.place.append(h("a", { class: "tile", href: place }, h("span", { class: "name" }, name), amount, parts));
    }
  }

  /** `parts` are `[amount, word, tone]`; those of nothing are not shown. */
  set(name, amount, parts) {
    const tile = this.tiles.get(name);
    setText(tile.amount, amount);
    const sign = JSON.stringify(parts);
    if (tile.sign === sign) return;
    tile.sign = sign;
    fill(tile.parts, parts.filter(([some]) => some).map(([some, word, tone]) => tag(`${number(some)} ${word}`, tone)));
  }
}

function watchNames(tiles, signal) {
  const look = async () => {
    const all = await get("/api/data/names", { signal });
    const own = all.filter((name) => !name.boundTo);
    const sum = (state) => own.reduce((total, name) => total + (name.states[state] || 0), 0);
    const values = own.reduce((total, name) => total + name.values, 0);
    tiles.set("Values", number(values), [[sum("fresh"), "fresh", "good"], [sum("stale"), "stale", "warn"], [sum("failed"), "failed", "bad"], [sum("node-lost"), "of lost nodes", "bad"]]);
  };
  poll(look, EVERY_MS, { signal, failed: () => tiles.set("Values", "–", []) });
}

function watchInstances(tiles, failing, signal) {
  const table = new Table({
    label: "Registrations that fail",
    empty: "Nothing fails.",
    key: ({ dataName }) => dataName,
    columns: [
      { title: "Name", cell: ({ dataName }) => link(dataName, `#/registrations/${encodeURIComponent(dataName)}`), sign: ({ dataName }) => dataName },
      { title: "Where", cell: ({ troubled, instances }) => `${number(troubled)} of ${count(instances, "node")}` },
      { title: "Why", class: "wide", cell: why, sign: ({ first }) => JSON.stringify(first) },
    ],
  });
  const look = async () => {
    const [nodes, all] = await Promise.all([get("/api/nodes", { signal }), get("/api/mng/instances/summary", { signal })]);
    const lost = nodes.filter((node) => node.state === "lost");
    const cordoned = nodes.filter((node) => node.cordoned).length;
    tiles.set("Nodes", number(nodes.length), [[nodes.length - lost.length, "ready", "good"], [lost.length, "lost", "bad"], [cordoned, "cordoned", "warn"]]);
    const sum = (field) => all.reduce((total, one) => total + (one[field] ?? 0), 0);
    tiles.set("Instances", number(sum("instances")), [[sum("instances") - sum("troubled") - sum("absent"), "well", "good"], [sum("absent"), "n/a", "plain"], [sum("troubled"), "failing", "bad"]]);
    const troubled = all.filter((one) => one.troubled > 0);
    const off = nodes.filter((node) => Math.abs(node.clockAheadMs ?? 0) >= CLOCK_IS_OFF_MS);
    fill(clocksOff, off.length ? `${count(off.length, "clock")} off from the manager's, by which values are corrected: ${off.slice(0, 8).map((node) => `${node.nodeName} (${number(Math.abs(node.clockAheadMs) / 1000)} s ${node.clockAheadMs < 0 ? "behind" : "ahead"})`).join(", ")}${off.length > 8 ? ", …" : ""}` : "");
    clocksOff.hidden = !off.length;
    const lostRows = lost.length ? [{ dataName: "", lost }] : [];
    if (!table.element.isConnected) fill(failing, table.element, nodesLost, clocksOff);
    table.update(troubled);
    fill(nodesLost, lostRows.length ? `${count(lost.length, "node")} lost: ${lost.slice(0, 8).map((node) => `${node.nodeName} (${age(node.lastHeartbeat)})`).join(", ")}${lost.length > 8 ? ", …" : ""}` : "");
    nodesLost.hidden = !lostRows.length;
  };
  const nodesLost = h("p", { class: "notice bad", hidden: true });
  const clocksOff = h("p", { class: "notice", hidden: true });
  const failed = (error) => fill(failing, notice(error, "The list of failures"));
  poll(look, INSTANCES_EVERY_MS, { signal, failed });
}

function why({ first }) {
  if (!first) return "";
  const tail = first.stderrTail?.trim();
  return [
    h("p", {}, `${first.nodeName}: ${first.trouble}`),
    tail ? h("details", {}, h("summary", {}, "Standard error"), h("pre", {}, tail)) : null,
  ];
}

function watchTasks(tiles, running, signal) {
  const table = new Table({
    label: "Tasks that are not over",
    empty: "No task runs or waits.",
    key: ({ id }) => id,
    columns: [
      { title: "Task", cell: ({ id }) => link(id, `#/tasks/${encodeURIComponent(id)}`), sign: ({ id }) => id },
      { title: "State", cell: ({ state }) => state },
      { title: "Node", cell: ({ node, waits }) => node || waits || "" },
      { title: "Command", class: "wide", cell: ({ document }) => command(document.command ?? document.image) },
    ],
  });
  const look = async () => {
    const page = await get(query("/api/tasks", { state: ALIVE, limit: MOST_TASKS }), { signal });
    const more = page.next ? "+" : "";
    const queued = page.tasks.filter((task) => task.state === "QUEUED").length;
    tiles.set("Tasks", `${page.tasks.length}${more}`, [[page.tasks.length - queued, "placed", "good"], [queued, "queued", "plain"]]);
    if (!table.element.isConnected) fill(running, table.element);
    table.update(page.tasks);
  };
  const failed = (error) => {
    tiles.set("Tasks", "–", []);
    fill(running, notice(error, "The list of tasks"));
  };
  poll(look, EVERY_MS, { signal, failed });
}

function heatmapCard(signal) {
  const names = h("select", { "aria-label": "Value" });
  const parts = h("select", { "aria-label": "Part of the value" });
  const told = h("p", { class: "note" }, "Looking for values …");
  const map = new Heatmap({ chosen: (node) => { location.hash = `#/data/${encodeURIComponent(names.value)}/${encodeURIComponent(node)}`; } });
  map.element.hidden = true;
  signal.addEventListener("abort", () => map.end());
  let watching = new AbortController();
  // By hand: then nothing else chooses any more.
  let chosen = false;
  signal.addEventListener("abort", () => watching.abort());

  const choosePart = () => {
    watching.abort();
    watching = new AbortController();
    const [name, field] = [names.value, parts.value];
    const changed = ({ values }) => {
      const cells = [];
      for (const value of values.get(name).values()) {
        if (typeof value.dataValue === "number") cells.push({ node: value.nodeName, value: value.dataValue, state: value.state });
      }
      map.element.hidden = cells.length === 0;
      told.hidden = cells.length !== 0;
      setText(told, "No node has a number there now.");
      map.update(cells, name + field);
    };
    const failed = (error) => { told.hidden = false; fill(told, notice(error, "The map")); };
    new LiveValues([name], { field: field || undefined, signal: watching.signal, changed, failed });
  };

  const chooseName = async (wanted) => {
    const name = names.value;
    const sample = await get(query("/api/data", { dataName: name, limit: 1 }), { signal });
    // Somebody chose another one meanwhile.
    if (names.value !== name) return;
    const found = sample.length ? numericParts(sample[0].dataValue) : [];
    fill(parts, found.map((pointer) => h("option", { value: pointer }, pointer || "the value itself")));
    parts.disabled = found.length < 2;
    if (found.includes(wanted)) parts.value = wanted;
    if (found.length) return choosePart();
    watching.abort();
    map.element.hidden = true;
    told.hidden = false;
    setText(told, sample.length ? "These values have no number." : "There are no values of it yet.");
  };

  const begin = async () => {
    const all = (await get("/api/data/names", { signal })).map(({ dataName }) => dataName);
    if (all.length === 0) throw new Problem(404, { detail: "There are no values yet." });
    fill(names, all.map((name) => h("option", { value: name }, name)));
    if (chosen) return;
    const [name, field] = FIRST_CHOICES.find(([name]) => all.includes(name)) || await firstNumber(all, signal);
    // That took a while, too.
    if (chosen) return;
    names.value = name;
    await chooseName(field);
  };
  names.addEventListener("change", () => {
    chosen = true;
    chooseName("").catch((error) => setText(told, error.message));
  });
  // Names that came since.
  names.addEventListener("focus", async () => {
    const known = new Set([...names.options].map(({ value }) => value));
    const all = await get("/api/data/names", { signal }).catch(() => []);
    for (const { dataName } of all) if (!known.has(dataName)) names.append(h("option", { value: dataName }, dataName));
  });
  parts.addEventListener("change", choosePart);
  const started = new AbortController();
  signal.addEventListener("abort", () => started.abort());
  poll(async () => { await begin(); started.abort(); }, EVERY_MS, { signal: started.signal, failed: (error) => fill(told, error.status === 404 ? error.message : notice(error, "The map")) });
  const tools = h("div", { class: "tools" }, names, parts);
  return section("Nodes", { tools }, told, map.element);
}

// Of the names whose values have one, the first.
async function firstNumber(names, signal) {
  for (const name of names.slice(0, 20)) {
    const sample = await get(query("/api/data", { dataName: name, limit: 1 }), { signal });
    const found = sample.length ? numericParts(sample[0].dataValue) : [];
    if (found.length) return [name, found[0]];
  }
  return [names[0], ""];
}

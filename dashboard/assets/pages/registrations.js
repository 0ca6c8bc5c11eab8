// Registrations: what is registered and how it goes, changes of it, and a run by hand.

import { ask, get, json, poll, Problem, segment } from "../lib/api.js";
import { action, announce, button, confirm, facts, fill, h, link, note, section, tag } from "../lib/dom.js";
import { notice } from "../lib/notice.js";
import { registrationForm } from "../lib/registration_form.js";
import { runOnce } from "../lib/run_once.js";
import { filterBox, Table } from "../lib/table.js";
import { age, command, instant, number, span, value as oneLine } from "../lib/words.js";

const EVERY_MS = 3000;

export async function show(place, [name, act], signal) {
  if (name === "+new") return showForm(place, null, signal);
  if (name && act === "edit") return showForm(place, name, signal);
  if (name) return showOne(place, name, signal);
  return showAll(place, signal);
}

const at = (name, act) => `#/registrations/${segment(name)}${act ? `/${act}` : ""}`;

/** When it runs, in a few words. */
function every(registered) {
  if (registered["max-Time"]) return `every ${span(registered["max-Time"])}`;
  if (registered.gap) return `${typeof registered.gap === "number" ? span(registered.gap) : registered.gap} after each end`;
  return registered.schedule ?? "";
}

function showAll(place, signal) {
  let wanted = "";
  let rows = [];
  const table = new Table({
    label: "Registrations",
    empty: "No registration fits.",
    key: ({ dataName }) => dataName,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Name", cell: ({ dataName }) => link(dataName, at(dataName)), sign: ({ dataName }) => dataName, order: ({ dataName }) => dataName },
      { title: "Well", cell: health, sign: (row) => JSON.stringify([row.paused, row.health]), order: ({ health }) => health?.troubled ?? 0 },
      { title: "Kind", cell: ({ kind, mode }) => `${kind}, ${mode}`, order: ({ kind, mode }) => kind + mode },
      { title: "When", cell: every },
      { title: "Changed", cell: ({ updatedAt }) => `${age(updatedAt)} ago`, order: ({ updatedAt }) => -Date.parse(updatedAt) },
      { title: "Command", class: "wide", cell: ({ cmd }) => h("code", {}, command(cmd)), sign: ({ cmd }) => command(cmd) },
    ],
  });
  const list = h("div", {}, note("Looking …"));
  const update = () => table.update(rows.filter((row) => row.dataName.toLowerCase().includes(wanted)));
  const filter = filterBox("Find a name", (text) => { wanted = text; update(); });
  const tools = h("div", { class: "tools" }, filter, link("New registration", at("+new"), { class: "button primary" }));
  fill(place, h("h1", {}, "Registrations"), section("All", { tools }, list));
  const look = async () => {
    const [all, healths] = await Promise.all([get("/api/registry", { signal }), summary(signal)]);
    rows = all.map((registered) => ({ ...registered, health: healths.get(registered.dataName) }));
    if (!table.element.isConnected) fill(list, table.element);
    update();
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(list, notice(error, "The list of registrations")) });
}

async function summary(signal) {
  const all = await get("/api/mng/instances/summary", { signal }).catch((error) => {
    // Where no manager is, what is registered can be seen all the same.
    if (error instanceof Problem) return [];
    throw error;
  });
  return new Map(all.map((one) => [one.dataName, one]));
}

function health({ paused, health: one }) {
  if (paused) return tag("paused", "warn");
  if (!one) return tag("nowhere", "plain");
  // Where there is nothing to measure nothing is amiss, and nothing is well.
  const here = one.instances - (one.absent ?? 0);
  if (here === 0) return tag("n/a", "plain");
  return tag(`${here - one.troubled}/${here}`, one.troubled ? "bad" : "good");
}

async function showOne(place, name, signal) {
  const title = h("h1", {}, name);
  const told = h("div", {}, note("Looking …"));
  const tools = h("div", { class: "buttons" });
  const instances = h("div", {}, note("Looking …"));
  const past = h("div", {});
  fill(place, h("p", { class: "path" }, link("Registrations", "#/registrations"), ` / ${name}`), title, tools,
    section("Registration", {}, told), section("On nodes", {}, instances), section("Run it once", {}, byHand(name, signal)), section("History", {}, past));
  const table = instanceTable(name);
  const load = async () => {
    const registered = await get(`/api/registry/${segment(name)}`, { signal });
    fill(tools,
      link("Edit", at(name, "edit"), { class: "button" }),
      link("Values", `#/data/${segment(name)}`, { class: "button" }),
      action(registered.paused ? "Resume" : "Pause", () => change(name, { paused: registered.paused ? null : true }, told).then(load)),
      button("Delete", () => remove(name), { class: "danger" }));
    fill(told, described(registered));
    const changes = await get(`/api/registry/${segment(name)}/history`, { signal });
    fill(past, h("ul", { class: "lines" }, changes.map(({ action: what, at: when, by, version }) => h("li", {}, `version ${version} `, tag(what), ` by ${by}, ${instant(when)}`))));
  };
  await load().catch((error) => fill(told, notice(error, "This registration")));
  const look = async () => {
    const found = await get(`/api/mng/instances?dataName=${segment(name)}`, { signal });
    if (!table.element.isConnected) fill(instances, table.element);
    table.update(found);
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(instances, notice(error, "The list of instances")) });
}

function described(registered) {
  const { dataName, cmd, version, createdAt, updatedAt, ...rest } = registered;
  const shown = Object.entries(rest).filter(([, given]) => given !== null && given !== undefined);
  return [
    h("pre", {}, command(cmd)),
    facts([
      ...shown.map(([field, given]) => [field, oneLine(given)]),
      ["version", number(version)],
      ["registered", instant(createdAt)],
      ["changed", instant(updatedAt)],
    ]),
  ];
}

async function change(name, patch, told) {
  try {
    await json("PATCH", `/api/registry/${segment(name)}`, { body: patch, headers: { "Content-Type": "application/merge-patch+json" } });
    announce(patch.paused ? `${name} is paused` : `${name} runs again`);
  } catch (error) {
    fill(told, notice(error, "This change"));
    throw error;
  }
}

function remove(name) {
  const force = h("input", { type: "checkbox", id: "force" });
  const text = [
    h("p", {}, `\`${name}\` ends on all nodes and is forgotten. Its values stay for an hour, its past stays.`),
    h("p", { class: "check" }, force, h("label", { for: "force" }, "Also if others read it or bindings serve it")),
  ];
  confirm(`Delete ${name}?`, text, "Delete it", async () => {
    const response = await ask("DELETE", `/api/registry/${segment(name)}${force.checked ? "?force=true" : ""}`);
    announce(response.headers.get("Estimand-Hint") || `${name} is deleted`);
    location.hash = "#/registrations";
  });
}

function instanceTable(name) {
  return new Table({
    label: `Instances of ${name}`,
    empty: "It runs on no node.",
    key: ({ nodeName }) => nodeName,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Node", cell: ({ nodeName }) => nodeName, order: ({ nodeName }) => nodeName },
      { title: "Now", cell: ({ doing, nodeState }) => (nodeState === "lost" ? "node lost" : doing), order: ({ doing }) => doing },
      { title: "Last run", cell: ({ lastStart, lastExit, lastDurationMs }) => (lastStart ? `${age(lastStart)} ago, ${lastExit ?? ""}${lastDurationMs === undefined ? "" : ` in ${number(lastDurationMs)} ms`}` : "none yet") },
      { title: "Runs", class: "number", cell: ({ runs }) => number(runs), order: ({ runs }) => runs },
      { title: "Failed", class: "number", cell: ({ failures }) => number(failures), order: ({ failures }) => failures },
      { title: "Says", class: "wide", cell: says, sign: ({ lastError, note: remark, stderrTail, failing }) => JSON.stringify([failing > 0 && lastError, remark, stderrTail]) },
    ],
  });
}

function says({ failing, lastError, note: remark, stderrTail }) {
  return [
    failing > 0 && lastError ? h("p", { class: "bad" }, lastError) : null,
    remark ? h("p", { class: "note" }, remark) : null,
    stderrTail?.trim() ? h("details", {}, h("summary", {}, "Standard error"), h("pre", {}, stderrTail)) : null,
  ];
}

function byHand(name, signal) {
  const run = (node) => json("POST", `/api/mng/instances/${segment(name)}/${segment(node)}/run`, { signal });
  const { tools, result } = runOnce({ word: "Run it once", run }, signal);
  return [note("Nothing of it is stored."), h("div", { class: "tools" }, tools), result];
}

async function showForm(place, name, signal) {
  const path = h("p", { class: "path" }, link("Registrations", "#/registrations"), name ? [" / ", link(name, at(name))] : "", name ? " / edit" : " / new");
  const body = h("div", {}, note("Looking …"));
  fill(place, path, h("h1", {}, name ? `Edit ${name}` : "New registration"), section("Fields", {}, body));
  try {
    const registered = name ? await get(`/api/registry/${segment(name)}`, { signal }) : null;
    fill(body, registrationForm(registered, signal, (saved) => { location.hash = at(saved.dataName); }));
  } catch (error) {
    fill(body, notice(error, "This registration"));
  }
}

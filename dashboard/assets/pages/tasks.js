// Tasks: the queue, one task with the reason of its place and its log, new ones, and the ledger over time.

import { ask, freshKey, get, json, pause, poll, Problem, query, seen, segment, watch } from "../lib/api.js";
import { sparkline } from "../lib/chart.js";
import { action, announce, button, confirm, facts, fill, h, link, note, section, setText, tag } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { LedgerChart } from "../lib/ledger.js";
import { notice } from "../lib/notice.js";
import { Paging } from "../lib/paging.js";
import { Table } from "../lib/table.js";
import { age, amount, bytes, command, count, instant, number, STATE_TONES } from "../lib/words.js";

const EVERY_MS = 5000;
const MOST = 100;
const OVER = ["SUCCEEDED", "FAILED", "CANCELLED"];
const FILTERS = [["", "all"], ["QUEUED,PLACED,ACCEPTED,PREPARING,RUNNING,STOPPING,LOST", "not over"], ["QUEUED", "queued"], ["RUNNING", "running"], ["FAILED", "failed"], ["SUCCEEDED", "succeeded"], ["CANCELLED", "cancelled"]];
const WAIT_MS = 20_000;
// The points of a curve.
const MOST_POINTS = 1000;
// The lines of a log that are kept on the page.
const MOST_LINES = 5000;

export async function show(place, [id], signal) {
  if (id === "+new") return showNew(place, signal);
  return id ? showOne(place, id, signal) : showAll(place, signal);
}

const at = (id) => `#/tasks/${segment(id)}`;

function showAll(place, signal) {
  const table = new Table({
    label: "Tasks",
    empty: "There are no such tasks.",
    key: ({ id }) => id,
    columns: [
      { title: "Task", cell: ({ id }) => link(id, at(id)), sign: ({ id }) => id, order: ({ id }) => id },
      { title: "State", cell: (task) => [stateTag(task), barOf(task)], sign: ({ state, ending, states, progress }) => JSON.stringify([state, ending, states, progress]), order: ({ state }) => state },
      { title: "Node", cell: ({ node, waits }) => node ?? waits ?? "", order: ({ node }) => node ?? "" },
      { title: "User", cell: ({ document }) => document.user ?? "", order: ({ document }) => document.user ?? "" },
      { title: "Submitted", cell: ({ submittedAt }) => `${age(submittedAt)} ago`, order: ({ submittedAt }) => Date.parse(submittedAt) },
      { title: "Command", class: "wide", cell: ({ document }) => h("code", {}, commandOf(document)), sign: ({ document }) => commandOf(document) },
    ],
  });
  const filter = h("select", { "aria-label": "Which tasks" }, FILTERS.map(([states, word]) => h("option", { value: states }, word)));
  const list = h("div", {}, note("Looking …"));
  const tools = h("div", { class: "tools" }, filter, link("New task", "#/tasks/+new", { class: "button primary" }));
  const capacity = h("div", {}, note("Looking …"));
  const ledger = new LedgerChart(signal);
  const paging = new Paging("Pages of tasks", () => look().catch(failed));
  fill(place, h("h1", {}, "Tasks"), section("Queue", { tools }, list, paging.element), section("Ledger", { tools: ledger.tools }, ledger.element), section("Capacity of nodes", {}, capacity));
  let due = null;
  const look = async () => {
    const [state, before] = [filter.value, paging.before];
    const page = await get(query("/api/tasks", { state, limit: MOST, before }), { signal });
    if (state !== filter.value || !paging.show(before, page.next)) return;
    if (!table.element.isConnected) fill(list, table.element);
    table.update(page.tasks);
  };
  const failed = (error) => fill(list, notice(error, "The list of tasks"));
  const soon = () => {
    due ??= setTimeout(() => {
      due = null;
      look().catch(() => {});
    }, 200);
  };
  filter.addEventListener("change", () => paging.go([]));
  poll(look, EVERY_MS, { signal, failed });
  watch("/api/tasks/watch", soon, { signal }).catch(() => {});
  signal.addEventListener("abort", () => clearTimeout(due));
  showCapacity(capacity, signal);
}

/** How far a task that is not over says it is; nothing where it does not say of how much. */
function barOf({ state, progress, states }) {
  if (states && Object.keys(states).length) return null;
  return progress && !OVER.includes(state) ? bar(progress) : null;
}

function bar({ step, of }) {
  if (step === undefined || !(of > 0)) return null;
  const words = `${step} of ${of}`;
  return h("progress", { class: "bar", max: "1", value: String(Math.min(Math.max(step / of, 0), 1)), title: words, "aria-label": words });
}

/** How far a task said it is: its step, a bar and its values. */
function stepsOf(progress) {
  if (!progress) return null;
  const { step, of, values, at: when, missing } = progress;
  const steps = step === undefined ? null : of === undefined ? `step ${step}` : `${step} of ${of}`;
  const told = Object.entries(values ?? {}).map(([name, value]) => `${name} ${value}`);
  return [[steps, ...told, `${age(when)} ago`].filter(Boolean).join(", "), " ", bar(progress), missing ? " (reports before it are missing)" : null];
}

function commandOf(document) {
  return [document.image, command(document.command)].filter(Boolean).join(": ");
}

function stateTag({ state, ending, states, notBefore }) {
  if (states && Object.keys(states).length) return Object.entries(states).map(([name, some]) => tag(`${some} ${name}`, STATE_TONES[name]));
  const end = state === "FAILED" && ending ? ` (${endingOf(ending)})` : "";
  const later = state === "QUEUED" && notBefore && Date.parse(notBefore) > Date.now() ? " again soon" : "";
  return tag(state + end + later, STATE_TONES[state] ?? "plain");
}

/** How it ended, in words. */
function endingOf(ending) {
  if (typeof ending === "string") return ending.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const [[kind, value]] = Object.entries(ending);
  return { exit: `exit code ${value}`, signal: `signal ${value}`, notStarted: `not started: ${value}`, dependency: `because of ${value}`, promise: `promise ${value}` }[kind] ?? `${kind} ${value}`;
}

function showCapacity(place, signal) {
  const table = new Table({
    label: "Capacity of nodes",
    empty: "No node takes tasks.",
    key: ({ node }) => node,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Node", cell: ({ node }) => node, order: ({ node }) => node },
      { title: "State", cell: ({ standing }) => tag(standing, STATE_TONES[standing]), sign: ({ standing }) => standing, order: ({ standing }) => standing },
      { title: "Tasks", class: "number", cell: ({ tasks }) => number(tasks), order: ({ tasks }) => tasks },
      { title: "Free", class: "wide", cell: ({ capacity, free }) => Object.entries(capacity).filter(([name]) => name !== "tasks").map(([name, all]) => `${name} ${amount(name, free[name] ?? 0)} of ${amount(name, all)}`).join(", ") },
    ],
  });
  const look = async () => {
    const nodes = await get("/api/capacity", { signal });
    if (!table.element.isConnected) fill(place, table.element);
    table.update(nodes);
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(place, notice(error, "Capacity")) });
}

async function showOne(place, id, signal) {
  const tools = h("div", { class: "buttons" });
  const told = h("div", {}, note("Looking …"));
  const why = h("div", {});
  const past = h("div", {});
  const log = h("div", {}, note("Looking …"));
  const logCard = section("Log", {}, log);
  const curves = new Curves(id, signal);
  const curveCard = section("Progress", {}, curves.element);
  curveCard.hidden = true;
  fill(place, h("p", { class: "path" }, link("Tasks", "#/tasks"), ` / ${id}`), h("h1", {}, id), tools,
    section("Task", {}, told), curveCard, section("Why here", {}, why), logCard, section("What happened", {}, past));
  let sign = "";
  let followed = false;
  const look = async () => {
    const task = await get(`/api/tasks/${segment(id)}`, { signal });
    const seen = JSON.stringify(task);
    if (seen === sign) return;
    sign = seen;
    const isArray = Boolean(task.states && Object.keys(task.states).length);
    fill(tools,
      OVER.includes(task.state) ? null : button("Cancel", () => cancel(id, look), { class: "danger" }),
      action("Submit it again", () => again(task, told)),
      OVER.includes(task.state) ? button("Delete", () => remove(id), { class: "danger" }) : null);
    fill(told, factsOf(task));
    fill(why, reason(task));
    fill(past, h("ul", { class: "lines" }, (task.transitions ?? []).map(happened)));
    logCard.hidden = isArray;
    if (!followed && !isArray) {
      followed = true;
      follow(id, log, signal);
    }
    // Without its curves a task's page is what it was.
    if (task.progress) curveCard.hidden = !(await curves.read().catch(() => false));
  };
  poll(look, 1500, { signal, failed: (error) => fill(told, notice(error, "This task")) });
}

/** The values that a task told, each as a curve over time. */
class Curves {
  constructor(id, signal) {
    Object.assign(this, { id, signal, after: undefined, points: new Map() });
    this.element = h("div", {});
  }

  /** Reads what was told since, in a few pages at most; true if there is a curve. */
  async read() {
    for (let pages = 0; pages < 5; pages += 1) {
      const page = await get(query("/api/tasks/progress", { id: this.id, after: this.after, limit: MOST_POINTS }), { signal: this.signal });
      for (const { at: when, values } of page.reports) {
        for (const [name, value] of Object.entries(values ?? {})) this.add(name, [Date.parse(when) / 1000, value]);
      }
      this.after = page.next;
      if (page.next >= page.revision) break;
    }
    const curves = [...this.points].filter(([, points]) => points.length > 1);
    fill(this.element, facts(curves.map(([name, points]) => [name, [sparkline(points), ` ${number(points.at(-1)[1])}`]])));
    return curves.length > 0;
  }

  add(name, point) {
    const points = this.points.get(name) ?? [];
    points.push(point);
    this.points.set(name, points.slice(-MOST_POINTS));
  }
}

function factsOf(task) {
  const { command: _, id: __, resources, ...rest } = task.document;
  return [
    h("pre", {}, commandOf(task.document)),
    facts([
      ["State", stateTag(task)],
      ["Node", task.node],
      ["Array", task.array ? link(task.array, at(task.array)) : null],
      ["Waits", task.waits],
      ["Comes after", task.awaits?.join(", ")],
      ["Needs", Object.entries(resources ?? {}).map(([name, some]) => `${name} ${name === "memory" && typeof some === "number" ? bytes(some) : some}`).join(", ")],
      ["Attempt", task.attempt > 1 ? number(task.attempt) : null],
      ["Progress", stepsOf(task.progress)],
      ["No progress", task.progressProblem],
      ["Last end", task.ending ? endingOf(task.ending) + wanting(task) : null],
      ["Its program", task.program ? endingOf(task.program) : null],
      ...usageOf(task.used?.at(-1)?.usage, resources ?? {}),
      ["Submitted", `${instant(task.submittedAt)} by ${task.submittedBy}`],
      ["Over", task.endedAt ? instant(task.endedAt) : null],
      ...Object.entries(rest).filter(([, value]) => value !== null && JSON.stringify(value) !== "{}" && JSON.stringify(value) !== "[]").map(([field, value]) => [field, typeof value === "string" ? value : JSON.stringify(value)]),
    ]),
  ];
}

/** The limit and the peak of an attempt that ended for want of memory. */
function wanting({ ending, used, attempt }) {
  const last = used?.at(-1);
  if (ending !== "outOfMemory" || last?.attempt !== attempt || last.usage.memoryLimit === undefined) return "";
  return `: limit ${bytes(last.usage.memoryLimit)}, peak ${bytes(last.usage.memoryPeak)}`;
}

/** The usage of the last attempt, beside what was asked for. */
function usageOf(usage, asked) {
  if (!usage) return [];
  const of = (amount, text) => (amount === undefined ? "" : `asked ${text(amount)}, `);
  const [cpu, ran] = [(usage.cpuUserUs + usage.cpuSystemUs) / 1e6, usage.ranUs / 1e6];
  const size = (amount) => (typeof amount === "number" ? bytes(amount) : amount);
  const mean = usage.memoryMean === undefined ? "" : `, ${bytes(usage.memoryMean)} on average`;
  const cache = usage.memoryCache ? `; page cache ${bytes(usage.memoryCache)}` : "";
  return [
    ["Processor", `${of(asked.cpu, number)}used ${ran ? number(cpu / ran) : 0}: ${number(cpu)} s in ${number(ran)} s`],
    ["Memory", usage.memoryPeak === undefined ? null : `${of(asked.memory, size)}used ${bytes(usage.memoryPeak)}${mean}${cache}`],
    ["Disk", `read ${bytes(usage.diskRead)}, written ${bytes(usage.diskWritten)}`],
  ];
}

/** The decision by which it is where it is: what the policy knew of the node it chose, and of others. */
function reason({ why, waits, node }) {
  if (!why) return note(waits ? `It waits: ${waits}.` : node ? "No decision is kept of it." : "It was placed nowhere yet.");
  const pressure = ({ fact }) => (fact?.thousandths === undefined ? "not known" : number(fact.thousandths / 1000));
  const rows = [why.chosen, ...(why.others ?? [])].map((one, place) => h("tr", {},
    h("th", { scope: "row" }, one.node, place === 0 ? [" ", tag("chosen", "good")] : null),
    [pressure(one), left(one.score), measure(one.score), number(one.score?.tasks ?? 0)].map((text) => h("td", { class: "number" }, text))));
  const heads = ["Node", "Pressure measured", "Left of what it asks for", "Score with it", "Tasks there"].map((text, place) => h("th", { scope: "col", class: place ? "number" : "" }, text));
  return [
    why.promise ? h("p", {}, `It runs on the promise ${why.promise}.`) : h("p", {}, "The policy ", h("code", {}, why.policy), ` chose it among ${count(why.nodes, "node")} with room.`),
    h("div", { class: "scrolled", role: "region", tabindex: "0", "aria-label": "Alternatives" }, h("table", {}, h("caption", { class: "unseen" }, "Alternatives"),
      h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))),
  ];
}

// The part of the fullest resource that the task leaves, which goes before the score; in millionths, none if the policy goes by no fit.
const left = (score) => (score?.left === undefined ? "" : `${number(score.left / 10_000)} %`);

// By what the policy ranks, in thousandths: the less the better.
const measure = (score) => (score?.unknown ? "not known" : number((score?.measure ?? 0) / 1000));

function happened({ at: when, from, to, cause, actor }) {
  const by = typeof actor === "string" ? actor : Object.entries(actor ?? {}).map(([kind, name]) => `${kind} ${name}`).join(", ");
  return h("li", {}, `${instant(when)}: ${from} to `, tag(to, STATE_TONES[to] ?? "plain"), ` ${cause?.event ?? ""}, by ${by}`);
}

/** The part of a line that a terminal shows: what follows its last carriage return. */
function onTerminal(text) {
  return text.split("\r").findLast((part) => part) ?? "";
}

/** Shows a log while it is written. It stays at its end unless somebody reads further up. */
async function follow(id, place, signal) {
  const text = h("pre", { class: "log", tabindex: "0", role: "log", "aria-label": `Log of ${id}` });
  const told = h("p", { class: "note" });
  // Lines that have not ended stand behind the others until they are there as such.
  const unfinished = h("span", { class: "open" });
  text.append(unfinished);
  let from = 0;
  let open = 0;
  let shown = 0;
  let attempt = 0;
  while (!signal.aborted) {
    await seen(signal);
    try {
      const page = await get(query(`/api/tasks/${segment(id)}/logs`, { from, open, limit: 1000, waitMs: shown ? WAIT_MS : undefined }), { signal });
      if (!text.isConnected) fill(place, told, text);
      const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
      for (const line of page.lines) {
        const written = line.text || !line.dropped ? `${onTerminal(line.text)}${line.partial ? "" : "\n"}` : "";
        const dropped = line.dropped ? `… ${line.dropped} lines were dropped …\n` : "";
        unfinished.before(h("span", { class: line.stream === "STDERR" ? "stderr" : "" }, dropped + written));
      }
      while (text.childElementCount > MOST_LINES) text.firstElementChild.remove();
      fill(unfinished, (page.open ?? []).map((line) => h("span", { class: line.stream === "STDERR" ? "stderr" : "" }, `${line.text}\n`)));
      if (atEnd) text.scrollTop = text.scrollHeight;
      from = page.next;
      open = page.openRevision ?? 0;
      shown += page.lines.length + (page.open ?? []).length;
      attempt = 0;
      setText(told, page.over ? (shown ? "" : "It wrote nothing.") : "It is followed while it is written.");
      if (page.over && page.lines.length === 0) return;
      if (!shown) await pause(700, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status < 500) {
        fill(place, notice(error, "The log"));
        return;
      }
      attempt += 1;
      await pause(Math.min(10_000, 500 * 2 ** attempt), signal).catch(() => {});
    }
  }
}

function cancel(id, look) {
  confirm(`Cancel ${id}?`, h("p", {}, "It is ended, or does not begin."), "Cancel it", async () => {
    await json("POST", `/api/tasks/${segment(id)}/cancel`);
    announce(`${id} is cancelled`);
    await look();
  });
}

function remove(id) {
  confirm(`Delete ${id}?`, h("p", {}, "It is forgotten, with its log."), "Delete it", async () => {
    await ask("DELETE", `/api/tasks/${segment(id)}`);
    announce(`${id} is deleted`);
    location.hash = "#/tasks";
  });
}

/** The same document under a new name. Values of secrets are shown to nobody, so they cannot be sent again. */
async function again(task, told) {
  const { id: _, ...document } = task.document;
  try {
    if (document.secrets?.length) throw new Problem(400, { detail: `its secrets (${document.secrets.join(", ")}) are not known here; submit it where they are` });
    const made = await json("POST", "/api/tasks", { body: document, headers: { "Idempotency-Key": freshKey() } });
    announce(`submitted ${made.id}`);
    location.hash = at(made.id);
  } catch (error) {
    told.prepend(notice(error, "Submitting it again"));
  }
}

function showNew(place, signal) {
  // Sent again after a lost answer it is the same task.
  let key = freshKey();
  const form = new Form({
    label: "New task",
    word: "Submit",
    aliases: { "resources.cpu": "cpu", "resources.memory": "memory" },
    changed: () => { key = freshKey(); },
    fields: [
      { name: "command", label: "Command", kind: "area", wide: true, hint: "A command line; no shell is started. /bin/sh -c '…' starts one" },
      { name: "id", label: "Name", hint: "Empty: one is made" },
      { name: "cpu", label: "Processors", kind: "number", hint: "Such as 0.5" },
      { name: "memory", label: "Memory", hint: "Such as 256MiB" },
      { name: "nodes", label: "Nodes", hint: "By labels, such as zone=a; empty: any" },
      { name: "count", label: "How many", kind: "number", hint: "More than one is an array" },
      { name: "timeout", label: "Timeout", hint: "Such as 10m" },
      { name: "others", label: "Further fields", kind: "json", wide: true, hint: "As JSON: environment, retries, after, image, policy, priority, labels, promise and others" },
    ],
    submit: async (filled) => {
      const of = (name) => filled.value(name);
      const others = of("others") ?? {};
      const resources = { ...others.resources, cpu: of("cpu"), memory: of("memory") };
      const document = { ...others, command: of("command")?.trim(), id: of("id"), nodes: of("nodes"), count: of("count"), timeout: of("timeout") };
      if (Object.values(resources).some((value) => value !== undefined)) document.resources = resources;
      const response = await ask("POST", "/api/tasks", { body: document, headers: { "Idempotency-Key": key }, signal });
      const made = await response.json();
      announce(response.headers.get("Estimand-Hint") || `submitted ${made.id}`);
      location.hash = at(made.id);
    },
  });
  fill(place, h("p", { class: "path" }, link("Tasks", "#/tasks"), " / new"), h("h1", {}, "New task"), section("Fields", {}, form.element));
}

// Jobs of the scheduler: how a job's items are divided among the nodes, and how far each is. A job is two names, `JOB.part` and
// `JOB.work`; the values of nodes say all of it.

import { get, poll, query, segment } from "../lib/api.js";
import { facts, fill, h, link, note, section, tag } from "../lib/dom.js";
import { LiveValues } from "../lib/live.js";
import { notice } from "../lib/notice.js";
import { Table } from "../lib/table.js";
import { age, byName, count, number, span, STATE_TONES } from "../lib/words.js";

const EVERY_MS = 3000;
// The facts that a plan is made of, under the names that a scheduler reads unless it is told others.
const HOLDS = "data_distribution";
const CAPABILITY = "node_capability";
const TONES = { working: "good", starting: "plain", waiting: "plain" };

export async function show(place, [job], signal) {
  return job ? showJob(place, job, signal) : showJobs(place, signal);
}

/** The job that a name belongs to; workers of several groups have a name each, `JOB.work.GROUP`. */
const jobOf = (name) => name.match(/^(.+)\.(?:part|work)$/)?.[1] ?? name.match(/^(.+)\.work\.[^.]+$/)?.[1];

async function namesByJob(signal) {
  const jobs = new Map();
  for (const { dataName } of await get("/api/data/names", { signal })) {
    const job = jobOf(dataName);
    if (job) jobs.set(job, [...(jobs.get(job) ?? []), dataName]);
  }
  return jobs;
}

const isWork = (job, name) => name !== `${job}.part`;

function showJobs(place, signal) {
  const table = new Table({
    label: "Jobs",
    empty: "No job goes on. `estimand job` begins one.",
    key: ({ job }) => job,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Job", cell: ({ job }) => link(job, `#/jobs/${segment(job)}`), sign: ({ job }) => job, order: ({ job }) => job },
      { title: "Nodes", class: "number", cell: ({ nodes }) => number(nodes), order: ({ nodes }) => nodes },
      { title: "Done", class: "number", cell: ({ done, of }) => `${number(done)} of ${number(of)}`, order: ({ done, of }) => (of ? done / of : 0) },
      { title: "A second", class: "number", cell: ({ fps }) => number(fps), order: ({ fps }) => fps },
      { title: "Heard of", cell: ({ at }) => (at ? `${age(at)} ago` : "never"), order: ({ at }) => Date.parse(at) },
    ],
  });
  const list = h("div", {}, note("Looking …"));
  fill(place, h("h1", {}, "Jobs"), section("Those that go on", {}, list));
  const look = async () => {
    const jobs = await namesByJob(signal);
    const names = [...jobs].flatMap(([job, all]) => all.filter((name) => isWork(job, name)));
    const values = names.length ? await get(query("/api/data", { dataName: names.join(",") }), { signal }) : [];
    if (!table.element.isConnected) fill(list, table.element);
    table.update([...jobs.keys()].map((job) => ({ job, ...total(values.filter(({ dataName }) => jobOf(dataName) === job)) })));
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(list, notice(error, "The list of jobs")) });
}

function total(values) {
  const sum = (field) => values.reduce((all, { dataValue }) => all + (Number(dataValue?.[field]) || 0), 0);
  const at = values.map(({ collectedAt }) => collectedAt).sort().at(-1);
  return { nodes: values.length, done: sum("done"), of: sum("of"), fps: sum("fps"), at };
}

async function showJob(place, job, signal) {
  const told = h("div", {});
  const body = h("div", {}, note("Looking …"));
  fill(place, h("p", { class: "path" }, link("Jobs", "#/jobs"), ` / ${job}`), h("h1", {}, job), section("How far it is", {}, told), section("By node", {}, body));
  const table = nodeTable(job);
  const failed = (error) => fill(body, notice(error, "This job"));
  const names = (await namesByJob(signal)).get(job) ?? [];
  // A job that begins while one looks has these.
  const work = [...new Set([`${job}.work`, ...names.filter((name) => isWork(job, name))])];
  const changed = (live) => {
    const rows = rowsOf(live.values, job, work);
    fill(told, summary(rows, work.flatMap((name) => [...live.values.get(name).values()])));
    if (!table.element.isConnected) fill(body, table.element);
    table.update(rows);
  };
  new LiveValues([`${job}.part`, ...work, HOLDS, CAPABILITY], { signal, changed, failed });
}

function rowsOf(values, job, work) {
  const rows = new Map();
  for (const node of values.get(`${job}.part`).keys()) rows.set(node, { node });
  for (const name of work) {
    for (const [node, { dataValue, state, collectedAt }] of values.get(name)) rows.set(node, { node, ...dataValue, state, at: collectedAt });
  }
  const largest = Math.max(1, ...[...rows.values()].map(({ of }) => of ?? 0));
  return [...rows.values()].sort((one, other) => byName(one.node, other.node)).map((row) => {
    const held = values.get(HOLDS).get(row.node)?.dataValue;
    const capable = values.get(CAPABILITY).get(row.node)?.dataValue;
    return { done: 0, of: 0, ...row, largest, holds: (held?.items ?? held)?.length, capability: capable?.value ?? capable };
  });
}

function summary(rows, values) {
  const { nodes, done, of, fps, at } = total(values);
  if (nodes === 0) return note("No worker has said anything yet.");
  const left = Math.max(...rows.map((row) => (row.done < row.of ? (row.of - row.done) / row.fps : 0)));
  return facts([
    ["Done", `${number(done)} of ${number(of)}`],
    ["Nodes", number(nodes)],
    ["A second", number(fps)],
    ["The last node is done in", done >= of ? "" : Number.isFinite(left) ? span(Math.max(1, left)) : "unknown: one has work and does none"],
    ["Heard of", `${age(at)} ago`],
  ]);
}

function nodeTable(job) {
  return new Table({
    label: `Nodes of ${job}`,
    empty: "No node has a part of it.",
    key: ({ node }) => node,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Node", cell: ({ node }) => node, order: ({ node }) => node },
      { title: "Share", class: "wide", cell: share, sign: ({ done, of, largest }) => `${done} ${of} ${largest}`, order: ({ of }) => of },
      { title: "Holds", class: "number", cell: ({ holds }) => (holds === undefined ? "" : number(holds)), order: ({ holds }) => holds },
      { title: "Capability", class: "number", cell: ({ capability }) => (typeof capability === "number" ? number(capability) : ""), order: ({ capability }) => capability },
      { title: "A second", class: "number", cell: ({ fps }) => (fps === undefined ? "" : number(fps)), order: ({ fps }) => fps },
      { title: "Now", cell: now, sign: ({ activity, state, problem }) => JSON.stringify([activity, state, problem]), order: ({ activity }) => activity ?? "" },
    ],
  });
}

/** A bar as long as the node's share of the longest one, filled as far as it is done. */
function share({ done, of, largest }) {
  const filled = h("span", { class: "filled" });
  const bar = h("span", { class: "share-bar", role: "img", "aria-label": `${count(done, "item")} of ${of} done` }, filled);
  bar.style.width = `${(100 * of) / largest}%`;
  filled.style.width = `${of ? (100 * done) / of : 0}%`;
  return h("div", { class: "share" }, h("div", { class: "share-room" }, bar), h("span", {}, `${number(done)} / ${number(of)}`));
}

function now({ activity, state, problem }) {
  if (!activity) return tag("no worker yet", "warn");
  const word = state === "fresh" ? tag(activity, TONES[activity]) : tag(state, STATE_TONES[state]);
  return problem ? [word, h("p", { class: "bad" }, problem)] : word;
}

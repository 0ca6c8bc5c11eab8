// The form of a registration. The service says what is wrong while one types, by a trial that stores nothing.

import { get, json, query, segment } from "./api.js";
import { announce, h, note, setText } from "./dom.js";
import { Form, suggest } from "./form.js";
import { notice } from "./notice.js";
import { runOnce } from "./run_once.js";
import { command } from "./words.js";

// As long without a key it is tried.
const TRIAL_AFTER_MS = 400;

const TIMES = { "max-Time": "Every so many seconds", gap: "So long after each end", schedule: "By a calendar (cron)" };
const PLAIN = ["dataName", "cmd", "mode", "kind", "format", "nodes", "replicas", "inputs", "history", "timeout", "paused"];
const OWN = ["version", "createdAt", "updatedAt"];

/** The form; `registered` is what is edited, or null. `saved` is called with what the service has stored. */
export function registrationForm(registered, signal, saved) {
  const time = Object.keys(TIMES).find((field) => registered?.[field] !== undefined && registered?.[field] !== null) ?? "max-Time";
  const trial = h("p", { class: "note", "aria-live": "polite" });
  let due = null;
  const form = new Form({
    label: registered ? "Edit the registration" : "New registration",
    fields: fields(registered, time),
    word: registered ? "Save" : "Register",
    aliases: { "max-Time": "when", gap: "when", schedule: "when", phase: "when" },
    changed: () => {
      clearTimeout(due);
      due = setTimeout(() => tryOut(form, registered, trial, signal), TRIAL_AFTER_MS);
    },
    submit: async () => {
      clearTimeout(due);
      setText(trial, "");
      const document = documentOf(form, registered);
      const method = registered ? "PUT" : "POST";
      try {
        const stored = await json(method, "/api/registry", { body: document });
        announce(`${stored.dataName} is registered, version ${stored.version}`);
        saved(stored);
      } catch (error) {
        if (error.status === 401 || error.status === 403) trial.replaceChildren(notice(error, "Registering"));
        throw error;
      }
    },
  });
  form.element.querySelector(".failure").before(trial);
  const once = runOnce({
    word: "Try it on this node",
    run: async (node) => {
      const report = await json("POST", `/api/mng/nodes/${segment(node)}/try`, { body: documentOf(form, registered), signal });
      form.clear();
      return report;
    },
    // An error of a field stands at the field.
    refused: (error) => {
      const fields = error.errors?.length > 0;
      if (fields) form.show(error);
      return fields;
    },
  }, signal);
  signal.addEventListener("abort", () => clearTimeout(due));
  if (registered) form.input("dataName").readOnly = true;
  get("/api/data/names", { signal })
    .then((all) => suggest(form.input("inputs"), all.map(({ dataName }) => dataName)))
    .catch(() => {});
  return [form.element, h("h3", {}, "Try it first"), note("It runs once as it is above. Nothing of it is stored."), h("div", { class: "tools" }, once.tools), once.result];
}

function fields(registered, time) {
  const of = (field) => registered?.[field] ?? undefined;
  const given = (field) => (typeof of(field) === "object" ? JSON.stringify(of(field)) : of(field));
  const others = Object.entries(registered ?? {}).filter(([field, value]) => !PLAIN.includes(field) && !OWN.includes(field) && !(field in TIMES) && value !== null);
  return [
    { name: "dataName", label: "Name", value: of("dataName"), hint: "Under it its values are read" },
    { name: "mode", label: "Mode", kind: "choice", value: of("mode") ?? "exec", choices: [["exec", "exec: a run at each due time"], ["stream", "stream: one process, a value a line"], ["builtin", "builtin: a collector of the agent"], ["expr", "expr: an expression over inputs"]] },
    { name: "cmd", label: "Command", kind: "area", wide: true, value: command(of("cmd")), hint: "A command line, the name of a built-in, or an expression. No shell is started" },
    { name: "timeKind", label: "It runs", kind: "choice", value: time, choices: Object.entries(TIMES) },
    { name: "when", label: "Seconds, or times", value: of(time) ?? "5", hint: "5, or for a calendar */5 * * * *" },
    { name: "kind", label: "Kind", kind: "choice", value: of("kind") ?? "", choices: [["", "as the mode says"], "collector", "processor"] },
    { name: "format", label: "Format of its output", kind: "choice", value: of("format") ?? "", choices: [["", "auto"], "text", "json", "number", "nodes", "prometheus", "influx", "nagios", "munin", "netdata", "csv", "logfmt", "ndjson"] },
    { name: "inputs", label: "Inputs", value: of("inputs")?.join(", "), list: [], hint: "The names that a processor reads, with commas" },
    { name: "nodes", label: "Nodes", value: of("nodes"), hint: "By labels, such as zone=a,!old; empty: all" },
    { name: "replicas", label: "On how many of them", value: given("replicas"), hint: "all, or a number" },
    { name: "history", label: "History", value: given("history"), hint: "1h, or {\"keep\":\"1h\",\"max\":1000}; empty: none" },
    { name: "timeout", label: "Timeout", value: of("timeout"), hint: "Seconds; empty: the interval, at most 30 s" },
    { name: "paused", label: "Paused", kind: "check", value: of("paused") },
    { name: "others", label: "Further fields", kind: "json", wide: true, value: others.length ? JSON.stringify(Object.fromEntries(others), null, 2) : "", hint: "As JSON: params, env, secrets, limits, range, unit, schema, phase and others" },
  ];
}

/** The document that the fields make. The service judges it; only what is no JSON is told here. */
function documentOf(form, registered) {
  const of = (name) => form.value(name);
  const document = { ...(of("others") ?? {}), dataName: of("dataName"), cmd: of("cmd")?.trim(), mode: of("mode"), kind: of("kind"), format: of("format"), nodes: of("nodes") };
  const when = of("when");
  document[of("timeKind")] = of("timeKind") === "max-Time" ? numeric(when) : of("timeKind") === "gap" ? numeric(when) : when;
  document.replicas = numeric(of("replicas"));
  document.inputs = of("inputs")?.split(",").map((word) => word.trim()).filter(Boolean);
  document.timeout = numeric(of("timeout"));
  const history = of("history");
  document.history = history?.startsWith("{") ? parsed(history) : numeric(history);
  if (of("paused")) document.paused = true;
  if (registered) document.version = registered.version;
  return document;
}

const numeric = (text) => (text !== undefined && text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text);

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function tryOut(form, registered, trial, signal) {
  try {
    const document = documentOf(form, registered);
    const [outcome] = await json("PATCH", query("/api/registry", { dryRun: true }), { body: { registrations: [document] }, signal });
    form.clear();
    const says = { unchanged: "Nothing is changed yet.", created: "This can be registered.", replaced: registered ? "This can be saved." : `\`${document.dataName}\` is registered already.` };
    setText(trial, says[outcome.outcome] ?? "");
  } catch (error) {
    if (signal.aborted) return;
    // Without a token nothing is tried; the answer to the button says that.
    if (error.status === 401 || error.status === 403) return;
    setText(trial, "");
    form.show(error);
  }
}

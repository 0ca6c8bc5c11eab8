// The origin of a value as a graph: the run that made it, the values that this run read, and so on. Each value, by its name
// and node, and each run is one box, whatever it was used for.

import { get, Problem, segment } from "./api.js";

const DEEPEST = 4;
const MOST_INPUTS = 12;
const MOST_VALUES = 60;

const valueKey = (name, node) => JSON.stringify([name, node]);

/** Reads it: `{ boxes, edges }`; the first box is the value itself, and an edge goes from what was made to what it was made of. */
export async function originOf(name, node, signal) {
  const boxes = new Map();
  const edges = new Map();
  const registrations = new Map();
  const runs = new Map();
  const join = (from, to) => edges.set(`${from} ${to}`, [from, to]);
  const registered = (made) => {
    if (!registrations.has(made)) registrations.set(made, get(`/api/registry/${segment(made)}`, { signal }).catch(unknown));
    return registrations.get(made);
  };
  const bindings = new Map((await get("/api/bindings", { signal }).catch(unknown) ?? []).map((one) => [one.dataName, one]));
  const wanted = new Map();
  let level = [{ name, node }];
  for (let depth = 0; level.length && depth <= DEEPEST; depth += 1) {
    const read = await Promise.all(level.map(async (one) => {
      const value = await get(`/api/data/${segment(one.name)}/${segment(one.node)}?explain=1`, { signal }).catch(missing);
      const binding = bindings.get(one.name);
      const made = value?.provenance ? (value.provenance.dataName ?? one.name) : value ? null : one.name;
      return { ...one, value, made, binding, registration: made && !binding ? await registered(made) : null };
    }));
    const next = new Map();
    for (const found of read) {
      const box = { key: valueKey(found.name, found.node), kind: "value", name: found.name, node: found.node, value: found.value, binding: found.binding };
      boxes.set(box.key, box);
      const from = addMaker(found, box, { boxes, runs, join });
      if (!from) continue;
      const inputs = inputsOf(found);
      wanted.set(from, [...(wanted.get(from) ?? []), ...inputs.map((input) => valueKey(input.name, input.node))]);
      for (const input of inputs.slice(0, MOST_INPUTS)) next.set(valueKey(input.name, input.node), input);
    }
    level = [...next].filter(([key]) => !boxes.has(key)).map(([, input]) => input).slice(0, MOST_VALUES - valuesIn(boxes));
  }
  for (const [from, keys] of wanted) {
    const shown = [...new Set(keys)].filter((key) => boxes.has(key));
    for (const key of shown) join(from, key);
    boxes.get(from).more = new Set(keys).size - shown.length;
  }
  return { boxes: [...boxes.values()], edges: [...edges.values()] };
}

const valuesIn = (boxes) => [...boxes.values()].filter(({ kind }) => kind === "value").length;

/** What made a value gets a box of its own. Gives the key of the box that the inputs are joined to. */
function addMaker({ value, made, binding, registration }, box, { boxes, runs, join }) {
  if (binding) return box.key;
  const run = value?.provenance ?? null;
  if (!run && !registration) return null;
  // A run that made values of several nodes is one box, which stays the same box when the next run made them.
  const id = run?.run === undefined ? box.key : JSON.stringify([made, run.version, run.node, run.run]);
  if (!runs.has(id)) runs.set(id, `maker of ${box.key}`);
  const key = runs.get(id);
  if (!boxes.has(key)) boxes.set(key, { key, kind: "maker", name: made, run, registration, at: value?.collectedAt });
  join(box.key, key);
  return key;
}

// Names alone, which are of the same node, or each with its node.
function inputsOf({ node, value, binding }) {
  if (binding) return [{ name: binding.to, node }];
  const inputs = value?.provenance?.inputs;
  if (Array.isArray(inputs)) {
    const read = inputs.map((input) => (typeof input === "string" ? { name: input, node } : { name: input?.dataName, node: input?.nodeName ?? node }));
    return read.filter((input) => typeof input.name === "string" && typeof input.node === "string");
  }
  return inputs && typeof inputs === "object" ? Object.keys(inputs).map((input) => ({ name: input, node })) : [];
}

// The registry may be another service, which this page cannot ask.
function unknown(error) {
  if (error instanceof Problem) return null;
  throw error;
}

function missing(error) {
  if (error instanceof Problem && error.status === 404) return null;
  throw error;
}

// Where a value comes from: the run that made it, and the values that it was made of, as a tree of names.

import { get, Problem, segment } from "/assets/lib/api.js";
import { h, link, note, tag } from "/assets/lib/dom.js";
import { age, command, number, STATE_TONES, value as oneLine } from "/assets/lib/words.js";

const DEEPEST = 4;
const MOST_INPUTS = 12;

/** The origin of a value as a list in which each name stands over those that it is made of. */
export async function provenance(name, node, signal) {
  try {
    return h("ul", { class: "origin" }, await branch(name, node, DEEPEST, signal));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return note(error.message);
  }
}

async function branch(name, node, depth, signal) {
  const value = await get(`/api/data/${segment(name)}/${segment(node)}?explain=1`, { signal }).catch(missing);
  if (!value) return h("li", {}, h("strong", {}, name), " ", h("span", { class: "note" }, `${node} has no such value`));
  const run = value.provenance;
  const made = run?.dataName ?? name;
  const bound = made !== name ? h("p", {}, "serves ", link(made, `#/data/${segment(made)}/${segment(node)}`)) : null;
  const registered = run ? await get(`/api/registry/${segment(made)}`, { signal }).catch(missing) : null;
  const inputs = inputsOf(run);
  const below = depth > 0 ? await Promise.all(inputs.slice(0, MOST_INPUTS).map((input) => branch(input.name, input.node ?? node, depth - 1, signal))) : [];
  return h("li", {},
    h("p", {}, h("strong", {}, link(name, `#/data/${segment(name)}/${segment(node)}`)), ` of ${node} `, tag(value.state, STATE_TONES[value.state])),
    h("p", { class: "origin-value" }, shortened(oneLine(value.dataValue))),
    bound,
    h("p", { class: "note" }, run ? told(run, value) : `written directly ${age(value.collectedAt)} ago, by no registration`),
    registered ? h("p", { class: "note" }, `${registered.mode === "builtin" ? "the built-in" : registered.mode === "expr" ? "the expression" : "the command"} `, h("code", {}, command(registered.cmd))) : null,
    below.length ? h("ul", {}, below) : null,
    inputs.length > MOST_INPUTS ? note(`and ${inputs.length - MOST_INPUTS} more`) : null);
}

function missing(error) {
  if (error instanceof Problem) return null;
  throw error;
}

const shortened = (text) => (text.length > 160 ? `${text.slice(0, 160)} …` : text);

function told(run, value) {
  const where = run.node && run.node !== value.nodeName ? ` on ${run.node}` : "";
  const took = run.durationMs !== undefined ? `, took ${number(run.durationMs)} ms` : "";
  const exit = run.exit && run.exit !== "exit 0" ? `, ${run.exit}` : "";
  return `run ${number(run.run ?? 0)} of version ${run.version}${where}, ${age(value.collectedAt)} ago${took}${exit}`;
}

// Names alone, or each with its node and revision.
function inputsOf(run) {
  const inputs = run?.inputs;
  if (Array.isArray(inputs)) return inputs.map((input) => (typeof input === "string" ? { name: input } : { name: input.dataName, node: input.nodeName })).filter(({ name }) => name);
  if (inputs && typeof inputs === "object") return Object.keys(inputs).map((name) => ({ name }));
  return [];
}

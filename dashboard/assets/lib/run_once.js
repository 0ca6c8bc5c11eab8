// One run on a node that is chosen, and everything that came of it. Nothing of it is stored.

import { get } from "./api.js";
import { action, facts, fill, h, note } from "./dom.js";
import { notice } from "./notice.js";
import { byName, bytes, command, count, number, value as oneLine } from "./words.js";

/**
 * A choice of a node, a button, and the place of the report. `run` is given the node's name, and answers with the report;
 * a problem that `refused` takes care of is not shown here.
 */
export function runOnce({ word, run, refused = () => false }, signal) {
  const nodes = h("select", { "aria-label": "Node" });
  const result = h("div", { "aria-live": "polite" });
  const list = async () => {
    const all = await get("/api/nodes", { signal });
    const ready = all.filter(({ state }) => state === "ready").map(({ nodeName }) => nodeName).sort(byName);
    fill(nodes, ready.map((node) => h("option", { value: node }, node)));
  };
  const listed = list().catch((error) => fill(result, notice(error, "The list of nodes")));
  const go = action(word, async () => {
    await listed;
    try {
      // A node may have come since.
      if (!nodes.value) await list();
      if (!nodes.value) return fill(result, note("No node is there that could run it."));
      fill(result, note("It runs …"));
      return fill(result, report(await run(nodes.value)));
    } catch (error) {
      if (signal.aborted) return null;
      return fill(result, refused(error) ? [] : notice(error, "A run"));
    }
  });
  return { tools: [nodes, go], result };
}

function report({ argv, error, exit, durationMs, cpuMs, maxMemory, note: remark, stdout, stderr, values }) {
  return [
    error ? h("p", { class: "notice bad" }, error) : null,
    remark ? note(remark) : null,
    facts([["End", exit ?? ""], ["Took", `${number(durationMs)} ms`], ["Processor", `${number(cpuMs)} ms`], ["Memory", maxMemory ? bytes(maxMemory) : ""], ["Command", argv.length ? command(argv) : ""]]),
    values.length ? [h("h3", {}, count(values.length, "value")), h("ul", { class: "lines" }, values.slice(0, 50).map(({ nodeName, dataValue }) => h("li", {}, `${nodeName}: `, h("code", {}, oneLine(dataValue)))))] : null,
    stdout ? [h("h3", {}, "Output"), h("pre", {}, stdout)] : null,
    stderr ? [h("h3", {}, "Standard error"), h("pre", {}, stderr)] : null,
  ];
}

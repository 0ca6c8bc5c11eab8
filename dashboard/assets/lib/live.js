// Values that stay current: a watch whose snapshots and changes are put together, and told of a few times a second.

import { get, query, watch } from "./api.js";

// Changes are shown together: nobody reads faster than that.
const TELL_EVERY_MS = 250;

/** The values of some names, `values.get(name).get(node)`, for as long as `signal` lets it. */
export class LiveValues {
  constructor(names, { field, node, signal, changed, failed }) {
    this.values = new Map(names.map((name) => [name, new Map()]));
    this.loaded = false;
    // What it asks for may fail, too; on the way to another page that is of no interest.
    this.changed = () => Promise.resolve(changed(this)).catch((error) => signal.aborted || failed(error));
    this.due = null;
    signal.addEventListener("abort", () => clearTimeout(this.due));
    const path = query("/api/data/watch", { dataName: names.join(","), field, dataNode: node });
    watch(path, (event) => this.take(event), { signal }).catch(failed);
  }

  take({ type, data }) {
    const said = JSON.parse(data);
    if (type === "snapshot") {
      for (const nodes of this.values.values()) nodes.clear();
      for (const value of said.values) this.of(value.dataName).set(value.nodeName, value);
      this.loaded = true;
      this.tell(0);
    } else if (type === "change") {
      this.of(said.dataName).set(said.nodeName, said);
      this.tell(TELL_EVERY_MS);
    } else if (type === "delete") {
      this.of(said.dataName).delete(said.nodeName);
      this.tell(TELL_EVERY_MS);
    }
  }

  of(name) {
    if (!this.values.has(name)) this.values.set(name, new Map());
    return this.values.get(name);
  }

  tell(within) {
    if (!this.loaded || this.due !== null) return;
    this.due = setTimeout(() => {
      this.due = null;
      this.changed();
    }, within);
  }
}

/** Past values of a name as points, by node: `Map(node, [[seconds, value], …])`. */
export async function history(name, { node, field, since, limit, signal }) {
  const path = query("/api/data/history", { dataName: name, dataNode: node, field, since, limit });
  const byNode = new Map();
  for (const { nodeName, collectedAt, dataValue } of await get(path, { signal })) {
    if (typeof dataValue !== "number") continue;
    if (!byNode.has(nodeName)) byNode.set(nodeName, []);
    byNode.get(nodeName).push([Date.parse(collectedAt) / 1000, dataValue]);
  }
  return byNode;
}

// The ledger over time: what there is of a resource, and what of it is promised or free.

import { get, poll, query } from "./api.js";
import { Chart } from "./chart.js";
import { fill, h, note, setText } from "./dom.js";
import { notice } from "./notice.js";
import { amount } from "./words.js";

const EVERY_MS = 5000;
const SPANS = [[900, "15 minutes"], [3600, "an hour"], [6 * 3600, "six hours"], [24 * 3600, "a day"]];
const POINTS = 180;

export class LedgerChart {
  constructor(signal) {
    this.resource = h("select", { "aria-label": "Resource" });
    this.span = h("select", { "aria-label": "How far ahead" }, SPANS.map(([seconds, word]) => h("option", { value: seconds }, word)));
    this.tools = h("div", { class: "tools" }, this.resource, this.span);
    this.told = note("Looking …");
    this.chart = new Chart({ label: "Capacity, promised and free", stepped: true, format: (value) => amount(this.resource.value, value) });
    this.element = h("div", {}, this.told, this.chart.element);
    this.chart.element.hidden = true;
    this.signal = signal;
    signal.addEventListener("abort", () => this.chart.end());
    for (const choice of [this.resource, this.span]) choice.addEventListener("change", () => this.look().catch(() => {}));
    poll(() => this.look(), EVERY_MS, { signal, failed: (error) => fill(this.told, notice(error, "The ledger")) });
  }

  async look() {
    const seconds = Number(this.span.value);
    const now = Math.floor(Date.now() / 1000);
    const step = Math.max(1, Math.ceil(seconds / POINTS));
    const timeline = await get(query("/api/capacity/timeline", { from: now, until: now + seconds, step }), { signal: this.signal });
    const resources = [...new Set(timeline.classes.flatMap(({ capacity }) => Object.keys(capacity)))].filter((name) => name !== "tasks");
    this.chart.element.hidden = resources.length === 0;
    setText(this.told, resources.length ? "" : "No node takes tasks yet.");
    this.told.hidden = resources.length !== 0;
    if (resources.length === 0) return;
    if (this.resource.options.length !== resources.length) {
      const before = this.resource.value;
      fill(this.resource, resources.map((name) => h("option", { value: name }, name)));
      if (resources.includes(before)) this.resource.value = before;
    }
    this.chart.update(this.series(timeline));
  }

  series(timeline) {
    const resource = this.resource.value;
    const several = timeline.classes.length > 1;
    return timeline.classes.filter(({ capacity }) => resource in capacity).flatMap((one) => {
      const named = (word) => (several ? `${word} (${one.class || "no class"})` : word);
      const line = (values) => (values ?? []).map((value, place) => [timeline.from + place * timeline.step, value]);
      const free = line(one.free[resource]);
      return [
        { label: named("capacity"), points: free.map(([at]) => [at, one.capacity[resource]]), dashed: true },
        { label: named("promised"), points: line(one.promised[resource]) },
        { label: named("free"), points: free },
      ];
    });
  }
}

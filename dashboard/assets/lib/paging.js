// Pages of a list that the service gives the newest first: each answer says where the next page begins.

import { button, h, setText } from "./dom.js";

export class Paging {
  /** `changed` is called when another page is wanted, from `before` on. */
  constructor(label, changed) {
    this.starts = [];
    this.next = null;
    this.changed = changed;
    this.told = h("span", { class: "note", "aria-live": "polite" });
    this.newer = button("Newer", () => this.go(this.starts.slice(0, -1)));
    this.older = button("Older", () => this.go([...this.starts, this.next]));
    this.element = h("div", { class: "buttons", role: "group", "aria-label": label, hidden: true }, this.newer, this.older, this.told);
  }

  /** The first one of the page that is shown is older than this; undefined for the newest ones. */
  get before() {
    return this.starts.at(-1);
  }

  go(starts) {
    this.starts = starts;
    return this.changed();
  }

  /** Says what the answer for `before` was. An answer for another page than the wanted one is late, and false is given. */
  show(before, next) {
    if (before !== this.before) return false;
    this.next = next ?? null;
    this.newer.disabled = this.starts.length === 0;
    this.older.disabled = this.next === null;
    this.element.hidden = this.newer.disabled && this.older.disabled;
    setText(this.told, `Page ${this.starts.length + 1}`);
    return true;
  }
}

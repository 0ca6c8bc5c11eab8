// A table whose rows change in place: what has the focus or is selected stays, and of ten thousand rows only those that are
// shown are made.

import { button, fill, h, setText } from "./dom.js";

const SHOWN_AT_FIRST = 100;

/**
 * `columns` are `{ title, cell(row), order(row), class, wide }`; a cell is a text, an element, or a list of them. A cell that
 * is made of elements is made anew when what `sign(row)` says changes, or always without it.
 */
export class Table {
  constructor({ label, columns, key, empty = "There is nothing here yet.", sorted }) {
    this.columns = columns;
    this.key = key;
    this.rows = [];
    this.shown = new Map();
    this.limit = SHOWN_AT_FIRST;
    this.sort = sorted || null;
    this.body = h("tbody");
    this.heads = columns.map((column, place) => this.head(column, place));
    this.rest = h("p", { class: "note", hidden: true });
    this.empty = h("p", { class: "note" }, empty);
    this.table = h("table", {}, h("caption", { class: "unseen" }, label), h("thead", {}, h("tr", {}, this.heads)), this.body);
    const scrolled = h("div", { class: "scrolled", role: "region", "aria-label": label, tabindex: "0" }, this.table);
    this.element = h("div", { class: "table" }, scrolled, this.empty, this.rest);
    this.scrolled = scrolled;
    scrolled.hidden = true;
  }

  head(column, place) {
    if (!column.order) return h("th", { scope: "col", class: column.class }, column.title);
    const press = () => {
      const down = this.sort?.place === place && !this.sort.down;
      this.sort = { place, down };
      this.update(this.rows);
    };
    return h("th", { scope: "col", class: column.class }, button(column.title, press, { class: "sort" }));
  }

  update(rows) {
    this.rows = rows;
    this.showSort();
    const sorted = this.sort ? [...rows].sort(this.comparison()) : rows;
    const visible = sorted.slice(0, this.limit);
    const keep = new Set();
    visible.forEach((row, place) => {
      const key = this.key(row);
      keep.add(key);
      const shown = this.shown.get(key) || this.add(key);
      this.refresh(shown, row);
      if (this.body.children[place] !== shown.element) this.body.insertBefore(shown.element, this.body.children[place] || null);
    });
    for (const [key, { element }] of this.shown) {
      if (keep.has(key)) continue;
      element.remove();
      this.shown.delete(key);
    }
    this.scrolled.hidden = rows.length === 0;
    this.empty.hidden = rows.length !== 0;
    this.showRest(rows.length);
  }

  showRest(all) {
    this.rest.hidden = all <= this.limit;
    if (this.rest.hidden || this.rest.dataset.all === `${all} ${this.limit}`) return;
    this.rest.dataset.all = `${all} ${this.limit}`;
    const more = button("Show more", () => {
      this.limit *= 4;
      this.update(this.rows);
    });
    fill(this.rest, `The first ${this.limit} of ${all} are shown. `, more);
  }

  comparison() {
    const { place, down } = this.sort;
    const of = this.columns[place].order;
    const direction = down ? -1 : 1;
    return (one, other) => {
      const [left, right] = [of(one), of(other)];
      if (typeof left === "string" && typeof right === "string") return direction * left.localeCompare(right, "en", { numeric: true });
      return direction * ((left ?? -Infinity) - (right ?? -Infinity) || 0);
    };
  }

  showSort() {
    this.heads.forEach((head, place) => {
      if (this.sort?.place !== place) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
    });
  }

  add(key) {
    const cells = this.columns.map((column, place) =>
      h(place === 0 ? "th" : "td", { class: column.class, scope: place === 0 ? "row" : null, "data-title": column.title }));
    const shown = { element: h("tr", {}, cells), cells, signs: [] };
    this.shown.set(key, shown);
    return shown;
  }

  refresh(shown, row) {
    this.columns.forEach((column, place) => {
      const sign = column.sign?.(row);
      if (sign !== undefined && shown.signs[place] === sign) return;
      shown.signs[place] = sign;
      const content = column.cell(row);
      if (typeof content === "string" || typeof content === "number") setText(shown.cells[place], String(content));
      else fill(shown.cells[place], content);
    });
  }
}

/** A box whose text chooses rows. */
export function filterBox(label, changed) {
  const input = h("input", { type: "search", placeholder: label, "aria-label": label, on: { input: () => changed(input.value.trim().toLowerCase()) } });
  return input;
}

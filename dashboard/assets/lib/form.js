// Forms whose errors come from the service: each stands at its field, and what belongs to none above the buttons.

import { Problem } from "./api.js";
import { fill, h, setText } from "./dom.js";

let forms = 0;

/**
 * `fields` are `{ name, label, hint, kind, value, choices, wide, required }`; kinds are `text`, `number`, `area`, `check`,
 * `choice`, and `json`. Names are those of the service's documents. `aliases` says which field shows an error about another
 * name.
 */
export class Form {
  constructor({ label, fields, submit, word, aliases = {}, changed, more = [] }) {
    forms += 1;
    this.fields = new Map();
    this.aliases = aliases;
    this.changed = changed;
    this.failure = h("p", { class: "failure", role: "alert" });
    this.go = h("button", { type: "submit", class: "primary" }, word);
    const grid = h("div", { class: "fields" }, fields.map((field) => this.field(field)));
    this.element = h("form", { "aria-label": label, novalidate: true }, grid, this.failure, h("div", { class: "buttons" }, this.go, more));
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(submit);
    });
  }

  field({ name, label, hint, kind = "text", value, choices, wide, list }) {
    const id = `form-${forms}-${name}`;
    const described = `${id}-hint ${id}-error`;
    const common = { id, name, "aria-describedby": described, autocomplete: "off" };
    const changed = { input: () => this.changed?.(this) };
    let input;
    if (kind === "area" || kind === "json") {
      input = h("textarea", { ...common, rows: kind === "json" ? 6 : 3, spellcheck: "false", on: changed });
    } else if (kind === "choice") {
      input = h("select", { ...common, on: { change: changed.input } }, choices.map((choice) => {
        const [given, shown] = Array.isArray(choice) ? choice : [choice, choice];
        return h("option", { value: given }, shown);
      }));
    } else {
      const type = kind === "check" ? "checkbox" : kind === "secret" ? "password" : "text";
      input = h("input", { ...common, type, spellcheck: "false", list: list ? `${id}-list` : null, inputmode: kind === "number" ? "decimal" : null, on: changed });
    }
    if (kind === "check") input.checked = Boolean(value);
    else if (value !== undefined && value !== null) input.value = value;
    const error = h("p", { class: "field-error", id: `${id}-error` });
    this.fields.set(name, { input, kind, error });
    const named = h("label", { for: id }, label);
    const told = h("p", { class: "hint", id: `${id}-hint` }, hint || "");
    const known = list ? h("datalist", { id: `${id}-list` }, list.map((word) => h("option", { value: word }))) : null;
    const parts = kind === "check" ? [h("div", { class: "check" }, input, named), told] : [named, input, known, told];
    return h("div", { class: wide ? "field wide" : "field" }, parts, error);
  }

  input(name) {
    return this.fields.get(name).input;
  }

  /** What a field has: a text, a truth, or the JSON of a `json` field; undefined if it is empty. */
  value(name) {
    const { input, kind } = this.fields.get(name);
    if (kind === "check") return input.checked;
    const text = input.value.trim();
    if (text === "") return undefined;
    if (kind === "number" && text !== "" && !Number.isNaN(Number(text))) return Number(text);
    if (kind !== "json") return kind === "area" ? input.value : text;
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Problem(400, { detail: "", errors: [{ field: name, message: `is no JSON: ${error.message}` }] });
    }
  }

  async send(submit) {
    this.go.disabled = true;
    try {
      this.clear();
      await submit(this);
    } catch (error) {
      this.show(error);
      const wrong = [...this.fields.values()].find(({ input }) => input.getAttribute("aria-invalid") === "true");
      wrong?.input.focus();
    } finally {
      this.go.disabled = false;
    }
  }

  clear() {
    setText(this.failure, "");
    for (const { input, error } of this.fields.values()) {
      setText(error, "");
      input.removeAttribute("aria-invalid");
    }
  }

  /** Puts each error of a problem at its field. */
  show(problem) {
    this.clear();
    if (!(problem instanceof Problem)) {
      setText(this.failure, problem.message);
      if (!(problem instanceof Error && problem.constructor.name === "Unreachable")) console.warn(problem);
      return;
    }
    const elsewhere = [];
    for (const wrong of problem.errors) {
      const place = this.place(wrong.field);
      if (!place) {
        elsewhere.push(`${wrong.field} ${said(wrong)}`);
        continue;
      }
      setText(place.error, [place.error.textContent, said(wrong)].filter(Boolean).join("; "));
      place.input.setAttribute("aria-invalid", "true");
    }
    if (problem.errors.length === 0) elsewhere.push(problem.message);
    setText(this.failure, elsewhere.join("; "));
  }

  // `registrations[0].limits.memory` is shown at `limits.memory`, or at `limits`.
  place(path) {
    const name = path.replace(/^\w+\[\d+\]\.?/, "");
    for (let at = name; at; at = at.replace(/[.[/]?[^.[/]*$/, "")) {
      const found = this.fields.get(this.aliases[at] ?? at);
      if (found) return found;
    }
    return undefined;
  }
}

function said({ message, expected, given }) {
  const was = given ? ` (${given})` : "";
  return `${message}${was}${expected ? `; expected ${expected}` : ""}`;
}

/** The datalist of a field gets other words. */
export function suggest(input, words) {
  const list = input.list;
  if (list) fill(list, words.map((word) => h("option", { value: word })));
}

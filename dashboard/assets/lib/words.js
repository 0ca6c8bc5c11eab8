// Figures, times and values as people read them.

const numbers = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en");

export const number = (value) => (Number.isInteger(value) ? whole.format(value) : numbers.format(value));

export const count = (amount, word) => `${whole.format(amount)} ${word}${amount === 1 ? "" : "s"}`;

/** The time since an instant: `3 s`, `5 min`. */
export function age(instant, now = Date.now()) {
  return span(Math.floor(Math.max(0, now - Date.parse(instant)) / 1000));
}

/** Seconds in the largest unit that fits. */
export function span(seconds) {
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

export function instant(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text) : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** An amount of bytes: `3.2 GiB`. */
export function bytes(amount) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let place = 0;
  for (; amount >= 1024 && place < units.length - 1; place += 1) amount /= 1024;
  return `${numbers.format(amount)} ${units[place]}`;
}

/** An amount of a resource as the ledger counts it. */
export function amount(resource, value) {
  if (resource === "memory" || resource === "disk") return bytes(value);
  if (resource === "cpu") return numbers.format(value / 1000);
  return number(value);
}

/** A value as one line. */
export function value(json) {
  if (typeof json === "number") return number(json);
  if (typeof json === "string") return json;
  return JSON.stringify(json);
}

/** The numbers in a value, as JSON pointers; `""` is the value itself. */
export function numericParts(json, at = "", found = []) {
  if (typeof json === "number") found.push(at);
  else if (json && typeof json === "object" && found.length < 60) {
    for (const [key, part] of Object.entries(json)) {
      numericParts(part, `${at}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, found);
    }
  }
  return found;
}

/** The part of a value at a JSON pointer. */
export function part(json, pointer) {
  for (const key of pointer ? pointer.slice(1).split("/") : []) {
    json = json?.[key.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return json;
}

const order = new Intl.Collator("en", { numeric: true });

/** Puts names in the order in which people expect them: `node-2` before `node-10`. */
export const byName = (left, right) => order.compare(left, right);

export const STATE_TONES = {
  fresh: "good", stale: "warn", failed: "bad", "node-lost": "bad",
  ready: "good", lost: "bad", up: "good",
  RUNNING: "good", SUCCEEDED: "good", FAILED: "bad", LOST: "bad", QUEUED: "plain", CANCELLED: "plain", STOPPING: "warn",
  PROMISED: "plain", ACTIVE: "good", OVER: "plain", REFUSED: "bad", BROKEN: "bad",
};

/** A command as one line, as one would type it. */
export function command(given) {
  if (!Array.isArray(given)) return given ?? "";
  return given.map(quoted).join(" ");
}

function quoted(word) {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (word.includes("'") && !/["$`\\!]/.test(word)) return `"${word}"`;
  return `'${word.replaceAll("'", "'\\''")}'`;
}

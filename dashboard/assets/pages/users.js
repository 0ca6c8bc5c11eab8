// Users and what they have of their shares: an operator sees all of them, a user their own.

import { get, poll } from "../lib/api.js";
import { fill, h, note, section } from "../lib/dom.js";
import { notice } from "../lib/notice.js";
import { Table } from "../lib/table.js";
import { bytes, number } from "../lib/words.js";

const EVERY_MS = 5000;
// The kinds whose amounts are bytes; those of the priority are not parts of anything.
const BYTES = new Set(["memory", "logs", "reservationBytes", "studyBytes", "fileBytes", "bodies", "responses"]);
const amount = (kind, value) => (BYTES.has(kind) ? bytes(value) : number(value));
const part = ([, { used, limit }]) => used / Math.max(1, limit);
const percent = (value) => `${Math.floor(100 * value)} %`;

export function show(place, _path, signal) {
  const table = new Table({
    label: "Users",
    empty: "There are no users. `estimand token create alice --role user` makes one.",
    key: ({ user }) => user,
    sorted: { place: 1, down: true },
    columns: [
      { title: "User", cell: ({ user }) => user, order: ({ user }) => user },
      { title: "Fullest share", class: "number", cell: ({ fullest }) => percent(fullest), order: ({ fullest }) => fullest },
      { title: "Used", wide: true, cell: ({ used }) => used },
      { title: "Set by operators", cell: ({ set }) => set },
    ],
  });
  const list = h("div", {}, note("Looking …"));
  fill(place, h("h1", {}, "Users"), section("Shares", {}, list));
  const look = async () => {
    const users = await get("/api/shares", { signal });
    if (!table.element.isConnected) fill(list, table.element);
    table.update(users.map(row));
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(list, notice(error, "The users' shares")) });
}

function row({ user, shares }) {
  const all = Object.entries(shares).sort((one, other) => part(other) - part(one));
  const used = all.filter(([, share]) => share.used > 0);
  const set = all.filter(([, share]) => share.set);
  return {
    user,
    fullest: used.length ? part(used[0]) : 0,
    used: used.map(([kind, share]) => `${kind} ${amount(kind, share.used)} of ${amount(kind, share.limit)}`).join(", "),
    set: set.map(([kind, share]) => `${kind} ${amount(kind, share.limit)}`).join(", "),
  };
}

// Reservations: what time to come costs, what is reserved and what of it was delivered, credits.

import { ask, freshKey, get, json, poll, query, segment } from "../lib/api.js";
import { Chart } from "../lib/chart.js";
import { announce, button, confirm, dialog, facts, fill, h, link, note, section, setText, tag } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { LedgerChart } from "../lib/ledger.js";
import { notice } from "../lib/notice.js";
import { Paging } from "../lib/paging.js";
import { Table } from "../lib/table.js";
import { age, amount, count, instant, number, span, STATE_TONES, value as oneLine } from "../lib/words.js";

const EVERY_MS = 4000;
const MOST = 25;
const MOST_NODES = 3;
const FILTERS = [["", "all"], ["PENDING,PROMISED,ACTIVE", "not over"], ["PROMISED", "promised"], ["ACTIVE", "active"], ["OVER", "over"], ["CANCELLED", "cancelled"], ["BROKEN", "broken"], ["REFUSED", "refused"]];
const GOES_ON = ["PENDING", "PROMISED", "ACTIVE"];

export async function show(place, [id], signal) {
  return id ? showOne(place, id, signal) : showAll(place, signal);
}

const at = (id) => `#/reservations/${segment(id)}`;

function showAll(place, signal) {
  const credits = h("div", {}, note("Looking …"));
  const ledger = new LedgerChart(signal);
  const grant = button("Grant credits", () => grantDialog());
  fill(place, h("h1", {}, "Reservations"),
    section("Price", {}, prices(signal)),
    showReservations(signal),
    section("Promised and free", { tools: ledger.tools }, ledger.element),
    section("Credits", { tools: grant }, credits));
  showCredits(credits, signal);
}

/** A form whose answer is the price of each start, and by which the cheapest can be reserved. */
function prices(signal) {
  const chart = new Chart({ label: "Price by start, in credits", stepped: true });
  signal.addEventListener("abort", () => chart.end());
  chart.element.hidden = true;
  const told = h("p", { class: "note", "aria-live": "polite" });
  let key = freshKey();
  const form = new Form({
    label: "Price and reserve",
    word: "What does it cost?",
    aliases: { resources: "cpu", "resources.cpu": "cpu", "resources.memory": "memory" },
    changed: () => { key = freshKey(); },
    fields: [
      { name: "cpu", label: "Processors", kind: "number", value: "1", hint: "Of each unit" },
      { name: "memory", label: "Memory", hint: "Such as 4GiB" },
      { name: "width", label: "Units", kind: "number", hint: "All at the same time; empty: 1" },
      { name: "duration", label: "For", value: "10m", hint: "How long, such as 2h" },
      { name: "from", label: "Not before", hint: "Such as 10m from now, or an instant" },
      { name: "by", label: "Done by", hint: "Such as 6h from now, or an instant" },
      { name: "user", label: "Account", hint: "Who pays; empty: you" },
      { name: "value", label: "Worth", hint: "The most credits that it is worth" },
    ],
    more: [button("Reserve the cheapest", () => form.send(reserve))],
    submit: async (filled) => {
      const of = (name) => filled.value(name);
      const resources = [["cpu", of("cpu")], ["memory", of("memory")]].filter(([, value]) => value !== undefined).map(([name, value]) => `${name}=${value}`).join(",");
      const curve = await get(query("/api/reservations/prices", { resources, duration: of("duration"), width: of("width"), from: of("from"), by: of("by") }), { signal });
      const points = curve.points.map(({ start, price }) => [Date.parse(start) / 1000, price === null || price === undefined ? null : Number(price)]);
      const known = curve.points.filter(({ price }) => price !== null && price !== undefined);
      chart.element.hidden = known.length === 0;
      if (known.length === 0) return setText(told, "At no start of this time is so much free.");
      const cheapest = known.reduce((best, point) => (Number(point.price) < Number(best.price) ? point : best));
      setText(told, `The cheapest start is ${instant(cheapest.start)}: ${number(Number(cheapest.price))} credits.`);
      return chart.update([{ label: "credits", points }]);
    },
  });
  const reserve = async (filled) => {
    const of = (name) => filled.value(name);
    const resources = Object.fromEntries([["cpu", of("cpu")], ["memory", of("memory")]].filter(([, value]) => value !== undefined));
    const body = { resources, duration: of("duration"), width: of("width"), from: of("from"), by: of("by"), user: of("user"), value: of("value") };
    const made = await json("POST", "/api/reservations", { body, headers: { "Idempotency-Key": key }, signal });
    key = freshKey();
    announce(`${made.id} is reserved for ${made.price} credits`);
    location.hash = at(made.id);
  };
  return [form.element, told, chart.element];
}

function showReservations(signal) {
  const table = new Table({
    label: "Reservations",
    empty: "No reservation is like that.",
    key: ({ id }) => id,
    columns: [
      { title: "Reservation", cell: ({ id }) => link(id, at(id)), sign: ({ id }) => id, order: ({ id }) => id },
      { title: "State", cell: ({ state }) => tag(state, STATE_TONES[state] ?? "plain"), sign: ({ state }) => state, order: ({ state }) => state },
      { title: "Account", cell: ({ user }) => user, order: ({ user }) => user },
      { title: "From", class: "instant", cell: ({ start }) => instant(start), order: ({ start }) => Date.parse(start) },
      { title: "To", class: "instant", cell: ({ end }) => instant(end), order: ({ end }) => Date.parse(end) },
      { title: "Places", cell: places, order: ({ width }) => width },
      { title: "Price", class: "number", cell: ({ price }) => number(Number(price)), order: ({ price }) => Number(price) },
      { title: "Task", cell: ({ task }) => (task ? taskLink(task) : ""), sign: ({ task }) => task ?? "" },
      { title: "Delivered", cell: ({ guarantee }) => delivered(guarantee) },
    ],
  });
  const filter = h("select", { "aria-label": "Which reservations" }, FILTERS.map(([states, word]) => h("option", { value: states }, word)));
  const list = h("div", {}, note("Looking …"));
  const failed = (error) => fill(list, notice(error, "The list of reservations"));
  const look = async () => {
    const [state, before] = [filter.value, paging.before];
    const page = await get(query("/api/reservations", { state, limit: MOST, before }), { signal });
    if (state !== filter.value || !paging.show(before, page.next)) return;
    if (!table.element.isConnected) fill(list, table.element);
    table.update(page.reservations);
  };
  const paging = new Paging("Pages of reservations", () => look().catch(failed));
  filter.addEventListener("change", () => paging.go([]));
  poll(look, EVERY_MS, { signal, failed });
  return section("Reservations", { tools: filter }, list, paging.element);
}

const taskLink = (task) => link(task, `#/tasks/${segment(task)}`);

/** How many units, and where they are. */
function places({ width, guarantee }) {
  const nodes = [...new Set(guarantee?.nodes ?? [])];
  const more = nodes.length - MOST_NODES;
  const named = nodes.slice(0, MOST_NODES).join(", ") + (more > 0 ? ` and ${count(more, "more node")}` : "");
  return nodes.length ? `${number(width)} on ${named}` : number(width);
}

/** What each unit is promised. */
function promised({ width, guarantee }) {
  if (!guarantee) return null;
  const each = Object.entries(guarantee.resources).filter(([name]) => name !== "tasks").map(([name, some]) => `${name} ${amount(name, some)}`).join(", ");
  return width > 1 ? `${count(width, "unit")}, each with ${each}` : each;
}

function delivered(guarantee) {
  if (!guarantee) return "";
  const missed = guarantee.missedSeconds ? `, ${span(guarantee.missedSeconds)} missed` : "";
  const left = guarantee.givenBackSeconds ? `, ${span(guarantee.givenBackSeconds)} left to others` : "";
  return `${span(guarantee.deliveredSeconds)} of ${span(guarantee.promisedSeconds)}${missed}${left}${guarantee.moves ? `, moved ${guarantee.moves} times` : ""}`;
}

function showCredits(place, signal) {
  const table = new Table({
    label: "Accounts",
    empty: "Nobody has credits.",
    key: ({ user }) => user,
    sorted: { place: 0, down: false },
    columns: [
      { title: "Account", cell: ({ user }) => user, order: ({ user }) => user },
      { title: "Credits", class: "number", cell: ({ balance }) => number(Number(balance)), order: ({ balance }) => Number(balance) },
    ],
  });
  const totals = h("div", {});
  const journal = h("ul", { class: "lines" });
  const look = async () => {
    const [all, moved] = await Promise.all([get("/api/credits", { signal }), get("/api/credits/journal?limit=20", { signal })]);
    if (!table.element.isConnected) fill(place, totals, table.element, h("h3", {}, "Last movements"), journal);
    fill(totals, facts([["Granted", all.granted], ["Held", all.held], ["Income", all.income]]));
    table.update(all.accounts);
    fill(journal, moved.entries.map((entry) => h("li", {}, `${age(entry.at)} ago: ${entry.amount} credits to ${entry.to}${entry.from ? ` from ${entry.from}` : ""} (${entry.reason}${entry.reservation ? ` ${entry.reservation}` : ""})`)));
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(place, notice(error, "Credits")) });
}

function grantDialog() {
  dialog("Grant credits", (close) => {
    const key = freshKey();
    return new Form({
      label: "Grant credits",
      word: "Grant",
      fields: [{ name: "user", label: "Account" }, { name: "amount", label: "Credits", hint: "Such as 100" }],
      more: [button("Cancel", close)],
      submit: async (filled) => {
        const account = await json("POST", "/api/credits/grants", { body: { user: filled.value("user"), amount: filled.value("amount") }, headers: { "Idempotency-Key": key } });
        announce(`${account.user} has ${account.balance} credits`);
        close();
      },
    }).element;
  });
}

async function showOne(place, id, signal) {
  const tools = h("div", { class: "buttons" });
  const told = h("div", {}, note("Looking …"));
  fill(place, h("p", { class: "path" }, link("Reservations", "#/reservations"), ` / ${id}`), h("h1", {}, id), tools, section("Reservation", {}, told));
  let sign = "";
  const look = async () => {
    const found = await get(`/api/reservations/${segment(id)}`, { signal });
    if (JSON.stringify(found) === sign) return;
    sign = JSON.stringify(found);
    const { guarantee } = found;
    fill(tools, GOES_ON.includes(found.state) ? [
      found.state === "PROMISED" ? button("Change it", () => change(found, look)) : null,
      button("Give it another value", () => bid(id, look)),
      button("Cancel it", () => cancel(id, look), { class: "danger" }),
    ] : null);
    fill(told, facts([
      ["State", tag(found.state, STATE_TONES[found.state] ?? "plain")],
      ["Reason", found.reason],
      ["Account", found.user],
      ["Price", `${number(Number(found.price))} credits`],
      ["Given back", found.refund],
      ["From", instant(found.start)],
      ["To", instant(found.end)],
      ["Promised", promised(found)],
      ["Promise", found.promise],
      ["Task", found.task ? taskLink(found.task) : null],
      ["Delivered", delivered(guarantee)],
      ["Places", places(found)],
      ["Kept", guarantee?.kept === undefined || guarantee?.kept === null ? null : guarantee.kept ? "yes" : "no"],
      ["Made", `${instant(found.madeAt)} by ${found.madeBy}`],
    ]), h("h3", {}, "As it was asked for"), h("pre", {}, JSON.stringify(found.document)));
  };
  poll(look, EVERY_MS, { signal, failed: (error) => fill(told, notice(error, "This reservation")) });
}

/** Another time or size before its time comes. What is left as it is stays; refused, all of it does. */
function change({ id, document }, look) {
  dialog(`Change ${id}`, (close) => {
    const told = h("p", { class: "note", "aria-live": "polite" });
    const body = (filled) => Object.fromEntries(["from", "by", "duration", "width", "value"].map((name) => [name, filled.value(name)]).filter(([, value]) => value !== undefined));
    const send = (filled, more) => json("POST", `/api/reservations/${segment(id)}/change`, { body: { ...body(filled), ...more } });
    const price = async (filled) => {
      const quote = await send(filled, { dryRun: true });
      setText(told, `It would cost ${number(Number(quote.price))} credits, from ${instant(quote.start)}.`);
    };
    const form = new Form({
      label: "Change the reservation",
      word: "Change it",
      changed: () => setText(told, ""),
      fields: [
        { name: "from", label: "Not before", hint: "Such as 10m from now, or an instant" },
        { name: "by", label: "Done by", hint: "Such as 6h from now, or an instant" },
        { name: "duration", label: "For", hint: `Now ${oneLine(document.duration ?? "")}` },
        { name: "width", label: "Units", kind: "number", hint: `Now ${document.width ?? 1}` },
        { name: "value", label: "Worth", hint: "The most credits that it is worth" },
      ],
      more: [button("What would it cost?", () => form.send(price)), button("Cancel", close)],
      submit: async (filled) => {
        const changed = await send(filled, {});
        announce(`${id} costs ${changed.price} credits now`);
        close();
        await look();
      },
    });
    return [note("What is left empty stays as it is."), form.element, told];
  });
}

function bid(id, look) {
  dialog(`What ${id} is worth`, (close) => new Form({
    label: "Another value",
    word: "Save",
    fields: [{ name: "value", label: "Worth", hint: "The most credits that it is worth; the price stays" }],
    more: [button("Cancel", close)],
    submit: async (filled) => {
      await json("POST", `/api/reservations/${segment(id)}/bid`, { body: { value: filled.value("value") } });
      announce(`${id} has another value`);
      close();
      await look();
    },
  }).element);
}

function cancel(id, look) {
  confirm(`Cancel ${id}?`, h("p", {}, "Its promise is released. The price of the time that is left is given back, but for a twentieth."), "Cancel it", async () => {
    const response = await ask("POST", `/api/reservations/${segment(id)}/cancel`);
    const found = await response.json();
    announce(found.refund ? `${found.refund} credits are given back` : `${id} is cancelled`);
    await look();
  });
}

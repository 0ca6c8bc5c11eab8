// A scheduler in 35 lines: `node scheduler.js node_load /bin/echo part` runs the command on the node that is least loaded by
// the values of that name.
import createClient from "openapi-fetch";
import type { components, paths } from "./api";

type Value = components["schemas"]["Value"];

/** The policy: of the nodes with a number the one with the smallest. */
function leastLoaded(values: Value[]): string | undefined {
  const numbers = values.filter(({ dataValue }) => typeof dataValue === "number");
  const [first] = numbers.sort((one, other) => Number(one.dataValue) - Number(other.dataValue));
  return first?.nodeName;
}

/** Gives what a request gave, or throws the problem that the service tells. */
async function must<T>(request: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await request;
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

const { ESTIMAND_SERVER = "http://127.0.0.1:7070", ESTIMAND_TOKEN } = process.env;
const client = createClient<paths, "application/json">({ baseUrl: ESTIMAND_SERVER, headers: { Authorization: `Bearer ${ESTIMAND_TOKEN}` } });
const [fact = "", ...command] = process.argv.slice(2);

const values = await must(client.GET("/api/data", { params: { query: { dataName: fact, state: "fresh" } } }));
const node = leastLoaded(values);
if (node === undefined) throw new Error(`no node has a fresh number of ${fact}`);
// Each node has the label `node` with its name.
let task = await must(client.POST("/api/tasks", { body: { command, nodes: `node=${node}` } }));
const path = { id: task.id };
while (!task.endedAt) {
  task = await must(client.GET("/api/tasks/{id}", { params: { path, query: { waitMs: 20_000 } } }));
}
const log = await must(client.GET("/api/tasks/{id}/logs", { params: { path } }));
for (const { text } of log.lines) console.log(`${task.node}: ${text}`);
console.log(task.id, task.state);

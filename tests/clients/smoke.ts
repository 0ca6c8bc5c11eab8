// A client with the types that openapi-typescript made: registers, writes, reads, and is told what is wrong.
import createClient from "openapi-fetch";
import type { paths } from "./api";

const { ESTIMAND_SERVER = "", ESTIMAND_TOKEN } = process.env;
const client = createClient<paths>({ baseUrl: ESTIMAND_SERVER, headers: { Authorization: `Bearer ${ESTIMAND_TOKEN}` } });

function expect(holds: boolean, found: unknown): void {
  if (!holds) throw new Error(JSON.stringify(found));
}

const made = await client.POST("/api/registry", { body: { dataName: "by_ts", cmd: "true", "max-Time": 5 } });
expect(made.response.status === 201 && made.data?.version === 1, made);
const written = await client.POST("/api/data", { body: { dataName: "written_by_ts", nodeName: "n1", dataValue: 0.5 } });
expect(written.response.status === 201, written);
const values = await client.GET("/api/data", { params: { query: { dataName: "written_by_ts" } } });
expect(values.data?.[0]?.nodeName === "n1" && values.data[0].dataValue === 0.5, values);
const missing = await client.GET("/api/data/{dataName}/{nodeName}", {
  params: { path: { dataName: "nothing", nodeName: "n1" } },
});
expect(missing.error?.status === 404, missing);
console.log("openapi-typescript: registers, writes and reads");

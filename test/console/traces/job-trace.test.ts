/** @file Traces of jobs: one span for the job and one a phase, sent once to who OpenTelemetry's variables name. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { msOf } from "../../../console/follow/workflow-task.ts";
import { openHistory } from "../../../console/history/database.ts";
import { jobRecords } from "../../../console/history/job-records.ts";
import { createKeeper } from "../../../console/history/keeper.ts";
import { createJobLife } from "../../../console/job/job-life.ts";
import { createJobReader } from "../../../console/job/job-reader.ts";
import { createDelivery } from "../../../console/notices/deliver.ts";
import { jobTrace } from "../../../console/traces/job-trace.ts";
import { sendTrace, traceTargetIn, TRACES } from "../../../console/traces/trace-target.ts";
import type { JobPage } from "../../../page/job-wire.ts";
import { createConverters } from "../../../workers/codec/converters.ts";

const JOB = "job-1";

async function pageOf(file: string): Promise<JobPage> {
  const text = readFileSync(path.join(import.meta.dirname, "../../histories", file), "utf8");
  const reader = createJobReader(createConverters().worker.payloadCodecs ?? []);
  const life = createJobLife(JOB);
  for (const event of historyFromJSON(JSON.parse(text)).events ?? []) {
    const fact = await reader.read(event);
    if (fact !== undefined) life.fold(fact, msOf(event.eventTime));
  }
  return life.page();
}

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: object }[];
  readonly events?: readonly { readonly name: string }[];
  readonly status?: { readonly code: number };
}

function spansOf(body: string | undefined): readonly Span[] {
  const { resourceSpans } = JSON.parse(body ?? "{}") as {
    readonly resourceSpans: readonly [
      { readonly scopeSpans: readonly [{ readonly spans: readonly Span[] }] },
    ];
  };
  return resourceSpans[0].scopeSpans[0].spans;
}

describe("the trace of a job", () => {
  it("has the job's life as one span, and its phases inside it without a gap", async () => {
    const page = await pageOf("job.preempted.json");
    const body = jobTrace(page, { fleet: "eu", service: "orbweaver" });
    const [root, ...phases] = spansOf(body);
    expect(phases.map(({ name }) => name)).toEqual([
      ...["waiting", "preparing", "running", "stopping", "waiting"],
      ...["preparing", "running", "waiting"],
    ]);
    expect(root?.traceId).toBe(createHash("sha256").update(JOB).digest("hex").slice(0, 32));
    expect(root?.status?.code).toBe(1);
    expect(root?.events?.map(({ name }) => name)).toEqual(page.moments.map(({ kind }) => kind));
    let atNano = root?.startTimeUnixNano;
    for (const span of phases) {
      expect(span).toMatchObject({ traceId: root?.traceId, parentSpanId: root?.spanId });
      expect(span.startTimeUnixNano).toBe(atNano);
      atNano = span.endTimeUnixNano;
    }
    expect(atNano).toBe(root?.endTimeUnixNano);
    const ids = [root, ...phases].map((span) => span?.spanId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{16}$/);
    expect(phases[2]?.attributes).toContainEqual({
      key: "orbweaver.lease",
      value: { stringValue: "lease-1" },
    });
  });

  it("is the same each time, and there is none while the job lives", async () => {
    const page = await pageOf("job.preempted.json");
    const options = { fleet: "eu", service: "orbweaver" };
    expect(jobTrace(page, options)).toBe(jobTrace(await pageOf("job.preempted.json"), options));
    const { ended, ...living } = page;
    expect(ended).toBeDefined();
    expect(jobTrace(living, options)).toBeUndefined();
  });
});

describe("who is sent traces", () => {
  it.each([
    { name: "nobody by default", env: {}, want: undefined },
    {
      name: "the shared endpoint, with its path",
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: "https://otel.example/in/" },
      want: { address: "https://otel.example/in/v1/traces", service: "orbweaver", headers: {} },
    },
    {
      name: "the traces' own endpoint as it is, with headers and a name",
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://other:4318",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://tempo:4318/otlp",
        OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Basic%20YTpi,x-tenant=one,,=no,bad%=x",
        OTEL_SERVICE_NAME: "gpus",
      },
      want: {
        address: "http://tempo:4318/otlp",
        service: "gpus",
        headers: { authorization: "Basic YTpi", "x-tenant": "one" },
      },
    },
    {
      name: "a collector here, where traces are asked for alone",
      env: { OTEL_TRACES_EXPORTER: "otlp" },
      want: { address: "http://localhost:4318/v1/traces" },
    },
    {
      name: "nobody where they are turned off",
      env: { OTEL_TRACES_EXPORTER: "none", OTEL_EXPORTER_OTLP_ENDPOINT: "http://a:4318" },
      want: undefined,
    },
    {
      name: "nobody where the SDK is disabled",
      env: { OTEL_SDK_DISABLED: "true", OTEL_EXPORTER_OTLP_ENDPOINT: "http://a:4318" },
      want: undefined,
    },
  ])("is $name", ({ env, want }) => {
    const found = traceTargetIn(env);
    if (want === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject(want);
  });

  it("is told where the protocol or the address cannot be used", () => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://a:4317" };
    expect(traceTargetIn({ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).toMatch(/grpc/);
    expect(traceTargetIn({ OTEL_EXPORTER_OTLP_ENDPOINT: "a:4318" })).toMatch(/no http/);
  });
});

it("the trace of a job that ends is sent once, again where the collector failed, and leaves no words behind", async () => {
  const got: { readonly headers: object; readonly body: string }[] = [];
  let status = 503;
  const collector = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      got.push({ headers: request.headers, body: Buffer.concat(parts).toString("utf8") });
      response.writeHead(status).end();
    });
  }).listen(0, "127.0.0.1");
  await once(collector, "listening");
  const { port } = collector.address() as AddressInfo; // listens on a port, not a pipe
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-traces-"));
  const database = await openHistory(path.join(folder, "history.db"), { isNew: true });
  try {
    const target = traceTargetIn({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${String(port)}`,
      OTEL_EXPORTER_OTLP_HEADERS: "x-key=secret",
    });
    if (typeof target !== "object") throw new Error("there is no target");
    const page = await pageOf("job.preempted.json");
    const body = jobTrace(page, { fleet: "eu", service: target.service }) ?? "";
    const notices = [{ id: `trace ${JOB}`, target: TRACES, atMs: 0, body }];
    const keeper = createKeeper(database, () => Promise.resolve({ ...jobRecords(page), notices }));
    database.write({ leases: [], due: [{ job: JOB, tries: 0, notBeforeMs: 0 }] });
    await keeper.keep(1);
    let nowMs = 1_000;
    const said: string[] = [];
    const { signal } = new AbortController();
    const delivery = createDelivery({
      ...{ database, signal, nowMs: () => nowMs },
      send: async (to: typeof target, row) => await sendTrace(to, row, signal),
      say: (line) => void said.push(line),
    });
    await delivery.round([target]);
    expect(said).toEqual([expect.stringMatching(/collector of traces .*503.*tried again/)]);
    status = 200;
    nowMs += 3_600_000;
    for (let times = 0; times < 2; times += 1) await delivery.round([target]);
    expect(got.map((each) => each.body)).toEqual([body, body]);
    expect(got[1]?.headers).toMatchObject({
      "x-key": "secret",
      "content-type": "application/json",
    });
    expect(database.all("SELECT id, body FROM notices", {})).toMatchObject([
      { id: `trace ${JOB}`, body: "" },
    ]);
  } finally {
    database.close();
    collector.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

/**
 * @file A model service over HTTP, in the words of the Open Inference Protocol (V2), with `/healthz`, `/infer` and `/metrics` beside.
 *
 * | request | answer |
 * | --- | --- |
 * | `GET /healthz`, `/v2/health/live`, `/v2/health/ready` | 200 while requests are taken, 503 while it drains |
 * | `GET /v2/models/<name>`, `GET /` | inputs, outputs, the plan in a line |
 * | `POST /infer`, `POST /v2/models/<name>/infer` | 200 with outputs; 400 what is wrong with the request; 429 with `Retry-After` when the line is full; 500 when the model fails on it; 503 while it drains |
 * | `GET /metrics` | counts for Prometheus |
 *
 * All but the health paths ask for a token, or answer our own user on loopback alone (`access/bearer.ts`).
 * A client that hangs up is not waited for. The body is limited, and read whole before anything is done with it.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { bearerRefusal, type BearerRule } from "../../access/bearer.ts";
import { servingPlanLine } from "../../domain/model/serving-plan.ts";
import type { SessionPort, TensorValue } from "../../models/onnx/onnx-session.ts";
import type { Tensors } from "./batcher.ts";
import type { ModelService } from "./model-service.ts";
import { datatypeOf, readTensor, tensorEntry } from "./tensor-json.ts";

export interface HttpService {
  readonly port: number;
  /** Refuses new requests, answers the accepted ones, then closes. */
  drain(): Promise<void>;
}

const MAX_BODY_BYTES = 256 * 1024 * 1024;

interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export async function serveHttp(
  service: ModelService,
  { host, port, ...rule }: BearerRule & { readonly host: string; readonly port: number },
): Promise<HttpService> {
  let isDraining = false;
  const server = createServer((request, response) => {
    answerTo(service, request, { isDraining, rule }).then(
      (answer) => send(response, answer),
      (error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        send(response, { status: 500, body: { error: message } });
      },
    );
  });
  await listening(server, { host, port });
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    async drain() {
      isDraining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      await service.close();
      server.closeIdleConnections();
      await closed;
    },
  };
}

const listening = (
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => resolve());
  });

async function answerTo(
  service: ModelService,
  request: IncomingMessage,
  { isDraining, rule }: { readonly isDraining: boolean; readonly rule: BearerRule },
): Promise<Answer> {
  const { pathname } = new URL(request.url ?? "/", "http://model");
  const about = `/v2/models/${encodeURIComponent(service.name)}`;
  if (HEALTH.includes(pathname) || pathname === `${about}/ready`) {
    return isDraining
      ? { status: 503, body: { status: "draining" } }
      : { status: 200, body: { status: "ready" } };
  }
  const why = bearerRefusal(request, rule);
  if (why !== undefined) {
    return { status: 401, body: { error: why }, headers: { "www-authenticate": "Bearer" } };
  }
  switch (pathname) {
    case "/":
    case about:
      return { status: 200, body: description(service) };
    case "/metrics":
      return { status: 200, body: metricsText(service) };
    case "/infer":
    case `${about}/infer`:
      if (request.method !== "POST") {
        return { status: 405, body: { error: "send a POST" }, headers: { allow: "POST" } };
      }
      return isDraining ? DRAINING : await inferred(service, request);
    default:
      return {
        status: 404,
        body: {
          error: `there is no ${pathname}; there are /infer, /healthz, /metrics and ${about}`,
        },
      };
  }
}

/** Says nothing about the model, so that balancers need no token. */
const HEALTH = ["/healthz", "/v2/health/live", "/v2/health/ready"];

const DRAINING: Answer = {
  status: 503,
  body: { error: "the service is ending and accepts no more requests" },
  headers: { "retry-after": "1", connection: "close" },
};

async function inferred(service: ModelService, request: IncomingMessage): Promise<Answer> {
  const wrong = (error: string, status = 400): Answer => ({ status, body: { error } });
  const text = await bodyOf(request);
  if (text === undefined) {
    return wrong(`the body has more than ${MAX_BODY_BYTES} bytes; send fewer rows`, 413);
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    return wrong(`the body is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  const read = readInputs(service, body);
  if (typeof read === "string") return wrong(read);
  const submitted = await service.batcher.submit(read.inputs);
  switch (submitted.kind) {
    case "answered": {
      const outputs = [...submitted.outputs].map(([name, tensor]) => tensorEntry(name, tensor));
      return {
        status: 200,
        body: { model_name: service.name, ...(read.id !== undefined && { id: read.id }), outputs },
        headers: { "orbweaver-batch-rows": String(submitted.batchedRows) },
      };
    }
    case "full": {
      const seconds = Math.max(1, Math.ceil(submitted.retryAfterMs / 1_000));
      return {
        status: 429,
        body: { error: `the queue is full; retry in ${seconds} s` },
        headers: { "retry-after": String(seconds) },
      };
    }
    case "closed":
      return DRAINING;
    case "failed":
      return wrong(`the model fails on this request: ${submitted.message}`, 500);
  }
}

interface ReadRequest {
  readonly inputs: Tensors;
  readonly id?: string;
}

/** The problem of the request, or its tensors in the order of the model's inputs. */
function readInputs(service: ModelService, body: unknown): ReadRequest | string {
  if (!isRecord(body) || !Array.isArray(body["inputs"])) {
    return 'the body has no list "inputs"; write {"inputs": [{"name", "shape", "datatype", "data"}]}';
  }
  const entries = new Map<string, Readonly<Record<string, unknown>>>();
  for (const entry of body["inputs"]) {
    if (!isRecord(entry) || typeof entry["name"] !== "string") return "an input has no name";
    entries.set(entry["name"], entry);
  }
  const inputs = new Map<string, TensorValue>();
  for (const port of service.inputs) {
    const entry = entries.get(port.name);
    const names = service.inputs.map(({ name }) => name).join(", ");
    if (entry === undefined) return `input ${port.name} is missing; the model takes ${names}`;
    const tensor = readTensor(port, entry);
    if (tensor.kind === "refused") return tensor.message;
    inputs.set(port.name, tensor.tensor);
    entries.delete(port.name);
  }
  const [stray] = entries.keys();
  if (stray !== undefined) return `the model has no input ${stray}`;
  const rows = new Set([...inputs.values()].map(({ shape }) => shape[0] ?? 1));
  if (service.maxBatch > 1 && rows.size > 1) {
    return `the inputs have ${[...rows].join(", ")} rows; all need the same`;
  }
  const { id } = body;
  return { inputs, ...(typeof id === "string" && { id }) };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function description({ name, plan, inputs, outputs, maxBatch }: ModelService): unknown {
  return {
    name,
    platform: "onnxruntime",
    inputs: inputs.map(portEntry),
    outputs: outputs.map(portEntry),
    plan: servingPlanLine(plan),
    max_batch_size: maxBatch,
  };
}

const portEntry = ({ name, type, shape }: SessionPort): unknown => ({
  name,
  datatype: datatypeOf(type) ?? type,
  // The protocol has −1 for an open dimension.
  shape: shape.map((size) => (typeof size === "string" ? -1 : size)),
});

function metricsText({ batcher }: ModelService): string {
  const { waiting, running, answered, failed, turnedAway, runs, rows, runMs } = batcher.counts();
  const rowsOf = [
    ["orbweaver_serving_waiting", "gauge", "Queued requests", waiting],
    ["orbweaver_serving_running", "gauge", "Runs in progress", running],
    ["orbweaver_serving_answered_total", "counter", "Requests answered", answered],
    ["orbweaver_serving_failed_total", "counter", "Requests that the model failed on", failed],
    ["orbweaver_serving_turned_away_total", "counter", "Requests refused with 429", turnedAway],
    ["orbweaver_serving_runs_total", "counter", "Runs of the model", runs],
    ["orbweaver_serving_rows_total", "counter", "Rows in all runs", rows],
    ["orbweaver_serving_run_seconds_total", "counter", "Time of all runs", runMs / 1_000],
  ] as const;
  return rowsOf
    .map(
      ([name, type, help, value]) =>
        `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name} ${value}\n`,
    )
    .join("");
}

async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  if (response.destroyed || response.headersSent) return;
  const text = typeof body === "string" ? body : `${JSON.stringify(body)}\n`;
  const type = typeof body === "string" ? "text/plain; version=0.0.4" : "application/json";
  response.writeHead(status, {
    "content-type": type,
    "content-length": Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}

/** @file Clients of a served model that mean no good, or are slow: each costs a bounded time and memory, and the others are answered meanwhile. */

import { once } from "node:events";
import { request as ask, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { ServingPlan } from "../../../domain/model/serving-plan.ts";
import { onnxBytes } from "../../../models/onnx/onnx-file.ts";
import type { Batcher } from "../../../workers/serving/batcher.ts";
import { LARGE_BYTES } from "../../../workers/serving/body-work.ts";
import {
  serveHttp,
  SERVING_LIMITS,
  type HttpService,
  type ServingLimits,
} from "../../../workers/serving/http-service.ts";
import { openService } from "../../../workers/serving/model-service.ts";
import { SERVICE_DEFAULTS } from "../../../workers/serving/service-options.ts";

/** y = x · 1: sixty-four columns for each number. */
const COLUMNS = 64;
const BYTES = onnxBytes({
  name: "wide",
  nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["y"], attributes: new Map() }],
  constants: [
    { name: "w", type: "float32", shape: [1, COLUMNS], values: new Array<number>(COLUMNS).fill(2) },
  ],
  inputs: [{ name: "x", type: "float32", shape: ["n", 1] }],
  outputs: [{ name: "y", type: "float32", shape: ["n", COLUMNS] }],
});
const PLAN: ServingPlan = {
  model: { name: "wide", sha256: "0".repeat(64) },
  gpus: 1,
  parts: [{ gpu: 0, operators: [0] }],
};
const TOKEN = "a secret";
const BODIES = { bodyBytes: 4 * LARGE_BYTES, bodiesBytes: 6 * LARGE_BYTES };

const open: HttpService[] = [];
async function serve(limits: Partial<ServingLimits>): Promise<number> {
  const opened = await openService({ name: "wide", bytes: BYTES }, PLAN, SERVICE_DEFAULTS);
  if (opened.kind === "refused") throw new Error(opened.message);
  const place = { host: "127.0.0.1", port: 0, token: TOKEN };
  const http = await serveHttp(opened.service, place, { ...SERVING_LIMITS, ...limits });
  open.push(http);
  return http.port;
}

let port: number;
/** Waits a little, and not for a request that is slow only because the machine is busy. */
let hasty: number;
beforeAll(async () => {
  port = await serve(BODIES);
  hasty = await serve({ requestMs: 10_000, stallMs: 10_000 });
});
afterAll(async () => {
  await Promise.all(open.map((http) => http.drain()));
});

interface Got {
  readonly status: number;
  readonly text: string;
  readonly connection: string | undefined;
}

/** Sends a body whole, by its length. */
async function post(body: string, headers: Record<string, string> = {}, at = port): Promise<Got> {
  const length = String(Buffer.byteLength(body));
  const sent = ask({
    port: at,
    path: "/infer",
    method: "POST",
    agent: false,
    headers: { authorization: `Bearer ${TOKEN}`, "content-length": length, ...headers },
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once("response", resolve);
    // A refused body may meet a closed connection, after its answer.
    sent.on("error", reject);
  });
  sent.end(body);
  const response = await answered;
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response) text += String(chunk);
  return { status: response.statusCode ?? 0, text, connection: response.headers.connection };
}
const bodyOf = (rows: number): string =>
  JSON.stringify({ inputs: [{ name: "x", shape: [rows, 1], data: new Array(rows).fill(1) }] });
const small = (at = port): Promise<Got> => post(bodyOf(2), {}, at);
/** Whole requests of about this many bytes, most of them blanks. */
const ofBytes = (bytes: number): string => bodyOf(1) + " ".repeat(bytes);

async function bodyBytes(at = port): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}` };
  const text = await (await fetch(`http://127.0.0.1:${at}/metrics`, { headers })).text();
  return Number(/^orbweaver_serving_body_bytes (\d+)$/m.exec(text)?.[1]);
}

/** A connection that has said this much. */
async function raw(text: string, at = port): Promise<Socket> {
  const socket = connect(at, "127.0.0.1");
  socket.on("error", () => undefined);
  await once(socket, "connect");
  socket.write(text);
  return socket;
}
const HEAD = `POST /infer HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKEN}\r\n`;

describe("who asks", () => {
  it.each([
    ["no token", {}],
    ["another token", { authorization: "Bearer a secre" }],
    ["a token in another scheme", { authorization: `Basic ${TOKEN}` }],
  ])("is refused with %s, whatever is asked, and its body is not read", async (_, headers) => {
    for (const path of [
      "/",
      "/infer",
      "/metrics",
      "/v2",
      "/v2/models/wide",
      "/v2/models/wide/stats",
    ]) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
      expect([path, answer.status]).toEqual([path, 401]);
    }
    const refused = await post(ofBytes(2 * LARGE_BYTES), { authorization: "", ...headers });
    expect([refused.status, refused.connection]).toEqual([401, "close"]);
  });

  it("may ask for health in the protocol's words without a token", async () => {
    const said = async (path: string): Promise<unknown> =>
      (await fetch(`http://127.0.0.1:${port}${path}`)).json();
    expect(await said("/v2/health/live")).toEqual({ live: true });
    expect(await said("/v2/health/ready")).toEqual({ ready: true });
    expect(await said("/v2/models/wide/ready")).toEqual({ name: "wide", ready: true });
  });
});

describe("a body", () => {
  it("of more than a megabyte is neither read nor written by the event loop's thread", async () => {
    const rows = 20_000;
    const body = bodyOf(rows) + " ".repeat(LARGE_BYTES);
    const [parse, stringify] = [vi.spyOn(JSON, "parse"), vi.spyOn(JSON, "stringify")];
    const got = await post(body);
    const most = Math.max(
      0,
      ...parse.mock.calls.map(([text]) => text.length),
      ...stringify.mock.results.map(({ value }) => String(value).length),
    );
    vi.restoreAllMocks();
    expect(most).toBeLessThanOrEqual(LARGE_BYTES);
    expect(got.status).toBe(200);
    // What the test itself reads.
    const { outputs } = JSON.parse(got.text) as { outputs: { data: number[] }[] };
    expect(got.text.length).toBeGreaterThan(LARGE_BYTES);
    expect([outputs[0]?.data.length, ...new Set(outputs[0]?.data)]).toEqual([rows * COLUMNS, 2]);
  });

  it.each([
    ["said to be too large", ofBytes(5 * LARGE_BYTES), {}],
    ["said to be of another length", "x", { "content-length": "99999999999" }],
  ])("%s is refused before it is read", async (_, body, headers) => {
    const got = await post(body, headers);
    expect([got.status, got.connection]).toEqual([413, "close"]);
    expect(got.text).toMatch(/more than 4194304 bytes; send fewer rows/);
  });

  it("without a length is refused once it is too large", async () => {
    const socket = await raw(`${HEAD}transfer-encoding: chunked\r\n\r\n`);
    const piece = "1".repeat(65_536);
    let said = "";
    socket.on("data", (data) => (said += String(data)));
    const closed = once(socket, "close");
    while (said === "" && !socket.destroyed) {
      socket.write(`10000\r\n${piece}\r\n`);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(said).toMatch(/^HTTP\/1.1 413 /);
    socket.destroy();
    await closed;
  });

  it("in pieces of a byte costs little more than its bytes", async () => {
    const body = bodyOf(1);
    const pieces = [...body].map((byte) => `1\r\n${byte}\r\n`).join("");
    const blanks = "1\r\n \r\n".repeat(200_000);
    const socket = await raw(`${HEAD}transfer-encoding: chunked\r\n\r\n${pieces}`);
    socket.write(blanks);
    await expect.poll(bodyBytes, { timeout: 60_000 }).toBe(body.length + 200_000);
    const head = once(socket, "data");
    socket.write("0\r\n\r\n");
    expect(String(await head)).toMatch(/^HTTP\/1.1 200 /);
    socket.destroy();
  });

  it.each([
    [
      "lists in lists",
      `{"inputs":[{"name":"x","shape":[1,1],"data":${"[".repeat(400_000)}${"]".repeat(400_000)}}]}`,
    ],
    [
      "lists in lists, larger",
      `{"inputs":[{"name":"x","shape":[1,1],"data":${"[".repeat(900_000)}${"]".repeat(900_000)}}]}`,
    ],
    [
      "a shape without end",
      `{"inputs":[{"name":"x","shape":[${"9,".repeat(200_000)}9],"data":[]}]}`,
    ],
    [
      "a shape of more numbers than there are",
      '{"inputs":[{"name":"x","shape":[4e9,4e9],"data":[1]}]}',
    ],
    [
      "names of the language",
      '{"inputs":[{"name":"__proto__"},{"name":"x","shape":[1,1],"data":[1]}]}',
    ],
    [
      "lists in lists instead of a name of a type",
      `{"inputs":[{"name":"x","shape":[1,1],"datatype":${"[".repeat(900_000)}${"]".repeat(900_000)},"data":[1]}]}`,
    ],
    [
      "records in records instead of a number",
      `{"inputs":[{"name":"x","shape":[1,1],"data":[${'{"a":'.repeat(300_000)}1${"}".repeat(300_000)}]}]}`,
    ],
    [
      "an id without end",
      `{"id":"${"i".repeat(5_000)}","inputs":[{"name":"x","shape":[1,1],"data":[1]}]}`,
    ],
    ["words", '{"inputs":[{"name":"x","shape":[1,1],"data":["NaN"]}]}'],
    ["half a body", '{"inputs":[{"name":"x","sha'],
    ["a number beyond its type", '{"inputs":[{"name":"x","shape":[1,1],"data":[1e39]}]}'],
  ])("of %s is told what is wrong", async (_, body) => {
    const got = await post(body);
    expect(got.status).toBe(400);
    const { error } = JSON.parse(got.text) as { error: string };
    expect(error.length).toBeLessThanOrEqual(1_000);
    expect((await small()).status).toBe(200);
  });
});

it("a path that cannot be read is the client's mistake", async () => {
  const socket = await raw("GET //[ HTTP/1.1\r\nhost: x\r\n\r\n");
  const [said] = (await once(socket, "data")) as [Buffer];
  expect(said.toString()).toMatch(/^HTTP\/1.1 400 /);
  socket.destroy();
});

it("connections at rest are kept longer than proxies keep theirs, and the oldest make room for others", async () => {
  const at = await serve({ idle: { keptMs: 620_000, most: 1 } });
  const rested = async (words: string): Promise<{ socket: Socket; said: string }> => {
    const socket = await raw(words, at);
    const [said] = (await once(socket, "data")) as [Buffer];
    return { socket: socket.resume(), said: said.toString() };
  };
  const first = await rested("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  expect(first.said).toMatch(/\r\nkeep-alive: timeout=620\r\n/i);
  const closed = once(first.socket, "close");
  const second = await rested("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  await closed;
  // Whoever shows no right does not rest at all.
  const stranger = await raw("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", at);
  await once(stranger.resume(), "close");
  second.socket.write("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
  const [again] = (await once(second.socket, "data")) as [Buffer];
  expect(again.toString()).toContain("200 OK");
  second.socket.destroy();
});

describe("slow clients", () => {
  it("are cut off after a while, and hold no other up", async () => {
    const slow = await Promise.all([
      raw("POST /infer HTTP/1.1\r\nhost: x\r\n", hasty),
      raw(`${HEAD}content-length: 1000\r\n\r\n{"inputs"`, hasty),
      raw("", hasty),
    ]);
    expect((await small(hasty)).status).toBe(200);
    await Promise.all(slow.map((socket) => once(socket.resume(), "close")));
  });

  it("that take no answer are cut off, and hold no other up", async () => {
    const body = bodyOf(100_000);
    const length = Buffer.byteLength(body);
    const socket = await raw(`${HEAD}content-length: ${length}\r\n\r\n${body}`, hasty);
    // The answer has begun, and its reader takes nothing more of it.
    await once(socket, "readable");
    expect((await small(hasty)).status).toBe(200);
    // A row has two bytes for each of its columns.
    expect(await bodyBytes(hasty)).toBeGreaterThan(100_000 * COLUMNS * 2);
    await expect.poll(() => bodyBytes(hasty), { timeout: 60_000 }).toBe(0);
    let [said, bytes] = ["", 0];
    const closed = once(socket, "close");
    socket.on("data", (data: Buffer) => {
      if (bytes === 0) said = data.subarray(0, 500).toString("latin1");
      bytes += data.length;
    });
    await closed;
    const wanted = Number(/content-length: (\d+)/i.exec(said)?.[1]);
    expect(said).toMatch(/^HTTP\/1\.1 200 /);
    expect(bytes).toBeLessThan(wanted);
  });

  it("that fill the room for bodies are refused, and leave it when they go", async () => {
    const part = " ".repeat(3 * LARGE_BYTES);
    const head = `${HEAD}content-length: ${4 * LARGE_BYTES}\r\n\r\n`;
    const holding = await Promise.all([1, 2].map(() => raw(head + part)));
    await expect.poll(bodyBytes, { timeout: 60_000 }).toBe(6 * LARGE_BYTES);
    expect((await small()).status).toBe(429);
    for (const socket of holding) socket.destroy();
    await expect.poll(bodyBytes, { timeout: 60_000 }).toBe(0);
    expect((await small()).status).toBe(200);
  });

  it.each([
    ["hang up", 1],
    ["hang up over several requests at once", 3],
  ])("that %s leave the line; their bodies count until nothing works on them", async (_, count) => {
    const opened = await openService({ name: "wide", bytes: BYTES }, PLAN, SERVICE_DEFAULTS);
    if (opened.kind === "refused") throw new Error(opened.message);
    const { service } = opened;
    const signals: (AbortSignal | undefined)[] = [];
    const works: (() => void)[] = [];
    const submit: Batcher["submit"] = (_, gone) => {
      signals.push(gone);
      return new Promise((resolve) => works.push(() => resolve({ kind: "gone" })));
    };
    const place = { host: "127.0.0.1", port: 0, token: TOKEN };
    const slow = { ...service, batcher: { ...service.batcher, submit } };
    const http = await serveHttp(slow, place, { ...SERVING_LIMITS, ...BODIES });
    open.push(http);
    const body = ofBytes(LARGE_BYTES);
    const one = `${HEAD}content-length: ${body.length}\r\n\r\n${body}`;
    const socket = await raw(one.repeat(count), http.port);
    await expect.poll(() => signals.length, { timeout: 60_000 }).toBe(count);
    socket.destroy();
    const areGone = (): boolean => signals.every((gone) => gone?.aborted === true);
    await expect.poll(areGone, { timeout: 60_000 }).toBe(true);
    expect(await bodyBytes(http.port)).toBe(count * body.length);
    for (const work of works) work();
    await expect.poll(() => bodyBytes(http.port), { timeout: 60_000 }).toBe(0);
  });

  it.each([
    ["half a body", `${HEAD}content-length: 1000\r\n\r\n{"inputs"`],
    [
      "half a body of what needs none",
      `GET /v2/health/live HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{`,
    ],
    ["half a head", "POST /infer HTTP/1.1\r\nhost: x\r\n"],
    ["nothing", ""],
  ])("that have sent %s do not hold up the end of the service", async (_, text) => {
    const ending = await serve({ stallMs: 600_000 });
    const socket = await raw(text, ending);
    const closed = once(socket.resume(), "close");
    // Connections are accepted in turn: the socket is the server's now.
    expect((await small(ending)).status).toBe(200);
    await open.pop()?.drain();
    await closed;
  });
});

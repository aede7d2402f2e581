/** @file The endpoint of a service over HTTP: no request lost while replicas come, drain and die; rights, bounds, and streams that pass through. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { request } from "node:https";
import { connect } from "node:net";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { keepReplicas, type ReplicaJobs } from "../../../workers/replicas/replica-keeper.ts";
import {
  ENDPOINT_LIMITS,
  openEndpoint,
  type Endpoint,
  type EndpointParts,
  type EndpointPlace,
} from "../../../workers/replicas/service-http.ts";
import { countService } from "../../../workers/replicas/service-metrics.ts";
import { createServiceRouter } from "../../../workers/replicas/service-router.ts";
import { ownCertificate } from "../../support/own-certificate.ts";

interface FakeReplica {
  server?: Server;
  url?: string;
  isDraining: boolean;
  readonly under: Set<ServerResponse>;
}

/** Jobs whose replicas are servers of this process: an answer takes 20 ms, an answer of events comes in three pieces. */
class FakeJobs implements ReplicaJobs {
  readonly replicas = new Map<string, FakeReplica>();
  readonly paths: string[] = [];
  #next = 0;

  list = () => Promise.resolve([...this.replicas.keys()]);
  async submit(): Promise<string> {
    const id = `fake-${String((this.#next += 1))}`;
    this.replicas.set(id, { isDraining: false, under: new Set() });
    await this.start(id);
    return id;
  }
  look: ReplicaJobs["look"] = (id) => {
    const url = this.replicas.get(id)?.url;
    if (!this.replicas.has(id)) return Promise.resolve({ kind: "ended", how: "cancelled" });
    if (url === undefined) return Promise.resolve({ kind: "starting" });
    return Promise.resolve({ kind: "up", url, terms: { slots: 4, promptMs: 0, backlogMs: 0 } });
  };
  async cancel(id: string): Promise<void> {
    await this.drain(id);
    this.replicas.delete(id);
  }
  probe: ReplicaJobs["probe"] = async (url) =>
    await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );

  async start(id: string): Promise<void> {
    const replica = this.#of(id);
    const server = createServer((request, response) => {
      if (replica.isDraining) return void response.writeHead(503).end();
      if (request.url === "/health") return void response.end();
      this.paths.push(request.url ?? "");
      replica.under.add(response);
      response.once("close", () => replica.under.delete(response));
      request.resume();
      if (request.url === "/poison") {
        this.kill(id);
        return void this.start(id);
      }
      if (request.url === "/silence") return;
      if (request.url !== "/stream") return void setTimeout(() => response.end("whole"), 20);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: 1\n\n");
      setTimeout(() => {
        response.write("data: 2\n\n");
        setTimeout(() => response.end("data: [DONE]\n\n"), 10);
      }, 10);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    Object.assign(replica, { server, isDraining: false });
    if (typeof address === "object" && address !== null)
      replica.url = `http://127.0.0.1:${String(address.port)}`;
  }
  /** As TERM: refuses new requests, answers those that it has, and is gone. */
  async drain(id: string): Promise<void> {
    const replica = this.#of(id);
    replica.isDraining = true;
    while (replica.under.size > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    // By now it may be cancelled as well.
    FakeJobs.#end(replica);
  }
  kill(id: string): void {
    FakeJobs.#end(this.#of(id));
  }
  static #end(replica: FakeReplica): void {
    delete replica.url;
    replica.server?.close();
    replica.server?.closeAllConnections();
  }
  #of(id: string): FakeReplica {
    const found = this.replicas.get(id);
    if (found === undefined) throw new Error(id);
    return found;
  }
}

const closings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closings.splice(0)) await close();
});

interface Opened {
  readonly url: string;
  readonly endpoint: Endpoint;
  readonly jobs: FakeJobs;
  readonly counts: EndpointParts["counts"];
}

interface OpenedWith {
  readonly rule?: Parameters<typeof keepReplicas>[0]["rule"];
  readonly tls?: EndpointPlace["tls"];
}

async function opened(
  parts: Partial<Pick<EndpointParts, "guard" | "limits">> = {},
  { rule = { min: 0, max: 3, idleMs: 60_000 }, tls }: OpenedWith = {},
): Promise<Opened> {
  const jobs = new FakeJobs();
  const router = createServiceRouter({ waiting: 500, waitMs: 20_000 });
  const keeper = await keepReplicas({ rule, jobs, router, say: () => undefined });
  const counts = countService();
  const endpoint = await openEndpoint(
    {
      ...{ name: "m", router, keeper, counts, limits: ENDPOINT_LIMITS },
      guard: () => Promise.resolve(undefined),
      ...parts,
    },
    { host: "127.0.0.1", port: 0, ...(tls !== undefined && { tls }) },
  );
  closings.push(async () => {
    await endpoint.drain();
    await keeper.close();
    for (const id of jobs.replicas.keys()) jobs.kill(id);
  });
  const scheme = tls === undefined ? "http" : "https";
  return { url: `${scheme}://127.0.0.1:${String(endpoint.port)}`, endpoint, jobs, counts };
}

const post = (url: string, path = "/infer", body = "{}"): Promise<Response> =>
  fetch(`${url}${path}`, { method: "POST", body });

/** Replicas are cancelled, preempted or moved. */
async function upset(jobs: FakeJobs, times: number): Promise<void> {
  const random = randomFrom(7, "events");
  for (let event = 0; event < times;) {
    await new Promise((resolve) => setTimeout(resolve, 60));
    const up = [...jobs.replicas].filter(([, { url: at }]) => at !== undefined);
    const [id] = up[random.below(Math.max(1, up.length))] ?? [];
    if (id === undefined) continue;
    event += 1;
    if (event % 5 === 4) {
      await jobs.cancel(id);
      continue;
    }
    await jobs.drain(id);
    if (event % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 50));
    if (jobs.replicas.has(id)) await jobs.start(id);
  }
}

describe("an endpoint", () => {
  it("keeps idle connections for longer than clients rest between requests, and says so", async () => {
    const { url } = await opened();
    const { headers } = await fetch(`${url}/healthz`);
    expect(headers.get("keep-alive")).toBe("timeout=620");
  });

  it("loses no request over 50 preemptions, moves and scale-downs under load", async () => {
    const { url, jobs, counts } = await opened();
    const answers: Promise<string>[] = [];
    const load = setInterval(() => {
      const path = answers.length % 3 === 0 ? "/stream" : "/infer";
      answers.push(
        post(url, path).then(
          async (answer) => `${String(answer.status)} ${await answer.text()}`,
          String,
        ),
      );
    }, 8);
    try {
      await upset(jobs, 50);
    } finally {
      clearInterval(load);
    }
    const got = await Promise.all(answers);
    expect(got.length).toBeGreaterThan(100);
    const want = ["200 whole", "200 data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"];
    expect(got.filter((answer) => !want.includes(answer))).toEqual([]);
    const none = { starting: 0, ready: 0, draining: 0 };
    const text = counts.metricsText({ inService: 0, waiting: 0, replicas: none, bodiesBytes: 0 });
    expect(text).toContain(`requests_total{end="answered"} ${String(got.length)}\n`);
    expect(text).toContain('requests_total{end="lost"} 0\n');
  });

  it("asks a request again whose replica dies before it has answered", async () => {
    const { url, jobs } = await opened({}, { rule: { min: 2, max: 2, idleMs: 60_000 } });
    expect((await post(url)).status).toBe(200);
    const asked = Array.from({ length: 8 }, () => post(url));
    await expect.poll(() => jobs.paths.length, { timeout: 60_000, interval: 1 }).toBeGreaterThan(3);
    const [first] = jobs.replicas.keys();
    jobs.kill(first ?? "");
    for (const answer of await Promise.all(asked)) expect(await answer.text()).toBe("whole");
  });

  it("does not ask for ever what ends every replica that has it", async () => {
    const { url, jobs } = await opened({}, { rule: { min: 1, max: 1, idleMs: 60_000 } });
    const answer = await post(url, "/poison");
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(/5 replicas were lost while they had this request/);
    // One whose connection was kept from a request before is not sure to have had it.
    expect(jobs.paths.length).toBeLessThan(12);
    expect((await post(url)).status).toBe(200);
  });

  it("does not ask for ever over which its replicas fall silent, also on kept connections", async () => {
    const limits = { ...ENDPOINT_LIMITS, silentMs: 500 };
    const { url, jobs } = await opened({ limits }, { rule: { min: 1, max: 1, idleMs: 60_000 } });
    expect((await post(url)).status).toBe(200);
    const answer = await post(url, "/silence");
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(/the last one because it has said nothing for 0.5 s/);
    const asked = jobs.paths.filter((path) => path === "/silence").length;
    expect(asked).toBeLessThanOrEqual(5);
  });

  it("gives up all requests of a connection that ends, also those whose turn has not come", async () => {
    const { url, jobs, counts } = await opened({}, { rule: { min: 1, max: 1, idleMs: 60_000 } });
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write("POST /silence HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}".repeat(3));
    await expect.poll(() => jobs.paths.length, { timeout: 60_000 }).toBe(3);
    socket.destroy();
    const none = { starting: 0, ready: 0, draining: 0 };
    const text = (): string =>
      counts.metricsText({ inService: 0, waiting: 0, replicas: none, bodiesBytes: 0 });
    await expect.poll(text, { timeout: 60_000 }).toContain('requests_total{end="gone"} 3\n');
  });

  it("says that a path cannot be read", async () => {
    const { url } = await opened();
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write("GET //[ HTTP/1.1\r\nhost: x\r\n\r\n");
    const [said] = (await once(socket, "data")) as [Buffer];
    expect(said.toString()).toMatch(/^HTTP\/1.1 400/);
    socket.destroy();
  });

  it("is ready without a replica, says what it has done, and starts none for that", async () => {
    const { url, jobs } = await opened();
    for (const path of ["/healthz", "/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"])
      expect((await fetch(`${url}${path}`)).status).toBe(200);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('replicas{phase="ready"} 0');
    expect(await (await fetch(`${url}/v2/models/m/stats`)).json()).toMatchObject({
      model_stats: [{ name: "m", inference_count: 0 }],
    });
    expect(jobs.replicas.size).toBe(0);
  });

  it("asks for rights before anything but health, and starts no replica for a stranger", async () => {
    const guard: EndpointParts["guard"] = (_request, act) =>
      Promise.resolve(act === "look" ? undefined : { status: 403, why: "ada may not ask" });
    const { url, jobs } = await opened({ guard });
    expect((await post(url)).status).toBe(403);
    expect((await fetch(`${url}/metrics`)).status).toBe(200);
    expect(jobs.replicas.size).toBe(0);
  });

  const certificate = ownCertificate();
  it.skipIf(certificate === undefined)(
    "answers over TLS, and nobody in clear (skipped: no openssl to make a certificate with)",
    async () => {
      const { url } = await opened({}, certificate && { tls: certificate });
      const asked = request(`${url}/infer`, { method: "POST", ca: certificate?.cert }).end("{}");
      const [answer] = (await once(asked, "response")) as [IncomingMessage];
      expect(answer.statusCode).toBe(200);
      expect(await answer.setEncoding("utf8").toArray()).toEqual(["whole"]);
      await expect(post(url.replace("https:", "http:"))).rejects.toThrow("fetch failed");
    },
  );

  it("refuses bodies beyond its bounds, said or not", async () => {
    const { url } = await opened({ limits: { ...ENDPOINT_LIMITS, bodyBytes: 1_000 } });
    expect((await post(url, "/infer", "x".repeat(2_000))).status).toBe(413);
    const pieces = new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(300));
      },
    });
    const streamed = { method: "POST", body: pieces, duplex: "half" } as RequestInit;
    const answer = await fetch(`${url}/infer`, streamed).catch(() => undefined);
    // The answer may be lost with the connection on which the body still comes.
    expect([413, undefined]).toContain(answer?.status);
  });

  it("asks replicas alone, whatever host a request's first line names", async () => {
    const { url, jobs } = await opened();
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.write(
      "POST //elsewhere.test/infer?a=1 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
    );
    const [said] = (await once(socket, "data")) as [Buffer];
    expect(said.toString()).toMatch(/^HTTP\/1.1 200/);
    socket.destroy();
    expect(jobs.paths).toEqual(["/infer?a=1"]);
  });
});

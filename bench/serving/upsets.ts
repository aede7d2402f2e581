/**
 * @file Preemptions, moves and scale-downs of a service's replicas while clients send all the time: how many requests were lost.
 *
 * A request is lost when its answer is another status than 200, another request's, or none. Clients' inputs have different lengths, so none shares a batch
 * with another: each waits for its window, and two replicas are wanted at little work for the processor.
 */

import { setTimeout as pause } from "node:timers/promises";
import { randomFrom } from "../../lib/random.ts";
import { quantile } from "../../lib/quantile.ts";
import { openOnnx } from "../../models/onnx/onnx-session.ts";
import { transformerSample } from "../../models/onnx/onnx-samples.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import { atLeast, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { answerGap, drawnRequest, inferBody, inferredData, MOST_GAP } from "./cold-request.ts";
import { openServiceSite, type ServiceSite } from "./service-site.ts";

/** The service borrows what the owner does not use. */
const FLEET = `
name: upsets
policy: { reserve: 0 }
tenants:
  - { name: owner, quota: { L40S: 3 } }
  - { name: guest, quota: { L40S: 0 }, borrowing: 3 }
clusters:
  - name: room
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "u[1-3]", gpus: 1, type: L40S }
`;
const SERVICE = `
name: upsets
tenant: guest
class: inference
gang: 1
model: model.onnx
preemption: { allowed: true, minRuntime: 0s }
serve: { min: 1, max: 2, maxBatch: 2, batchWindow: 200ms }
run: { grace: 60s }
`;
const WIDTH = 64;
/** More than one replica has slots for, and of those that stay, fewer. */
const CLIENTS = 6;
const STAYING = 2;
export const UPSETS = ["preemption", "move", "requeue", "scale-down"] as const;

interface Traffic {
  readonly tookMs: number[];
  readonly lost: string[];
  isOver: boolean;
  /** Only those that stay send. */
  isQuiet: boolean;
}

export interface UpsetsAnswer {
  readonly bars: readonly Bar[];
  readonly tables: readonly BenchTable[];
}

export async function upsets(request: BenchRequest): Promise<UpsetsAnswer> {
  const count = request.size("upsets");
  const model = transformerSample({ blocks: 1, width: WIDTH, seed: request.seed });
  const asked = await answeredRequests(model, request.seed);
  const site = await openServiceSite({ request, fleetYaml: FLEET, serviceYaml: SERVICE, model });
  const traffic: Traffic = { tookMs: [], lost: [], isOver: false, isQuiet: false };
  const done = new Map<string, number>();
  try {
    const clients = asked.map((each, at) => client(site, each, { traffic, stays: at < STAYING }));
    try {
      for (let number = 0; number < count; number += 1) {
        const kind = UPSETS[number % UPSETS.length] ?? UPSETS[0];
        do await bothServe(site);
        while (!(await upset(site, kind, traffic)));
        done.set(kind, (done.get(kind) ?? 0) + 1);
        request.say(
          `${kind} ${String(number + 1)} of ${String(count)}: ${String(traffic.tookMs.length)} answers, ${String(traffic.lost.length)} lost`,
        );
      }
      await bothServe(site);
    } finally {
      traffic.isOver = true;
      await Promise.all(clients);
    }
  } finally {
    await site.close();
  }
  return answerOf(traffic, done, count);
}

function answerOf(
  { tookMs, lost }: Traffic,
  done: ReadonlyMap<string, number>,
  count: number,
): UpsetsAnswer {
  const all = [...done.values()].reduce((sum, each) => sum + each, 0);
  return {
    bars: [
      barOf({
        id: "upsets-lost",
        unit: "requests",
        target: exactly(0),
        got: lost.length,
        note: lost.length === 0 ? "of all that were sent" : (lost[0] ?? "").slice(0, 200),
      }),
      barOf({ id: "upsets-done", unit: "upsets", target: exactly(count), got: all }),
      barOf({
        id: "upsets-answers",
        unit: "answers",
        target: atLeast(count),
        got: tookMs.length,
        note: "each held against a session of onnxruntime",
      }),
      barOf({ id: "upsets-p99", unit: "ms", target: REPORTED, got: quantile(tookMs, 0.99) }),
      barOf({ id: "upsets-longest", unit: "ms", target: REPORTED, got: quantile(tookMs, 1) }),
    ],
    tables: [
      {
        title: "What happened to replicas under load",
        columns: ["upset", "times"],
        rows: UPSETS.map((kind) => [kind, String(done.get(kind) ?? 0)]),
      },
    ],
  };
}

interface Answered {
  readonly body: string;
  readonly want: readonly number[];
}

/** One for each client, of a length of its own. */
async function answeredRequests(model: Uint8Array, seed: number): Promise<readonly Answered[]> {
  const random = randomFrom(seed, "upsets");
  const session = await openOnnx(model);
  const made: Answered[] = [];
  for (let length = 1; length <= CLIENTS; length += 1) {
    const asked = drawnRequest(random, { length, width: WIDTH });
    const { name, shape, data } = asked;
    const feeds = new Map([
      [name, { type: "float32" as const, shape, data: Float32Array.from(data) }],
    ]);
    const [answer] = [...(await session.run(feeds)).values()];
    made.push({ body: inferBody(asked), want: [...((answer?.data ?? []) as Float32Array)] });
  }
  await session.release();
  return made;
}

/** Sends one request after the other until all is over. */
async function client(
  site: ServiceSite,
  { body, want }: Answered,
  { traffic, stays }: { readonly traffic: Traffic; readonly stays: boolean },
): Promise<void> {
  while (!traffic.isOver) {
    if (traffic.isQuiet && !stays) {
      await pause(20);
      continue;
    }
    const fromMs = performance.now();
    try {
      const { status, text } = await site.ask(body);
      if (status !== 200) traffic.lost.push(`status ${String(status)}: ${text}`);
      else if (!(answerGap(want, inferredData(text)) <= MOST_GAP))
        traffic.lost.push("another answer than that of onnxruntime");
    } catch (error) {
      // `fetch` says why in the cause alone.
      const why = error instanceof Error ? error.cause : undefined;
      traffic.lost.push(`${String(error)}: ${String(why)}`);
    }
    traffic.tookMs.push(performance.now() - fromMs);
  }
}

const bothServe = (site: ServiceSite): Promise<true> =>
  site.until("two replicas serve", async () =>
    (await site.metrics()).includes('replicas{phase="ready"} 2') ? true : undefined,
  );

/** False where the service gave the replica back before it was upset: on a busy machine clients may need only one for a while. */
async function upset(
  site: ServiceSite,
  kind: (typeof UPSETS)[number],
  traffic: Traffic,
): Promise<boolean> {
  const { orbweaver } = site.world;
  const replicas = async (): Promise<readonly Lease[]> =>
    [...(await orbweaver.fleet()).leases.values()].filter(
      ({ tenant, state }) => tenant === "guest" && state === "held",
    );
  const anotherLease = async ({ jobId, token }: Lease): Promise<boolean> => {
    const job = orbweaver.job(jobId);
    try {
      await job.requeue();
    } catch (error) {
      if ((await job.ending()).outcome !== undefined) return false;
      throw error;
    }
    return await site.until("the replica has another lease, or has ended", async () => {
      const isThere = (lease: Lease): boolean => lease.jobId === jobId && lease.token !== token;
      if ((await replicas()).some(isThere)) return true;
      return (await job.ending()).outcome === undefined ? undefined : false;
    });
  };
  const [replica] = await replicas();
  if (replica === undefined) throw new Error("no replica has a lease");
  switch (kind) {
    case "preemption": {
      // One GPU is free; the other is a replica's.
      const { jobId: owner } = await orbweaver.submit({
        name: "owner",
        tenant: "owner",
        gang: 2,
        run: { command: ["sleep", "100000"], grace: "1s" },
      });
      await site.until("the owner has a replica's GPU", async () => {
        const leases = [...(await orbweaver.fleet()).leases.values()];
        return leases.some((lease) => lease.jobId === owner) ? true : undefined;
      });
      await orbweaver.job(owner).cancel();
      return true;
    }
    case "move": {
      const host = replica.gpus[0]?.host;
      if (host === undefined) throw new Error(`${replica.id} has no host`);
      await orbweaver.drain([host], "bench");
      const isMoved = await anotherLease(replica);
      await orbweaver.undrain([host]);
      return isMoved;
    }
    case "requeue":
      return await anotherLease(replica);
    case "scale-down":
      traffic.isQuiet = true;
      await site.until("one replica is left", async () =>
        (await replicas()).length === 1 ? true : undefined,
      );
      traffic.isQuiet = false;
      return true;
  }
}

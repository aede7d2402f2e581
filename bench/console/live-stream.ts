/**
 * @file Changes of a live fleet: five requests a second for 1 to 8 GPUs in the name of jobs that do not exist. Each is granted, found to be of nobody when
 * its grant is delivered, and taken back: so leases change ten times a second by the fleet's own workers, and no process runs.
 *
 * About once a second the fleet is asked for its ledger: what it answers twice alike was the ledger of the instant between.
 */

import { Client } from "@temporalio/client";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fleetWorkflowId, inboxSignal, WORD_ROLES } from "../../protocol/messages.ts";
import { isolatedConnection } from "../../workers/connection.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
import type { BenchWorld } from "../live/world.ts";
import type { Draw } from "../statistics.ts";
import { ledgerHash } from "./folded-histories.ts";

const EVERY_MS = 200;
const MOST_GPUS = 8;
/** Requests between two looks at the ledger. */
const LOOK_EVERY = 5;
const MOST_ASKED = 3;

export interface AnsweredLedger {
  readonly atMs: number;
  readonly hash: string;
}

export interface LiveStream {
  readonly requests: number;
  readonly answered: readonly AnsweredLedger[];
}

export async function playChanges(
  world: BenchWorld,
  {
    env,
    draw,
    isEnough,
  }: {
    readonly env: Environment;
    readonly draw: Draw;
    /** Asked about once a second. */
    readonly isEnough: (seconds: number) => Promise<boolean>;
  },
): Promise<LiveStream> {
  const fleet = believed(world, env).workflow.getHandle(fleetWorkflowId(world.fleet));
  const answered: AnsweredLedger[] = [];
  const beganMs = performance.now();
  const seconds = (): number => (performance.now() - beganMs) / 1_000;
  let requests = 0;
  do {
    world.check();
    const looking = askedLedger(world);
    // A slow server is no reason to ask more slowly.
    const sent: Promise<void>[] = [];
    for (let at = 0; at < LOOK_EVERY; at += 1) {
      requests += 1;
      const entry = requestOf(
        `${world.fleet}-nobody-${String(requests)}`,
        1 + draw.below(MOST_GPUS),
      );
      sent.push(fleet.signal(inboxSignal, [entry]));
      await sleep(Math.max(0, beganMs + requests * EVERY_MS - performance.now()));
    }
    const [one] = await Promise.all([looking, ...sent]);
    if (one !== undefined) answered.push(one);
  } while (!(await isEnough(seconds())));
  return { requests, answered };
}

/** Speaks with the keys of the fleet's workers. */
function believed({ temporal, address, dir }: BenchWorld, env: Environment): Client {
  const { namespace, dataConverter } = isolatedConnection({
    address,
    namespace: temporal.options.namespace,
  });
  const keys = wordProver(WORD_ROLES, { ...env, ORBWEAVER_STATE_DIR: join(dir, "state") });
  const interceptors = { workflow: [signingInterceptor(keys)] };
  return new Client({ connection: temporal.connection, namespace, dataConverter, interceptors });
}

const requestOf = (jobId: string, gpus: number): unknown => ({
  kind: "request",
  request: {
    ...{ jobId, runId: `run-of-${jobId}`, seq: 1, name: "nobody", tenant: "default" },
    ...{ class: "training", priority: 0 },
    gang: { gpus, min: gpus, timeoutMs: 0 },
    constraints: { isSameHost: false, isSameFabric: false },
    ...{ submittedAtMs: Date.now(), requestedAtMs: Date.now() },
  },
});

/** Undefined where something has changed between any two answers. */
async function askedLedger(world: BenchWorld): Promise<AnsweredLedger | undefined> {
  let former: AnsweredLedger | undefined;
  for (let asked = 0; asked < MOST_ASKED; asked += 1) {
    const hash = ledgerHash(await world.orbweaver.fleet());
    if (former?.hash === hash) return former;
    former = { atMs: Date.now(), hash };
  }
  return undefined;
}

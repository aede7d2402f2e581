/**
 * @file What proof of who speaks costs a grant: jobs of a fleet that asks for it, beside jobs of one that does not, in turns, on the same workers.
 *
 * Both fleets have an agent of their own on one server, with nothing else to do. Their senders sign in both, because they know nothing of their
 * receivers: that part is measured alone. Which job of a pair comes first alternates.
 */

import { generateKeyPairSync } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { digestOf, newNonce, signedBy, signingPair } from "../../access/word-signature.ts";
import { fleetRun } from "../../activities/fleet-run.ts";
import { untilHostsKnown } from "../../cli/up/agents.ts";
import { OrbweaverClient } from "../../client/index.ts";
import { FLEET_WORKFLOW } from "../../protocol/messages.ts";
import { signedWords } from "../../protocol/word-proof.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { quantile, spreadOf, type Spread } from "../statistics.ts";
import { BENCH_FLEET } from "./fleet.ts";
import { oneJob, type FleetOfJobs } from "./granted.ts";
import { fleetOf, type BenchWorld } from "./world.ts";

const MOST_ADDED_MS = 10;
/** The first rounds pay for caches and compilers of both sides. */
const WARM_UP = 5;
const QUIET_MS = 150;
const SIGNATURES = 1_000;

interface SignedAnswer {
  readonly bars: readonly Bar[];
  readonly details: Readonly<Record<string, Spread>>;
}

export async function measureSigned(
  world: BenchWorld,
  request: BenchRequest,
): Promise<SignedAnswer> {
  const pairs = request.size("pairs");
  const plain = await openUnsignedFleet(world);
  const signedMs: number[] = [];
  const plainMs: number[] = [];
  for (let pair = -WARM_UP; pair < pairs; pair += 1) {
    world.check();
    const key = `signed-${String(pair + WARM_UP)}`;
    const signed = (): Promise<number> => grantedMs(world, key);
    const unsigned = (): Promise<number> => grantedMs(plain, key);
    const isSignedFirst = pair % 2 === 0;
    const first = await (isSignedFirst ? signed : unsigned)();
    const second = await (isSignedFirst ? unsigned : signed)();
    if (pair < 0) continue;
    signedMs.push(isSignedFirst ? first : second);
    plainMs.push(isSignedFirst ? second : first);
    if ((pair + 1) % 20 === 0) request.say(`signed: ${String(pair + 1)} of ${String(pairs)}`);
  }
  const addedMs = signedMs.map((ms, at) => ms - (plainMs[at] ?? NaN));
  const note = `median of ${String(pairs)} pairs in turns`;
  return {
    bars: [
      barOf({ id: "signed-p50", unit: "ms", target: REPORTED, got: quantile(signedMs, 0.5) }),
      barOf({ id: "unsigned-p50", unit: "ms", target: REPORTED, got: quantile(plainMs, 0.5) }),
      barOf({
        id: "signed-added",
        unit: "ms",
        target: atMost(MOST_ADDED_MS),
        got: quantile(addedMs, 0.5) + 2 * signingMs(),
        note: `${note}, and the two signatures on the way of a grant`,
      }),
    ],
    details: {
      signedMs: spreadOf(signedMs),
      unsignedMs: spreadOf(plainMs),
      addedMs: spreadOf(addedMs),
    },
  };
}

async function grantedMs(fleet: FleetOfJobs, key: string): Promise<number> {
  const { grantedMs: ms } = await oneJob(fleet, key);
  await sleep(QUIET_MS);
  return ms;
}

/** A fleet of the same description, with the same rules, that believes all that it is told. */
async function openUnsignedFleet(world: BenchWorld): Promise<FleetOfJobs> {
  const { temporal } = world;
  const fleet = `${world.fleet}-unsigned`;
  const { shape } = fleetOf(BENCH_FLEET);
  const ledger = packLedger(emptyLedger(shape));
  await temporal.workflow.start(FLEET_WORKFLOW, fleetRun({ name: fleet, ledger }));
  const server = [
    "--isolated",
    "--address",
    world.address,
    "--namespace",
    temporal.options.namespace,
  ];
  for (const { id } of shape.clusters) {
    const words = ["worker", "--role", "agent", "--fleet", fleet, "--cluster", id, ...server];
    await world.processes.start("agent-unsigned", "cli/main.js", words);
  }
  const orbweaver = new OrbweaverClient(temporal, { fleet });
  const hosts = shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
  await untilHostsKnown(orbweaver, hosts, Date.now);
  return { fleet, temporal, orbweaver };
}

/** One signature of a word as long as a grant. */
function signingMs(): number {
  const pair = signingPair(generateKeyPairSync("ed25519").privateKey);
  const value = Buffer.alloc(2_048, "x");
  const startedAtMs = performance.now();
  for (let at = 0; at < SIGNATURES; at += 1) {
    const claim = { role: "fleet", key: pair.publicKey, atMs: at, nonce: newNonce() } as const;
    const word = { workflowId: "job", signal: "grant", digest: digestOf(value) };
    signedBy(pair, signedWords(claim, word));
  }
  return (performance.now() - startedAtMs) / SIGNATURES;
}

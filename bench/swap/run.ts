/**
 * @file Takes hosts from gangs on a live fleet, and judges what follows: which GPUs are kept, and how soon the gang runs beside them again.
 *
 * In turns the fifth host's job is cancelled, or the killed host's agent is started anew. The clock starts with the order to cancel, so the time includes the
 * end of that job; or when the new agent's presence has told the fleet of it. It ends when the last of the four ranks has said that it runs.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { atMost, barOf, exactly, REPORTED } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import { quantile } from "../statistics.ts";
import { GANG_HOSTS, HOSTS, openSwapSite, type Started, type SwapSite } from "./site.ts";

const WITHIN_MS = 10_000;
/** Ten lost hosts end a job, so every gang loses fewer. */
const SWAPS_OF_A_GANG = 8;
/** One has the fifth host, the others would take whatever is free. */
const SMALL_JOBS = 3;

export interface Swap {
  readonly how: "freed" | "back";
  readonly tookMs: number;
  /** The gang runs on the three hosts that were kept, and one more. */
  readonly hasKept: boolean;
  /** It goes on from its checkpoint. */
  readonly hasResumed: boolean;
}

interface Running {
  readonly name: string;
  readonly job: string;
  /** Those that were submitted; as many as wait when one is cancelled. */
  readonly smalls: string[];
}

export async function runSwaps(request: BenchRequest): Promise<BenchAnswer> {
  const swaps = request.size("swaps");
  return answerOf(await playSwaps(request), swaps);
}

/** As many as the request says, in their order. */
export async function playSwaps(request: BenchRequest): Promise<readonly Swap[]> {
  const swaps = request.size("swaps");
  const random = randomFrom(request.seed, "swaps");
  const site = await openSwapSite(request);
  const done: Swap[] = [];
  try {
    let running: Running | undefined;
    for (let number = 0; number < swaps; number += 1) {
      if (number % SWAPS_OF_A_GANG === 0) {
        if (running !== undefined) await endAll(site, running);
        running = await startGang(site, number);
      }
      if (running === undefined) throw new Error("no gang runs");
      const swap = await swapOnce(site, running, {
        random,
        how: number % 2 === 0 ? "freed" : "back",
      });
      done.push(swap);
      request.say(
        `swap ${String(number + 1)} of ${String(swaps)} (${swap.how}): ${(swap.tookMs / 1_000).toFixed(1)} s`,
      );
    }
  } finally {
    await site.close();
  }
  return done;
}

function answerOf(done: readonly Swap[], swaps: number): BenchAnswer {
  const times = done.map(({ tookMs }) => tookMs);
  const good = done.filter((swap) => swap.tookMs <= WITHIN_MS && swap.hasKept && swap.hasResumed);
  const seconds = (share: number): number => quantile(times, share) / 1_000;
  const timesOf = (how: Swap["how"]): readonly number[] =>
    done.flatMap((each) => (each.how === how ? [each.tookMs / 1_000] : []));
  const note = `within ${String(WITHIN_MS / 1_000)} s, on the three that were kept and the new one, from the checkpoint`;
  return {
    bars: [
      barOf({ id: "swaps", unit: "gangs", target: exactly(swaps), got: good.length, note }),
      barOf({ id: "swap-longest", unit: "s", target: atMost(WITHIN_MS / 1_000), got: seconds(1) }),
      barOf({ id: "swap-median", unit: "s", target: REPORTED, got: seconds(0.5) }),
    ],
    tables: [
      {
        title: "From the moment at which a replacement is free to four running ranks",
        columns: ["replacement", "swaps", "median s", "longest s"],
        rows: (["freed", "back"] as const).map((how) => {
          const all = timesOf(how);
          const figure = (share: number): string =>
            all.length === 0 ? "-" : quantile(all, share).toFixed(2);
          return [
            how === "freed" ? "another host, freed" : "the same host, back",
            String(all.length),
            figure(0.5),
            figure(1),
          ];
        }),
      },
    ],
  };
}

async function startGang(site: SwapSite, number: number): Promise<Running> {
  const name = `gang-${String(number)}`;
  const job = await site.submitGang(name);
  await site.until(`${name} runs`, () => newStarts(site, name, undefined));
  const smalls: string[] = [];
  for (let at = 0; at < SMALL_JOBS; at += 1)
    smalls.push(await site.submitSmall(`${name}-small-${String(at)}`));
  await site.until("the fifth host is taken", async () => spareHolder(await site.ledger()));
  return { name, job, smalls };
}

async function endAll(site: SwapSite, { job, smalls }: Running): Promise<void> {
  const { leases, requests } = await site.ledger();
  const open = new Set([
    ...[...leases.values()].map((lease) => lease.jobId as string),
    ...requests.keys(),
  ]);
  for (const each of [...smalls, job]) if (open.has(each)) await site.cancel(each);
  await site.until("everything has ended", async () => {
    const ledger = await site.ledger();
    return ledger.leases.size === 0 && ledger.requests.size === 0 ? true : undefined;
  });
}

async function swapOnce(
  site: SwapSite,
  { name, job, smalls }: Running,
  { random, how }: { readonly random: Random; readonly how: Swap["how"] },
): Promise<Swap> {
  const before = site.startedOf(name).slice(-GANG_HOSTS);
  const holder = await site.until("one small job runs", async () =>
    spareHolder(await site.ledger()),
  );
  const victim = before[random.below(GANG_HOSTS)];
  if (victim === undefined) throw new Error("no rank has started");
  const lost = hostOf(victim);
  const others = before.filter(({ host }) => host !== victim.host).map(hostOf);
  await site.lose(lost, [victim.pid]);
  await site.until(`${name} keeps the others`, async () => {
    const { reservations, requests } = await site.ledger();
    const kept = [...(reservations?.values() ?? [])].find(({ jobId }) => jobId === job);
    const isAll =
      kept !== undefined && others.every((host) => kept.gpus.some((part) => part.host === host));
    return isAll && [...requests.keys()].some((each) => each === job) ? true : undefined;
  });
  const orderedAtMs = Date.now();
  if (how === "freed") await site.cancel(holder);
  else void site.bringBack(lost);
  const after = await site.until(`${name} runs again`, () => newStarts(site, name, victim.lease));
  const runsAtMs = Date.now();
  const freeAtMs = how === "freed" ? orderedAtMs : await answersSince(site, lost);
  if (how === "freed") {
    smalls.push(await site.submitSmall(`${name}-small-${String(smalls.length)}`));
    await site.bringBack(lost);
    await site.until("the host that is back is taken", async () =>
      spareHolder(await site.ledger()),
    );
  }
  const hosts = new Set(after.map(hostOf));
  return {
    how,
    tookMs: runsAtMs - freeAtMs,
    hasKept: hosts.size === GANG_HOSTS && others.every((host) => hosts.has(host)),
    hasResumed: after.every(({ step }) => step > Math.max(...before.map((each) => each.step))),
  };
}

/** When the fleet was told that the host's agent answers again. */
const answersSince = (site: SwapSite, host: HostId): Promise<number> =>
  site.until(`${host} answers`, async () => (await site.ledger()).hosts.get(host)?.toldAtMs);

/** The ranks of the newest lease, once all of them run; `former`: the lease before. */
function newStarts(
  site: SwapSite,
  name: string,
  former: string | undefined,
): readonly Started[] | undefined {
  const last = site.startedOf(name).slice(-GANG_HOSTS);
  const lease = last.at(-1)?.lease;
  const isNew = lease !== undefined && lease !== former;
  return isNew && last.length === GANG_HOSTS && last.every((each) => each.lease === lease)
    ? last
    : undefined;
}

/** The small job that has the host that the gang does not have. */
function spareHolder({ leases }: Ledger): string | undefined {
  const small = [...leases.values()].find(
    ({ gpus, state }) => gpus.length === 1 && state === "held",
  );
  return small?.jobId;
}

function hostOf({ host }: Started): HostId {
  const known = HOSTS.find((each) => each === host);
  if (known === undefined) throw new Error(`a rank says that it runs on ${host}`);
  return known;
}

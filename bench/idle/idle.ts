/**
 * @file The calls of an idle fleet to its server: every host has an agent with its own queues, and no job is submitted.
 *
 * Fleet and jobs worker run as they do everywhere; the agents are the product's, many in one process. Counted are all calls to the server's
 * frontend, long polls and heartbeats included, by the server's own metrics. Fewer agents than hosts are scaled up in
 * proportion, the fleet's, jobs' and console's own calls with them, so the figures err on the high side. With and without a console, in turns.
 */

import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { drawFreePort } from "../../workers/server/ports.ts";
import { atMost, barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { idleFleet } from "../live/fleet.ts";
import { endNow } from "../live/processes.ts";
import { openWorld, type BenchWorld } from "../live/world.ts";
import { callsNow, callsSince, totalOf, type Calls } from "./calls.ts";

const FIGURE = { id: "idle-calls", unit: "1/s", target: atMost(100) } as const;
const BESIDE = { id: "idle-calls-beside-console", unit: "1/s", target: atMost(100) } as const;
/** With and without a console, in turns. */
const TURNS = 2;
const CATCH_UP_MS = 5_000;
const HOSTS_PER_CLUSTER = 100;
const KNOWN_WITHIN_MS = 600_000;
const LOOK_EVERY_MS = 1_000;
/** Long polls last a minute: by then each agent is in its rhythm. */
const SETTLE_MS = 75_000;

interface IdleAnswer {
  readonly bars: readonly Bar[];
  readonly details: Readonly<Record<string, number>>;
}

export async function measureIdle(request: BenchRequest): Promise<IdleAnswer> {
  if (request.text("address") !== undefined) {
    const why = "the server is not ours, so its metrics are not known";
    return { bars: [unmeasured(FIGURE, why), unmeasured(BESIDE, why)], details: {} };
  }
  const hosts = request.size("hosts");
  const agents = Math.min(hosts, request.size("idle-agents"));
  const seconds = request.size("idle-seconds");
  const world = await openWorld({ request, metricsPort: await drawFreePort() });
  try {
    request.say(`idle: starting ${String(agents)} agents`);
    await startAll(world, agents);
    await untilKnown(world, agents, request);
    request.say(`idle: all ${String(agents)} are attended; letting them settle`);
    await restFor(world, SETTLE_MS);
    const [without, beside] = [emptyWatch(), emptyWatch()];
    for (let turn = 0; turn < TURNS; turn += 1) {
      await watchInto(world, without, seconds / TURNS);
      const console_ = await startConsole(world);
      await watchInto(world, beside, seconds / TURNS);
      await endNow(console_);
    }
    const figure = (watch: Watch) =>
      figureOf(watch.calls, { hosts, agents, scale: hosts / agents / watch.seconds });
    // The console's own calls are as many, however many hosts there are.
    const bySecond = totalOf(beside.calls) / beside.seconds;
    const ofConsole = bySecond - totalOf(without.calls) / without.seconds;
    return {
      bars: [
        barOf({ ...FIGURE, ...figure(without) }),
        barOf({ ...BESIDE, ...figure(beside) }),
        barOf({ id: "idle-console-calls", unit: "1/s", target: REPORTED, got: ofConsole }),
      ],
      details: rates(without.calls, hosts / agents / without.seconds),
    };
  } finally {
    await world.stop();
  }
}

/** Calls of one kind of turns, all together. */
interface Watch {
  calls: Calls;
  seconds: number;
}

const emptyWatch = (): Watch => ({ calls: new Map(), seconds: 0 });

async function watchInto(world: BenchWorld, watch: Watch, seconds: number): Promise<void> {
  const before = await calls(world);
  const startedMs = performance.now();
  await restFor(world, seconds * 1_000);
  const since = callsSince(before, await calls(world));
  watch.seconds += (performance.now() - startedMs) / 1_000;
  const names = new Set([...watch.calls.keys(), ...since.keys()]);
  watch.calls = new Map(
    [...names].map((name) => [name, (watch.calls.get(name) ?? 0) + (since.get(name) ?? 0)]),
  );
}

/** With a history database, as `up` has it; what it asks to read the fleet's history once is not counted. */
async function startConsole(world: BenchWorld): Promise<ChildProcess> {
  const { fleet, address, dir, temporal } = world;
  const at = ["--isolated", "--address", address, "--namespace", temporal.options.namespace];
  const history = ["--history", join(dir, "history.db"), "--port", String(await drawFreePort())];
  const words = ["console", "--fleet", fleet, ...history, ...at];
  const child = await world.processes.start("console", "cli/main.js", words);
  await restFor(world, CATCH_UP_MS);
  return child;
}

function figureOf(
  since: Calls,
  of: { readonly hosts: number; readonly agents: number; readonly scale: number },
): { readonly got: number; readonly note: string } {
  const { hosts, agents, scale } = of;
  const parts = Object.entries(rates(since, scale))
    .slice(0, 4)
    .map(([operation, rate]) => `${operation} ${rate.toFixed(1)}`);
  const scaled = agents < hosts ? `measured with ${String(agents)} agents and scaled up; ` : "";
  return {
    got: totalOf(since) * scale,
    note: `${String(hosts)} hosts; ${scaled}${parts.join(", ")}`,
  };
}

/** Most frequent first. */
const rates = (since: Calls, scale: number): Readonly<Record<string, number>> =>
  Object.fromEntries(
    [...since]
      .map(([operation, count]) => [operation, count * scale] as const)
      .sort(([nameA, a], [nameB, b]) => b - a || (nameA < nameB ? -1 : 1)),
  );

async function startAll(world: BenchWorld, agents: number): Promise<void> {
  const { shape } = await world.startFleet(idleFleet(agents, HOSTS_PER_CLUSTER));
  await Promise.all([world.startRole("fleet"), world.startRole("jobs")]);
  const stateDir = `${world.dir}/state`;
  for (const { id, hosts } of shape.clusters) {
    world.check();
    const names = hosts.map((host) => host.id.slice(host.id.indexOf("/") + 1)).join(",");
    const words = [world.address, world.fleet, id, names, stateDir];
    await world.processes.start(`agents-${id}`, "bench/idle/agents.js", words);
  }
}

async function untilKnown(world: BenchWorld, agents: number, request: BenchRequest): Promise<void> {
  const untilMs = Date.now() + KNOWN_WITHIN_MS;
  for (let said = 0; ;) {
    world.check();
    const { hosts } = await world.orbweaver.fleet();
    const known = [...hosts.values()].filter(({ agent }) => agent !== undefined).length;
    if (known >= agents) return;
    if (Date.now() > untilMs) {
      throw new Error(
        `only ${String(known)} of ${String(agents)} agents reached the fleet in time`,
      );
    }
    if (known >= said + 200) request.say(`idle: ${String(known)} agents are known`);
    said = Math.max(said, Math.floor(known / 200) * 200);
    await sleep(LOOK_EVERY_MS);
  }
}

async function restFor(world: BenchWorld, forMs: number): Promise<void> {
  const untilMs = performance.now() + forMs;
  while (performance.now() < untilMs) {
    world.check();
    await sleep(Math.min(LOOK_EVERY_MS, untilMs - performance.now() + 1));
  }
}

const calls = ({ metricsUrl, temporal }: BenchWorld): Promise<Calls> =>
  callsNow(metricsUrl ?? "", temporal.options.namespace);

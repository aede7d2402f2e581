/**
 * @file How the control plane wakes from no process at all: submit to granted, what runs after a quiet minute, and how often a
 * fleet with long jobs wakes it.
 *
 * Everything as a user has it: `orbweaver up` in a state folder of its own starts the server, and the server's worker controller
 * starts the workers. Granted is the moment at which the job's history has the grant, by the server's clock, which is
 * this machine's; the round begins before the client's call. Between two rounds every control process has ended.
 */

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import { OrbweaverClient } from "../client/index.ts";
import { openClient, resolveConnection } from "../workers/connection.ts";
import { CONTROL_ROLES } from "../workers/on-demand/places.ts";
import { livingOnDemand } from "../workers/on-demand/role-lock.ts";
import { commandLine } from "../workers/server/package-root.ts";
import { withoutTemporal, type Environment } from "../workers/server/environment.ts";
import { fleetStateDir } from "../workers/state.ts";
import { grantSignal } from "../protocol/messages.ts";

interface ScaleToZeroOptions {
  /** Cold rounds: one job each on a fleet with a console and on one without, in turns. */
  readonly rounds: number;
  /** How long nothing happens before the processes are counted. */
  readonly quietSeconds: number;
  /** Hosts of the fleet on which long jobs run. */
  readonly hosts: number;
  /** Long jobs, of one GPU each. */
  readonly jobs: number;
  /** How long their wake-ups are counted; 0 leaves them out. */
  readonly watchSeconds: number;
  readonly env: Environment;
  readonly say: (line: string) => void;
  readonly interrupted?: AbortSignal;
}

export const SCALE_TO_ZERO_SIZES = Object.freeze({
  rounds: 20,
  quietSeconds: 60,
  hosts: 1_000,
  jobs: 10,
  watchSeconds: 180,
});

interface ScaleToZeroFigures {
  /** One a round, in milliseconds, of the fleet with a console, as `up` starts it. */
  readonly grantedMs: readonly number[];
  readonly withoutConsoleMs: readonly number[];
  /** Process start to first poll, of every worker that started in the rounds. */
  readonly workerStartMs: readonly number[];
  readonly processesAfterQuiet: number;
  readonly wakeUps: {
    /** Control processes that started while the long jobs ran and nothing else happened. */
    readonly starts: number;
    readonly watchedMs: number;
    /** `starts`, extrapolated. */
    readonly startsPerHour: number;
  };
}

const FLEET = "zero";
/** Between two cold rounds the workers need not stay longer; the quiet minute is measured with the usual length. */
const SHORT_IDLE_SECONDS = 2;
const GONE_WITHIN_MS = 60_000;
const LONG_JOB_SECONDS = 3_600;

export async function measureScaleToZero(options: ScaleToZeroOptions): Promise<ScaleToZeroFigures> {
  const cold = await onFleet(options, { hosts: 2 }, (site) =>
    onFleet(options, { hosts: 2, flags: ["--no-console"] }, (bare) =>
      coldRounds(options, site, bare),
    ),
  );
  return { ...cold, wakeUps: await countWakeUps(options) };
}

async function coldRounds(
  { rounds, quietSeconds, say, interrupted }: ScaleToZeroOptions,
  site: Site,
  bare: Site,
): Promise<Omit<ScaleToZeroFigures, "wakeUps">> {
  for (const { up, untilGone } of [site, bare]) {
    await up("--idle", String(SHORT_IDLE_SECONDS));
    await untilGone();
  }
  const startsBefore = (await site.starts()).length;
  const grantedMs: number[] = [];
  const withoutConsoleMs: number[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    interrupted?.throwIfAborted();
    // Whoever is first does not stay first.
    const turns = [
      { at: site, took: grantedMs },
      { at: bare, took: withoutConsoleMs },
    ];
    for (const { at, took } of round % 2 === 0 ? turns.reverse() : turns) {
      took.push(await coldRound(at));
      await at.untilGone();
    }
    say(
      `zero: round ${String(round)}, granted after ${String(grantedMs.at(-1))} ms, without a console after ${String(withoutConsoleMs.at(-1))} ms`,
    );
  }
  const workerStartMs = (await site.starts()).slice(startsBefore);
  await site.up("--idle", "15");
  await coldRound(site);
  say(`zero: ${String(quietSeconds)} s of quiet`);
  await sleep(quietSeconds * 1_000, undefined, { signal: interrupted });
  return { grantedMs, withoutConsoleMs, workerStartMs, processesAfterQuiet: site.living() };
}

async function countWakeUps(options: ScaleToZeroOptions): Promise<ScaleToZeroFigures["wakeUps"]> {
  const { hosts, jobs, watchSeconds, say, interrupted } = options;
  if (watchSeconds === 0) return { starts: 0, watchedMs: 0, startsPerHour: NaN };
  return await onFleet(options, { hosts }, async (site) => {
    await site.up();
    say(`zero: ${String(jobs)} long jobs on ${String(hosts)} hosts`);
    for (let job = 0; job < jobs; job += 1) {
      const command = ["sleep", String(LONG_JOB_SECONDS)];
      await site.orbweaver.submit({
        name: `long-${String(job)}`,
        gang: { gpus: 1 },
        run: { command },
      });
    }
    // Their own start is not counted: it is over when the processes that it needed have ended.
    await site.untilGone();
    const before = (await site.starts()).length;
    await sleep(watchSeconds * 1_000, undefined, { signal: interrupted });
    const starts = (await site.starts()).length - before;
    await site.cli("down", "--fleet", FLEET, "--stop-jobs");
    const watchedMs = watchSeconds * 1_000;
    return { starts, watchedMs, startsPerHour: (starts * 3_600_000) / watchedMs };
  });
}

interface Site {
  readonly temporal: Client;
  readonly orbweaver: OrbweaverClient;
  readonly cli: (...words: readonly string[]) => Promise<void>;
  readonly up: (...flags: readonly string[]) => Promise<void>;
  /** Control processes that live. */
  readonly living: () => number;
  /** Waits until no control process lives. */
  readonly untilGone: () => Promise<void>;
  /** Milliseconds from process start to ready, of every control process so far. */
  readonly starts: () => Promise<readonly number[]>;
}

/** From before the client's call to the grant in the job's history. */
async function coldRound({ temporal, orbweaver }: Site): Promise<number> {
  const submittedAtMs = Date.now();
  const { jobId } = await orbweaver.submit({
    name: "cold",
    gang: { gpus: 1 },
    run: { command: ["true"] },
  });
  await orbweaver.job(jobId).result();
  const { events } = await temporal.workflow.getHandle(jobId).fetchHistory();
  const grant = events?.find(
    ({ workflowExecutionSignaledEventAttributes: signal }) =>
      signal?.signalName === grantSignal.name,
  );
  const { seconds, nanos } = grant?.eventTime ?? {};
  if (grant === undefined) throw new Error(`the history of ${jobId} has no grant`);
  return Math.round(Number(seconds) * 1_000 + Number(nanos) / 1e6) - submittedAtMs;
}

async function onFleet<T>(
  { env, say }: ScaleToZeroOptions,
  { hosts, flags = [] }: { readonly hosts: number; readonly flags?: readonly string[] },
  measure: (site: Site) => Promise<T>,
): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), "orbweaver-zero-"));
  const own = { ...withoutTemporal(env), ORBWEAVER_STATE_DIR: dir, ORBWEAVER_FLEET: FLEET };
  const stateDir = fleetStateDir(own, FLEET);
  const fleetFile = join(dir, "fleet.yaml");
  await writeFile(fleetFile, fleetYaml(hosts));
  const cli = (...words: readonly string[]): Promise<void> => runCli(words, own);
  let isUp = false;
  let close: (() => Promise<void>) | undefined;
  try {
    // An `up` that fails half-way leaves things up too.
    isUp = true;
    await cli("up", fleetFile, "--idle", String(SHORT_IDLE_SECONDS), ...flags);
    const connection = await resolveConnection(
      { isIsolated: true },
      { env: own, cwd: dir, stateDir },
    );
    const opened = await openClient(connection);
    close = opened.close;
    const living = (): number => livingOnDemand(stateDir).length;
    return await measure({
      temporal: opened.client,
      orbweaver: new OrbweaverClient(opened.client, { fleet: FLEET }),
      cli,
      up: (...more) => cli("up", ...more, ...flags),
      living,
      untilGone: async () => {
        const endAtMs = Date.now() + GONE_WITHIN_MS;
        while (living() > 0) {
          if (Date.now() > endAtMs) throw new Error("control processes do not end");
          await sleep(50);
        }
      },
      starts: () => startsIn(stateDir),
    });
  } finally {
    await close?.();
    if (isUp) await cli("down", "--stop-jobs").catch((error: unknown) => say(String(error)));
    await rm(dir, { recursive: true, force: true });
  }
}

/** The workers' logs record each start. */
async function startsIn(stateDir: string): Promise<readonly number[]> {
  const logs = await Promise.all(
    CONTROL_ROLES.map((role) =>
      readFile(join(stateDir, "logs", `${role}.log`), "utf8").catch(() => ""),
    ),
  );
  return [...logs.join("\n").matchAll(/"sinceStartMs":(\d+)/g)].map(([, ms]) => Number(ms));
}

const fleetYaml = (hosts: number): string => `
name: ${FLEET}
clusters:
  - name: sim
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "h[1-${String(hosts)}]", gpus: 8, type: H100 }
`;

async function runCli(words: readonly string[], env: Environment): Promise<void> {
  const main = commandLine();
  const child = spawn(process.execPath, [main, ...words], {
    env: { ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0)
    throw new Error(`orbweaver ${words.join(" ")} ended with ${String(code)}:\n${said}`);
}

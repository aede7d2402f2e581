/** @file An agent on a folder of its own, with real shims and processes, and a stand-in for Temporal. */

import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import ts from "typescript";
import { hostSecrets } from "../../agent/system/host-secrets.ts";
import { SUPERVISOR_VARIABLE } from "../../agent/system/native-supervisor.ts";
import { openStarter } from "../../agent/system/starter.ts";
import { compileProgram } from "../../tools/build.mjs";
import { createOrderActivities } from "../../agent/orders/order-activities.ts";
import type { OrderCheck } from "../../agent/ports/order-check.ts";
import { createRunActivities } from "../../agent/runs/run-activities.ts";
import { watchUnattended } from "../../agent/runs/unattended-run.ts";
import { openHost, type AgentHost } from "../../agent/runs/agent-host.ts";
import type {
  ActivityTask,
  CancelReason,
  GangView,
  GangWatcher,
} from "../../agent/ports/temporal.ts";
import type { Containment } from "../../agent/containment/container.ts";
import type { HostGpu } from "../../agent/containment/host-gpus.ts";
import type { HostResources } from "../../agent/containment/limits.ts";
import type { CheckLease } from "../../agent/health/lease-checks.ts";
import type { Images } from "../../agent/ports/images.ts";
import type { Starter } from "../../agent/ports/starter.ts";
import type { System } from "../../agent/ports/system.ts";
import type { Launch } from "../../agent/runs/local-run.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { launchFiles, type LaunchFiles, type LogLimits } from "../../agent/folder/launch-files.ts";
import type {
  LogQuery,
  OrderActivities,
  RunActivities,
  RunHeartbeat,
  RunOrder,
} from "../../protocol/agent-contract.ts";
import { hostId, jobId, leaseId, runId, tenantId, token } from "../../domain/values/ids.ts";
import type { RunSpec } from "../../domain/job/job.ts";
import { ms } from "../../domain/values/units.ts";
import { kill, pidsWith } from "../support/processes.ts";
import { removeFolder } from "../support/remove-folder.ts";

export { kill } from "../support/processes.ts";

/** For tests in which nobody is an attacker. */
export const OBEDIENT: OrderCheck = {
  lease: () => Promise.resolve(undefined),
  logs: () => Promise.resolve(undefined),
};

export const HOST = hostId("eu-1", "host-1");
export const OTHER_HOST = hostId("eu-1", "host-2");
export const JOB = jobId("job-7");

const folders: string[] = [];

/** A folder that `removeFolders` takes away. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "orbweaver-agent-"));
  folders.push(path);
  return path;
}

/** Ends what a failed test may have left running, then removes the folders. */
export function removeFolders(): void {
  for (const path of folders.splice(0)) {
    for (const pid of pidsWith(path)) kill(pid);
    removeFolder(path);
  }
}

export interface TestAgent {
  readonly stateDir: string;
  readonly host: AgentHost;
  readonly runs: RunActivities;
  readonly orders: OrderActivities;
  readonly task: TestTask;
  /** Leases whose end was told to the fleet because no attempt watched. */
  readonly vacated: readonly string[];
  filesOf(order: RunOrder): LaunchFiles;
}

export interface TestTask {
  readonly beats: (RunHeartbeat | undefined)[];
  cancel(reason: CancelReason): void;
}

export interface AgentSetup {
  readonly settled?: AgentHost["settled"];
  /** A used folder: the agent was restarted. */
  readonly stateDir?: string;
  readonly gang?: GangWatcher;
  readonly log?: LogLimits;
  readonly env?: Readonly<Record<string, string>>;
  readonly minFreeBytes?: number;
  readonly maxWaitingReads?: number;
  readonly shimPath?: string;
  /** By default the one that the project of these tests names. */
  readonly nativePath?: string | undefined;
  readonly containment?: Containment;
  readonly resources?: HostResources;
  readonly images?: Images;
  readonly gpus?: readonly HostGpu[];
  readonly checkLease?: CheckLease;
  readonly findFault?: AgentHost["findFault"];
  readonly owner?: string;
}

export function testAgent(setup: AgentSetup = {}): TestAgent {
  const stateDir = setup.stateDir ?? folder();
  const host = openHost(
    {
      stateDir,
      fleet: "default",
      id: HOST,
      gpuCount: 8,
      ...(setup.containment !== undefined && { containment: setup.containment }),
      ...(setup.resources !== undefined && { resources: setup.resources }),
      ...(setup.owner !== undefined && { owner: setup.owner }),
      ...(setup.gpus !== undefined && { gpus: setup.gpus }),
      ...(setup.checkLease !== undefined && { checkLease: setup.checkLease }),
      ...(setup.findFault !== undefined && { findFault: setup.findFault }),
      ...(setup.settled !== undefined && { settled: setup.settled }),
    },
    nodeSystem,
  );
  const cancelled = new AbortController();
  let why: CancelReason = "asked";
  const beats: (RunHeartbeat | undefined)[] = [];
  const task: ActivityTask = {
    heartbeat: (beat) => beats.push(beat),
    cancelled: cancelled.signal,
    givenAtMs: 0,
    reason: () => why,
  };
  const hosts = new Map([[HOST, host]]);
  const vacated: string[] = [];
  const closing = new AbortController().signal;
  const runs = createRunActivities({
    refusalOf: () => Promise.resolve(undefined),
    readSecrets: hostSecrets({ env: { ...process.env, ...setup.env } }),
    hosts,
    gang: setup.gang ?? gangOf(() => ({ isClosed: false, beats: [] })),
    contact: { isInDoubt: () => false, isCutOff: () => false, noteAnswer: () => undefined },
    task: () => task,
    onUnattended: (of, run) => {
      const onVacated = (): number => vacated.push(run.leaseId);
      watchUnattended(of, run, { closing, isOver: () => Promise.resolve(false), onVacated }).catch(
        () => undefined,
      );
    },
    ...(setup.images !== undefined && { images: setup.images }),
    shimPath: setup.shimPath ?? builtShim(),
    nativePath: "nativePath" in setup ? setup.nativePath : builtNative(),
    starter: "nativePath" in setup ? undefined : builtStarter(),
    env: { PATH: process.env["PATH"], HOME: "/nowhere", SECRET_OF_THE_AGENT: "1", ...setup.env },
    log: setup.log ?? { partBytes: 1_000_000, parts: 4 },
    minFreeBytes: setup.minFreeBytes ?? 0,
  });
  const quiet: ActivityTask = {
    heartbeat: () => undefined,
    cancelled: new AbortController().signal,
    givenAtMs: 0,
    reason: () => "asked",
  };
  const orders = createOrderActivities({
    hosts,
    task: () => quiet,
    check: OBEDIENT,
    maxWaitingReads: setup.maxWaitingReads ?? 8,
  });
  return {
    stateDir,
    host,
    runs,
    orders,
    vacated,
    task: {
      beats,
      cancel: (reason) => {
        why = reason;
        cancelled.abort();
      },
    },
    filesOf: (order) => launchFiles(host.layout.leaseDir(order.leaseId)),
  };
}

/** The launch of a folder on this machine. */
export const launchIn = (files: LaunchFiles): Launch => ({ files, system: nodeSystem });

/** This machine under a clock of the test's own. */
export const systemAt = (sinceBootMs: () => number): System => ({
  ...nodeSystem,
  clock: { ...nodeSystem.clock, sinceBootMs },
});

export const gangOf = (view: () => GangView): GangWatcher => ({
  look: () => Promise.resolve(view()),
});

/** A whole order for one GPU of one host that runs a shell line. */
export function orderOf(
  line: string,
  over: Partial<Omit<RunOrder, "run">> & { run?: Partial<RunSpec> } = {},
): RunOrder {
  const count = over.token ?? token(5);
  return {
    jobId: JOB,
    jobName: "toy",
    workflowId: JOB,
    workflowRunId: "run-1",
    leaseId: leaseId(count),
    token: count,
    attempt: 1,
    host: HOST,
    gang: [{ host: HOST, mask: 1, address: "10.0.0.1" }],
    holder: {
      runId: runId("run-1"),
      seq: 1,
      class: "training",
      tenant: tenantId("default"),
      grantedAtMs: 1_000,
      requestedAtMs: 500,
    },
    prepareTimeoutMs: 60_000,
    ...over,
    run: {
      command: ["sh", "-c", line],
      env: {},
      launch: "per-gpu",
      // Only what does not listen takes so long, and tests of that say how long.
      graceMs: ms(60_000),
      ...over.run,
    },
  };
}

export const stopOf = (order: RunOrder, isCheckpointFirst = false) => ({
  jobId: order.jobId,
  host: order.host,
  leaseId: order.leaseId,
  token: order.token,
  isCheckpointFirst,
  reason: "cancelled",
});

export const queryOf = (order: RunOrder, over: Partial<LogQuery> = {}): LogQuery => ({
  jobId: order.jobId,
  host: order.host,
  leaseId: order.leaseId,
  rank: 0,
  offset: 0,
  maxBytes: 100_000,
  waitMs: 0,
  ...over,
});

/** All that a rank has written. */
export const outputOf = async ({ orders }: TestAgent, order: RunOrder, rank = 0): Promise<string> =>
  (await orders.readLogs(queryOf(order, { rank }))).text;

/** Looks every 10 ms until `look` gives something. */
export async function eventually<T>(look: () => T | undefined | false, forMs = 60_000): Promise<T> {
  const untilMs = performance.now() + forMs;
  for (;;) {
    const found = look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > untilMs) throw new Error(`not within ${forMs} ms: ${look.toString()}`);
    await new Promise((wake) => setTimeout(wake, 10));
  }
}

/** The number that a process writes to `path`, once it has. */
export const pidIn = (path: string): Promise<number> =>
  eventually(
    () => (existsSync(path) && Number.parseInt(readFileSync(path, "utf8"), 10)) || undefined,
  );

/** Whether a process runs, zombies not counted: read here on its own, not with the code under test. */
export function runs(pid: number): boolean {
  const state = stateOf(pid);
  return state !== "" && !state.startsWith("Z");
}

/** As `ps` has it: Z for a zombie, T for a stopped process, nothing when there is none. */
export const stateOf = (pid: number): string =>
  execFileSync("sh", ["-c", `ps -o stat= -p ${pid} || true`], { encoding: "utf8" }).trim();

const built = new Map<string, string>();

/** In a source; a linker that finds no library says `collect2: error: …`. */
const WRONG_SOURCE = /\.[ch]:\d+:\d+: error: /;

/** A program in C, compiled from the sources as they are now; "" without a compiler. */
function compiled(name: "supervisor" | "nvml"): string {
  const known = built.get(name);
  if (known !== undefined) return known;
  const out = join(mkdtempSync(join(tmpdir(), "orbweaver-native-")), name);
  process.once("exit", () => rmSync(dirname(out), { recursive: true, force: true }));
  const { status, stderr } = compileProgram(name, out);
  // Not the same as a machine that lacks the compiler or its static libraries: the product would launch without it, and its tests would be left out.
  if (WRONG_SOURCE.test(stderr)) throw new Error(stderr);
  built.set(name, status === 0 ? out : "");
  return compiled(name);
}

/** The native supervisor, compiled from the sources as they are now. Undefined in the project of the fallback, and without a compiler. */
export function builtNative(): string | undefined {
  if (process.env[SUPERVISOR_VARIABLE] === "node") return undefined;
  const path = compiled("supervisor");
  return path === "" ? undefined : path;
}

let starter: Starter | undefined;

/** One for all agents of a test's process; ends with it. */
function builtStarter(): Starter | undefined {
  const native = builtNative();
  if (native !== undefined) starter ??= openStarter(native, new AbortController().signal);
  return starter;
}

/** The program that asks NVML. Undefined without a compiler. */
export function builtNvml(): string | undefined {
  const path = compiled("nvml");
  return path === "" ? undefined : path;
}

/** The shim as JavaScript. */
export const builtShim = (): string => builtEntry("workers/shim.ts");

/** A program as JavaScript, with everything of ours that it imports, made from the sources as they are now. */
export function builtEntry(entry: string): string {
  const known = built.get(entry);
  if (known !== undefined) return known;
  const root = resolve(import.meta.dirname, "../..");
  const out = mkdtempSync(join(tmpdir(), "orbweaver-built-"));
  process.once("exit", () => rmSync(out, { recursive: true, force: true }));
  writeFileSync(join(out, "package.json"), '{"type":"module"}');
  symlinkSync(join(root, "node_modules"), join(out, "node_modules"));
  const seen = new Set<string>();
  const compile = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const { outputText } = ts.transpileModule(readFileSync(join(root, file), "utf8"), {
      compilerOptions: {
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.ES2022,
        verbatimModuleSyntax: true,
        rewriteRelativeImportExtensions: true,
      },
    });
    const target = join(out, file.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, outputText);
    for (const [, path = ""] of outputText.matchAll(/from "(\.[^"]+)\.js"/g))
      compile(`${join(dirname(file), path)}.ts`);
  };
  compile(entry);
  const path = join(out, entry.replace(/\.ts$/, ".js"));
  built.set(entry, path);
  return path;
}

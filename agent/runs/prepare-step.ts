/**
 * @file One command of a host's preparation of a launch, run as the user who will start it: fetching an image, or the job's folder, or looking for one.
 *
 * A launch that is called off meanwhile ends the command, and so does its time limit.
 */

import { join } from "node:path";
import { asUser, becomeUser } from "../../access/run-as.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { LAUNCH_MARK, OWNER_MARK } from "../folder/launch-files.ts";
import { failure } from "../system/failures.ts";
import { maskOn, type AgentHost } from "./agent-host.ts";
import type { ImagePorts } from "./image-plan.ts";
import type { LocalRun } from "./local-run.ts";
import { gpuIds } from "./rank-environment.ts";

export interface PrepareStep {
  readonly host: AgentHost;
  readonly run: LocalRun;
  readonly order: RunOrder;
  readonly ports: Pick<ImagePorts, "runAsOf"> & {
    readonly env: Readonly<Record<string, string | undefined>>;
  };
  readonly signal: AbortSignal;
}

export interface StepCommand {
  readonly command: readonly string[];
  /** Beside what every such command gets. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Name of a file of the launch. */
  readonly output: string;
  readonly timeoutMs: number;
  /** Folders that become the user's. */
  readonly folders?: readonly string[];
  /** Sees the host's `/tmp` in place of the lease's. */
  readonly isInPlace?: boolean;
}

/** Folders of other machines may be mounted by the look. */
const LOOK_MS = 30_000;
const ABSENT = "absent";
const IS_FOLDER = `[ -d "$1" ] && [ -x "$1" ] || echo ${ABSENT}`;

/** Where a host starts jobs as other users: whether this one's has its working folder. Root does not look, because the answer shows. Throws HOST_REFUSED. */
export async function lookForWorkdir(step: PrepareStep): Promise<void> {
  const { host, order, ports } = step;
  const { workdir } = order.run;
  if (workdir === undefined || ports.runAsOf?.(order) === undefined) return;
  const output = "workdir.log";
  const why = await runStep(step, {
    command: ["/bin/sh", "-c", IS_FOLDER, "workdir", workdir],
    ...{ env: {}, output, timeoutMs: LOOK_MS, isInPlace: true },
  });
  if (step.signal.aborted) return;
  const said = host.system.files.readText(join(step.run.files.dir, output)) ?? "";
  if (why === undefined && !said.endsWith(`${ABSENT}\n`)) return;
  throw failure(
    "HOST_REFUSED",
    `${host.id} refuses ${order.leaseId} of ${order.jobName}: ${why === undefined ? noWorkdir(workdir) : `it could not look for the working folder ${workdir}: ${why}`}`,
  );
}

export const noWorkdir = (workdir: string): string =>
  `the working folder ${workdir} does not exist there. Create it, or name another in run.workdir.`;

const PASSED_ON = ["PATH", "HOME", "LANG"];
const MOST_OUTPUT_BYTES = 2_000;

/** Undefined when the command has ended well; else why it has not. */
export async function runStep(
  { host, run, order, ports, signal }: PrepareStep,
  { command, env, output: name, timeoutMs, folders = [], isInPlace = false }: StepCommand,
): Promise<string | undefined> {
  const { files, processes, clock } = host.system;
  const runAs = ports.runAsOf?.(order);
  const tmp = join(host.layout.leaseDir(order.leaseId), "tmp");
  const become = runAs && (isInPlace ? becomeUser(runAs) : asUser(runAs, { tmp, folders }));
  const passed = Object.fromEntries(PASSED_ON.map((each) => [each, ports.env[each]]));
  const output = join(run.files.dir, name);
  const late = clock.deadline(timeoutMs);
  const over = AbortSignal.any([signal, late]);
  files.remove(output);
  let pid: number | undefined;
  const kill = (): void => {
    if (pid !== undefined) processes.signalGroup(pid, "SIGKILL");
  };
  const why = await new Promise<string | undefined>((resolve) => {
    pid = processes.start({
      command: [...(become ?? []), ...command],
      cwd: run.files.dir,
      env: {
        ...passed,
        ...env,
        ...(runAs !== undefined && { HOME: runAs.user.home }),
        [LAUNCH_MARK]: run.files.dir,
        [OWNER_MARK]: host.owner,
      },
      output,
      joins: [],
      onNotStarted: (error) => resolve(error.message),
      onEnd: (end) => {
        const how = "signal" in end ? `was ended by ${end.signal}` : `ended with ${end.exitCode}`;
        const isDone = "exitCode" in end && end.exitCode === 0;
        resolve(isDone ? undefined : `${command.slice(0, 2).join(" ")} ${how}`);
      },
    });
    if (over.aborted) kill();
    else over.addEventListener("abort", kill, { once: true });
  });
  // Its number may be another's from now on.
  over.removeEventListener("abort", kill);
  if (why === undefined) return undefined;
  if (late.aborted) return `it was not there within ${timeoutMs / 1000} s`;
  const said = (files.readText(output) ?? "").slice(-MOST_OUTPUT_BYTES).trim().split("\n").at(-1);
  return said === undefined || said === "" ? why : `${why}: ${said}`;
}

/** The last of what a host does to be prepared. Throws HOST_REFUSED where the operator's program fails, or a process is left on the GPUs. */
export async function runPrologue(
  { id, checkLease }: AgentHost,
  { order, signal }: { readonly order: RunOrder; readonly signal: AbortSignal },
): Promise<void> {
  const gpus = gpuIds(maskOn(order));
  const result = await checkLease?.("prologue", { order, gpus, signal });
  if (result?.kind !== "failed") return;
  throw failure(
    "HOST_REFUSED",
    `${id} refuses ${order.leaseId} of ${order.jobName}: ${result.why}`,
  );
}

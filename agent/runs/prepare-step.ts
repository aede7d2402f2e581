/**
 * @file One command of a host's preparation of a launch, run as the user who will start it: fetching an image, or the job's folder.
 *
 * A launch that is called off meanwhile ends the command, and so does its time limit.
 */

import { join } from "node:path";
import { asUser } from "../../access/run-as.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { LAUNCH_MARK, OWNER_MARK } from "../folder/launch-files.ts";
import { failure } from "../system/failures.ts";
import type { AgentHost } from "./agent-host.ts";
import type { ImagePorts } from "./image-plan.ts";
import type { LocalRun } from "./local-run.ts";

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
}

const LOOK_MS = 10_000;
const IS_FOLDER = '[ -d "$1" ] && [ -x "$1" ]';

/** Where a host starts jobs as other users: whether this one's has its working folder. Root does not look, because the answer shows. Throws HOST_REFUSED. */
export async function lookForWorkdir(step: PrepareStep): Promise<void> {
  const { host, order, ports } = step;
  const { workdir } = order.run;
  if (workdir === undefined || ports.runAsOf?.(order) === undefined) return;
  const why = await runStep(step, {
    command: ["/bin/sh", "-c", IS_FOLDER, "workdir", workdir],
    ...{ env: {}, output: "workdir.log", timeoutMs: LOOK_MS },
  });
  if (why === undefined || step.signal.aborted) return;
  throw failure(
    "HOST_REFUSED",
    `${host.id} refuses ${order.leaseId} of ${order.jobName}: ${noWorkdir(workdir)}`,
  );
}

export const noWorkdir = (workdir: string): string =>
  `the working folder ${workdir} does not exist there. Create it, or name another in run.workdir.`;

const PASSED_ON = ["PATH", "HOME", "LANG"];
const MOST_OUTPUT_BYTES = 2_000;

/** Undefined when the command has ended well; else why it has not. */
export async function runStep(
  { host, run, order, ports, signal }: PrepareStep,
  { command, env, output: name, timeoutMs, folders = [] }: StepCommand,
): Promise<string | undefined> {
  const { files, processes, clock } = host.system;
  const runAs = ports.runAsOf?.(order);
  const become =
    runAs && asUser(runAs, { tmp: join(host.layout.leaseDir(order.leaseId), "tmp"), folders });
  const passed = Object.fromEntries(PASSED_ON.map((each) => [each, ports.env[each]]));
  const output = join(run.files.dir, name);
  const late = clock.deadline(timeoutMs);
  const over = AbortSignal.any([signal, late]);
  files.remove(output);
  const why = await new Promise<string | undefined>((resolve) => {
    const pid = processes.start({
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
    const kill = (): void => {
      if (pid !== undefined) processes.signalGroup(pid, "SIGKILL");
    };
    if (over.aborted) kill();
    else over.addEventListener("abort", kill, { once: true });
  });
  if (why === undefined) return undefined;
  if (late.aborted) return `it was not there within ${timeoutMs / 1000} s`;
  const said = (files.readText(output) ?? "").slice(-MOST_OUTPUT_BYTES).trim().split("\n").at(-1);
  return said === undefined || said === "" ? why : `${why}: ${said}`;
}

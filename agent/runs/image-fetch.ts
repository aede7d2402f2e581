/**
 * @file Has the image of a launch at hand before the gang starts, as the last part of `prepare`: a host that cannot get it says so by name, and nothing of the gang
 * was started.
 *
 * It is fetched as the user who will start it, with a time of its own. A launch that is called off meanwhile ends the fetching.
 */

import { join } from "node:path";
import { asUser } from "../../access/run-as.ts";
import type { ImageRule, ImageRuntime } from "../../domain/job/job-image.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { LAUNCH_MARK, OWNER_MARK } from "../folder/launch-files.ts";
import { fetchWords } from "../images/fetch-words.ts";
import { runtimeEnv } from "../images/runtime-env.ts";
import { failure } from "../system/failures.ts";
import type { AgentHost } from "./agent-host.ts";
import { pickedTool, type ImagePorts } from "./image-plan.ts";
import type { LocalRun } from "./local-run.ts";

export interface FetchPorts extends ImagePorts {
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface FetchOrder {
  readonly ports: FetchPorts;
  readonly signal: AbortSignal;
  /** Called when the image has to be fetched. */
  readonly sayPulling: () => void;
}

const PASSED_ON = ["PATH", "HOME", "LANG"];
const MOST_OUTPUT_BYTES = 2_000;

/** Returns when the image is there, or when the signal has come. Throws IMAGE_UNAVAILABLE. */
export async function fetchImage(
  host: AgentHost,
  run: LocalRun,
  { order, ...rest }: FetchOrder & { readonly order: RunOrder },
): Promise<void> {
  const { container: rule } = order.run;
  const picked = pickedTool(order, rest.ports);
  if (rule === undefined || picked === undefined || !("tool" in picked)) return;
  const { image } = rule;
  const words = fetchWords(image, picked.tool);
  if (words === undefined) {
    if (host.system.files.stat(image) === undefined)
      throw unavailable(order, rule, "there is no such file or folder there");
    return;
  }
  const step = { host, run, order, runtime: picked.tool.runtime, ...rest };
  if (words.look !== undefined && (await ends(step, words.look, rule)) === undefined) return;
  if (rest.signal.aborted) return;
  rest.sayPulling();
  const trouble = await ends(step, words.fetch, rule);
  if (trouble !== undefined && !rest.signal.aborted) throw unavailable(order, rule, trouble);
}

const unavailable = ({ host, jobName, leaseId }: RunOrder, rule: ImageRule, why: string): Error =>
  failure(
    "IMAGE_UNAVAILABLE",
    `${host} cannot get the image ${rule.image} for ${leaseId} of ${jobName}: ${why}. Check the image and its registry from there, or name other hosts in constraints.`,
  );

interface FetchStep extends FetchOrder {
  readonly host: AgentHost;
  readonly run: LocalRun;
  readonly order: RunOrder;
  readonly runtime: ImageRuntime;
}

/** Undefined when the command has ended well; else why it has not. */
async function ends(
  { host, run, order, runtime, ports, signal }: FetchStep,
  command: readonly string[],
  { pullTimeoutMs }: ImageRule,
): Promise<string | undefined> {
  const { files, processes, clock } = host.system;
  const runAs = ports.runAsOf?.(order);
  const become =
    runAs && asUser(runAs, { tmp: join(host.layout.leaseDir(order.leaseId), "tmp"), folders: [] });
  const env = Object.fromEntries(PASSED_ON.map((name) => [name, ports.env[name]]));
  const output = join(run.files.dir, "image.log");
  const late = clock.deadline(pullTimeoutMs);
  const over = AbortSignal.any([signal, late]);
  files.remove(output);
  const why = await new Promise<string | undefined>((resolve) => {
    const pid = processes.start({
      command: [...(become ?? []), ...command],
      cwd: run.files.dir,
      env: {
        ...env,
        ...runtimeEnv(ports.env, { runtime, to: "fetch", isOther: runAs !== undefined }),
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
  if (late.aborted) return `it was not there within ${pullTimeoutMs / 1000} s`;
  const said = (files.readText(output) ?? "").slice(-MOST_OUTPUT_BYTES).trim().split("\n").at(-1);
  return said === undefined || said === "" ? why : `${why}: ${said}`;
}

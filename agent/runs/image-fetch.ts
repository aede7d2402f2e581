/**
 * @file Has the image of a launch at hand before the gang starts, as the last part of `prepare`: a host that cannot get it says so by name, and nothing of the gang
 * was started.
 *
 * It is fetched as the user who will start it, with a time of its own. A launch that is called off meanwhile ends the fetching.
 */

import type { ImageRule, ImageRuntime } from "../../domain/job/job-image.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { fetchWords } from "../images/fetch-words.ts";
import { runtimeEnv } from "../images/runtime-env.ts";
import { failure } from "../system/failures.ts";
import type { AgentHost } from "./agent-host.ts";
import { pickedTool, type ImagePorts } from "./image-plan.ts";
import type { LocalRun } from "./local-run.ts";
import { runStep } from "./prepare-step.ts";

export interface FetchPorts extends ImagePorts {
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface FetchOrder {
  readonly ports: FetchPorts;
  readonly signal: AbortSignal;
  /** Called when the image has to be fetched. */
  readonly sayPulling: () => void;
}

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
  { runtime, ports, ...step }: FetchStep,
  command: readonly string[],
  { pullTimeoutMs }: ImageRule,
): Promise<string | undefined> {
  const isOther = ports.runAsOf?.(step.order) !== undefined;
  return await runStep(
    { ports, ...step },
    {
      command,
      env: runtimeEnv(ports.env, { runtime, to: "fetch", isOther }),
      output: "image.log",
      timeoutMs: pullTimeoutMs,
    },
  );
}

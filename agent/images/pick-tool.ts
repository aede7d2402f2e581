/** @file Which runtime of a host starts an image: the one that the job names, or by `auto` the first that can, in the order of `job-image.ts`. */

import {
  imageForm,
  runtimesFor,
  type ImageRule,
  type ImageRuntime,
} from "../../domain/job/job-image.ts";
import type { ImageTool } from "./image-launch.ts";

export interface ImageUser {
  readonly uid: number;
  /** The agent is root's, and starts the processes as another user, without a way to any privilege. */
  readonly isOther: boolean;
}

export type PickedTool =
  | { readonly tool: ImageTool }
  /** Why none of the host's runtimes starts it, and what to do. */
  | { readonly refusal: string };

export function pickTool(
  rule: ImageRule,
  tools: readonly ImageTool[],
  user: ImageUser,
): PickedTool {
  const able = runtimesFor(imageForm(rule.image)).filter(
    (runtime) => rule.runtime === "auto" || rule.runtime === runtime,
  );
  const had = able.flatMap((runtime) => tools.find((tool) => tool.runtime === runtime) ?? []);
  const troubles = had.map(({ runtime }) => troubleOf(runtime, rule, user));
  const tool = had[troubles.indexOf(undefined)];
  if (tool !== undefined) return { tool };
  const has = tools.map(({ runtime }) => runtime).join(", ") || "none";
  const why = troubles.find((trouble) => trouble !== undefined);
  return {
    refusal:
      why ??
      `its image ${rule.image} needs ${able.join(", ")} there, and it has ${has === "none" ? "no runtime for images" : has}. Install one and restart the agent, or name other hosts in constraints.`,
  };
}

function troubleOf(
  runtime: ImageRuntime,
  { user }: ImageRule,
  { uid, isOther }: ImageUser,
): string | undefined {
  const isDaemon = runtime === "docker";
  if (isOther && (isDaemon || runtime === "podman"))
    return `it starts jobs as users without privileges, and ${runtime} ${isDaemon ? "would give them those of root" : "needs privileges for ids of its own"}. Name apptainer, enroot or bubblewrap in run.container.runtime.`;
  if (isDaemon && user === "root" && uid !== 0)
    return "under docker, root of a container is root of the host. Leave run.container.user out, or name another runtime.";
  return undefined;
}

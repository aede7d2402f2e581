/**
 * @file Podman and Docker, whose command lines agree but for a few flags.
 *
 * The entry point of the image is not run, so a job's command is the same under every runtime. An init of the runtime's passes signals on and, as the first
 * process of its namespace, takes all others with it; it carries the launch's mark. Values stay in the environment: a word of theirs
 * would be shown to every user of the machine.
 */

import type { ImageLaunch } from "./image-launch.ts";
import { mountsOf } from "./mounts.ts";

export function podmanWords(launch: ImageLaunch): readonly string[] {
  const { rule, tool, variables, dropped, workdir, ids } = launch;
  const user = rule.user === "root" ? "0:0" : `${String(ids.uid)}:${String(ids.gid)}`;
  const isPodman = tool.runtime === "podman";
  return [
    ...[tool.path, "run", "--rm", "--interactive", "--init", "--pull", "never", "--entrypoint", ""],
    ...["--network", "host", "--ipc", "host", "--cap-drop", "ALL"],
    ...["--security-opt", "no-new-privileges", "--user", user],
    // Without groups of its own the container stays in the launch's.
    ...(isPodman ? ["--cgroups", "disabled"] : ["--log-driver", "none"]),
    // The user's ids are the same inside; another one of root is mapped to the user by Podman itself.
    ...(isPodman && rule.user === "host" && ids.uid !== 0 ? ["--userns", "keep-id"] : []),
    ...gpuWords(launch),
    ...mountsOf(launch).flatMap(({ source, target, isReadOnly }) => [
      "--mount",
      `type=bind,source=${source},target=${target}${isReadOnly ? ",readonly" : ""}`,
    ]),
    ...variables.flatMap((name) => ["--env", name]),
    ...(dropped.includes("HOME") ? ["--env", `HOME=${workdir}`] : []),
    ...["--workdir", workdir, rule.image],
  ];
}

/** By CDI, or by Docker's own flag, whose value is a line of comma-separated fields. */
function gpuWords({ tool, gpus }: ImageLaunch): readonly string[] {
  if (gpus.length === 0) return [];
  return tool.runtime === "podman"
    ? gpus.flatMap(({ uuid }) => ["--device", `nvidia.com/gpu=${uuid}`])
    : ["--gpus", `"device=${gpus.map(({ uuid }) => uuid).join(",")}"`];
}

/**
 * @file Podman and Docker, whose command lines agree but for a few flags.
 *
 * The entry point of the image is not run, so a job's command is the same under every runtime. An init of the runtime's passes signals on and, as the first
 * process of its namespace, takes all others with it; it carries the launch's mark. Values stay in the environment: a word of theirs
 * would be shown to every user of the machine. Podman's init ends with 1 for a program that is missing, so a step of the native supervisor stands between
 * the two where there is one, and tells it as a shell does.
 */

import { STEP, type ImageLaunch } from "./image-launch.ts";
import { mountsOf } from "./mounts.ts";

export function podmanWords(launch: ImageLaunch): readonly string[] {
  const { rule, tool, variables, dropped, workdir, ids, native } = launch;
  const user = rule.user === "root" ? "0:0" : `${String(ids.uid)}:${String(ids.gid)}`;
  const isPodman = tool.runtime === "podman";
  const hasStep = isPodman && native !== "";
  return [
    ...[tool.path, "run", "--rm", "--interactive", "--init", "--pull", "never", "--entrypoint", ""],
    ...["--network", "host", "--ipc", "host", "--cap-drop", "ALL"],
    ...["--security-opt", "no-new-privileges", "--user", user],
    // Without groups of its own the container stays in the launch's.
    ...(isPodman ? ["--cgroups", "disabled"] : ["--log-driver", "none"]),
    ...limitWords(launch),
    // An image that is there needs no way to a registry, nor do the processes in it.
    ...(isPodman ? ["--http-proxy=false"] : []),
    // The user's ids are the same inside; another one of root is mapped to the user by Podman itself.
    ...(isPodman && rule.user === "host" && ids.uid !== 0 ? ["--userns", "keep-id"] : []),
    ...gpuWords(launch),
    ...mountsOf(launch).flatMap(({ source, target, isReadOnly }) => [
      "--mount",
      `type=bind,source=${source},target=${target}${isReadOnly ? ",readonly" : ""}`,
    ]),
    ...variables.flatMap((name) => ["--env", name]),
    ...(dropped.includes("HOME") ? ["--env", `HOME=${workdir}`] : []),
    ...(hasStep ? ["--mount", `type=bind,source=${native},target=${STEP},readonly`] : []),
    ...["--workdir", workdir, rule.image],
    ...(hasStep ? [STEP, "--take-signals", "--"] : []),
  ];
}

/** Podman of root would raise them as far as the kernel lets it, or fail where that does not. Docker's daemon counts the processes of a user over the host. */
export const limitWords = ({
  tool,
  limits,
}: Pick<ImageLaunch, "tool" | "limits">): readonly string[] =>
  [
    `nofile=${String(limits.openFiles)}:${String(limits.openFiles)}`,
    ...(tool.runtime === "podman"
      ? [`nproc=${String(limits.processes)}:${String(limits.processes)}`]
      : []),
  ].flatMap((limit) => ["--ulimit", limit]);

/** By CDI, or by Docker's own flag, whose value is a line of comma-separated fields. */
function gpuWords({ tool, gpus }: ImageLaunch): readonly string[] {
  if (gpus.length === 0) return [];
  return tool.runtime === "podman"
    ? gpus.flatMap(({ uuid }) => ["--device", `nvidia.com/gpu=${uuid}`])
    : ["--gpus", `"device=${gpus.map(({ uuid }) => uuid).join(",")}"`];
}

/** @file Enroot, with a squashfs file of `enroot import`. It has no flag for the folder, so a line of the image's `sh` goes there. */

import type { ImageLaunch } from "./image-launch.ts";
import { mountsOf } from "./mounts.ts";

const IN_FOLDER = 'cd "$1" && shift && exec "$@"';

export function enrootWords(launch: ImageLaunch): readonly string[] {
  const { rule, tool, gpus, variables, dropped, workdir } = launch;
  return [
    ...[tool.path, "start"],
    ...(rule.user === "root" ? ["--root"] : []),
    ...mountsOf(launch).flatMap(({ source, target, isReadOnly }) => [
      "--mount",
      // The fields of fstab; what is missing in the image is made.
      `${source}:${target}:none:x-create=auto,rbind,${isReadOnly ? "ro" : "rw"}`,
    ]),
    ...variables.flatMap((name) => ["--env", name]),
    ...(gpus.length > 0
      ? ["--env", `NVIDIA_VISIBLE_DEVICES=${gpus.map(({ uuid }) => uuid).join(",")}`]
      : ["--env", "NVIDIA_VISIBLE_DEVICES=void"]),
    ...(dropped.includes("HOME") ? ["--env", `HOME=${workdir}`] : []),
    ...[rule.image, "sh", "-c", IN_FOLDER, "sh", workdir],
  ];
}

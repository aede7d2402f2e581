/** @file The mounts of a container, each after those that it lies in. Of two on one target the run's own is taken, so that a job keeps its checkpoints. */

import type { ImageMount } from "../../domain/job/job-image.ts";
import type { ImageLaunch } from "./image-launch.ts";

export function mountsOf({
  rule,
  folders,
}: Pick<ImageLaunch, "rule" | "folders">): readonly ImageMount[] {
  const byTarget = new Map([...rule.mounts, ...folders].map((each) => [plain(each.target), each]));
  return [...byTarget]
    .map(([target, mount]) => ({ ...mount, target }))
    .sort((one, other) => (one.target < other.target ? -1 : 1));
}

/** Without slashes that say nothing, so that a folder sorts before what lies in it. */
const plain = (path: string): string => `/${path.split("/").filter(Boolean).join("/")}`;

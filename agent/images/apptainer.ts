/** @file Apptainer: the environment is passed on by itself, signals and exit codes too. `--nv` shows every GPU; the lease's are chosen by their ids. */

import { imageForm } from "../../domain/job/job-image.ts";
import type { ImageLaunch } from "./image-launch.ts";
import { mountsOf } from "./mounts.ts";

export function apptainerWords(launch: ImageLaunch): readonly string[] {
  const { rule, tool, gpus, workdir, dropped } = launch;
  return [
    ...["/usr/bin/env", ...dropped.flatMap((name) => ["-u", name])],
    ...[tool.path, "exec", "--contain", "--no-home", "--no-privs"],
    ...(rule.user === "root" ? ["--fakeroot"] : []),
    ...(gpus.length > 0 ? ["--nv"] : []),
    // `--contain` gives a small /dev/shm of its own, and ranks share theirs.
    ...["--bind", "/dev/shm:/dev/shm"],
    ...mountsOf(launch).flatMap(({ source, target, isReadOnly }) => [
      "--bind",
      `${source}:${target}${isReadOnly ? ":ro" : ""}`,
    ]),
    ...["--pwd", workdir, apptainerImage(rule.image)],
  ];
}

export const apptainerImage = (image: string): string =>
  imageForm(image) === "reference" ? `docker://${image}` : image;

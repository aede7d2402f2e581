/**
 * @file How a runtime of the host starts a process in an image: the words before the command. Pure: the same launch, the same words.
 *
 * All of them leave the host's network and shared memory to the processes, because the ranks of a gang talk to each other through both, and give them
 * no capability. Nothing is fetched here (`fetch-words.ts`). `docs/containers.md` says what each runtime does not do.
 */

import type { ImageRuntime } from "../../domain/job/job-image.ts";
import { apptainerWords } from "./apptainer.ts";
import { bubblewrapWords } from "./bubblewrap.ts";
import { enrootWords } from "./enroot.ts";
import type { ImageLaunch } from "./image-launch.ts";
import { podmanWords } from "./podman.ts";

const WORDS: Readonly<Record<ImageRuntime, (launch: ImageLaunch) => readonly string[]>> = {
  podman: podmanWords,
  docker: podmanWords,
  apptainer: apptainerWords,
  enroot: enrootWords,
  bubblewrap: bubblewrapWords,
};

export const imageWords = (launch: ImageLaunch): readonly string[] =>
  WORDS[launch.tool.runtime](launch);

/**
 * @file The image of a job's processes, as its file names it, and which runtimes can start an image of that form.
 *
 * An image is a reference of a registry (`nvcr.io/nvidia/pytorch:25.01-py3`), or a path on the hosts: of an unpacked root folder, of a
 * `.sif` file (Apptainer), or of a squashfs file (Enroot).
 */

import type { Ms } from "../values/units.ts";

/** In the order in which `auto` takes the first one that a host has. */
export const IMAGE_RUNTIMES = ["podman", "docker", "apptainer", "enroot", "bubblewrap"] as const;
export type ImageRuntime = (typeof IMAGE_RUNTIMES)[number];

export const IMAGE_USERS = ["host", "root"] as const;

export interface ImageRule {
  readonly image: string;
  readonly runtime: ImageRuntime | "auto";
  /** Folders and files of the host beside those that Orbweaver mounts itself. */
  readonly mounts: readonly ImageMount[];
  /** Inside the image; the folder of the run, which is mounted, when absent. */
  readonly workdir?: string;
  /** `host`: the ids that the job has on its host. `root`: user 0 of a user namespace, which has no right of the host's root. */
  readonly user: (typeof IMAGE_USERS)[number];
  /** Time that a host may take to fetch the image. */
  readonly pullTimeoutMs: Ms;
}

export interface ImageMount {
  readonly source: string;
  readonly target: string;
  readonly isReadOnly: boolean;
}

export type ImageForm = "reference" | "folder" | "sif" | "squashfs";

export function imageForm(image: string): ImageForm {
  if (!image.startsWith("/")) return "reference";
  if (image.endsWith(".sif")) return "sif";
  return /\.(sqsh|squashfs)$/.test(image) ? "squashfs" : "folder";
}

const FORMS: Readonly<Record<ImageRuntime, readonly ImageForm[]>> = {
  podman: ["reference"],
  docker: ["reference"],
  apptainer: ["reference", "sif", "folder"],
  enroot: ["squashfs"],
  bubblewrap: ["folder"],
};

/** The runtimes for an image of this form, the one that `auto` prefers first. */
export const runtimesFor = (form: ImageForm): readonly ImageRuntime[] =>
  form === "folder"
    ? ["bubblewrap", "apptainer"]
    : IMAGE_RUNTIMES.filter((runtime) => FORMS[runtime].includes(form));

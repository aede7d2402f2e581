/** @file A process in an image as a runtime of the host is told of it: the image, the runtime, the lease's GPUs, variables and mounts. */

import type { ProcessLimits } from "../../access/run-as.ts";
import type { HostGpu } from "../containment/host-gpus.ts";
import type { ImageMount, ImageRule, ImageRuntime } from "../../domain/job/job-image.ts";

/** A step of the native supervisor inside; no image has such a file. */
export const STEP = "/.orbweaver-step";

/** A runtime that this host has. */
export interface ImageTool {
  readonly runtime: ImageRuntime;
  /** Of its program, whole. */
  readonly path: string;
}

/** What is in a folder of an unpacked root. */
export type RootEntry =
  | { readonly name: string; readonly kind: "folder" | "file" }
  | { readonly name: string; readonly kind: "link"; readonly to: string };

export interface ImageLaunch {
  readonly rule: ImageRule;
  readonly tool: ImageTool;
  /** Of the lease; none where the host shows no driver. */
  readonly gpus: readonly HostGpu[];
  /** Variables that the processes take over from the environment in which the runtime is started. */
  readonly variables: readonly string[];
  /** Variables of that environment that are the host's own, so not those of the image. */
  readonly dropped: readonly string[];
  /** What the processes see beside the job's own mounts. */
  readonly folders: readonly ImageMount[];
  /** Inside. */
  readonly workdir: string;
  readonly ids: { readonly uid: number; readonly gid: number };
  /** Of each process; no runtime may raise them. */
  readonly limits: ProcessLimits;
  /** The native supervisor: its steps hold signals back from a runtime that does not pass them on. */
  readonly native: string;
  /** Of a folder of the image, by its path inside; none where there is no such folder. */
  readonly entriesOf: (path: string) => readonly RootEntry[];
}

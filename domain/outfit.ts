/**
 * @file What a run may be given beside its GPUs before it starts: a plan of its model, a policy for its collectives, the parts of an
 * inference model. Which of them a job wants stands in its description; nothing of it is needed to start.
 */

import type { JobSpec } from "./job.ts";
import { modelPreset } from "./model-presets.ts";

export const OUTFIT_PARTS = ["plan", "collectives", "inference"] as const;
export type OutfitPart = (typeof OUTFIT_PARTS)[number];

/** How it went with one part: made, or why the run starts without it. */
export interface OutfitNote {
  readonly part: OutfitPart;
  readonly kind: "done" | "fallback";
  /** Shown to users, one line. */
  readonly message: string;
}

/** A file beside the processes; a plain name without folders. */
export interface OutfitFile {
  readonly name: string;
  readonly text: string;
}

/** What goes to the hosts. In values of `env`, `{files}` stands for the folder of the files on that host. */
export interface Outfit {
  readonly env: Readonly<Record<string, string>>;
  readonly files: readonly OutfitFile[];
}

/** All files of a job together, and the same over all its hosts: each host's order carries them. */
export const MAX_OUTFIT_BYTES = 256 * 1024;
export const MAX_OUTFIT_BYTES_OVER_HOSTS = 4 * 1024 * 1024;

const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Why an outfit cannot go to so many hosts; undefined when it can. */
export function outfitProblem({ files }: Outfit, hosts: number): string | undefined {
  const misnamed = files.find(({ name }) => !FILE_NAME.test(name));
  if (misnamed !== undefined) return `${JSON.stringify(misnamed.name)} is no plain file name`;
  const bytes = files.reduce((sum, { text }) => sum + text.length, 0);
  const most = Math.min(MAX_OUTFIT_BYTES, Math.floor(MAX_OUTFIT_BYTES_OVER_HOSTS / hosts));
  return bytes <= most
    ? undefined
    : `its files have ${String(bytes)} characters; for ${String(hosts)} hosts at most ${String(most)} are carried`;
}

/** Presets only: a file that a job names lies with its processes. */
const isPlanned = ({ class: of, model, batch }: JobSpec): boolean =>
  of === "training" &&
  batch !== undefined &&
  model !== undefined &&
  modelPreset(model) !== undefined;

/** The parts that a job asks for, as its description says; each science keeps its own line. */
export function outfitsOf(spec: JobSpec): readonly OutfitPart[] {
  const { array, collectives, isServed } = spec;
  // The tasks of an array are small and many: they share no plan.
  if (array !== undefined) return [];
  return [
    ...(isPlanned(spec) ? (["plan"] as const) : []),
    ...(collectives === undefined ? [] : (["collectives"] as const)),
    ...(isServed === true ? (["inference"] as const) : []),
  ];
}

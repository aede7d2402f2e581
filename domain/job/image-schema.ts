/** @file The key `run.container` of a job file: the image of the processes, and the rules between it and other keys. */

import { z } from "zod";
import type { RunSpec } from "./job.ts";
import type { ValuePath } from "../values/file-problem.ts";
import { shown } from "../values/file-problem.ts";
import { ms } from "../values/units.ts";
import { absolutePath, choice, duration, leaf, readText, refused } from "../file/schema-leaf.ts";
import { problemAt, valueAt, type SchemaProblem } from "../file/schema-problems.ts";
import {
  IMAGE_RUNTIMES,
  IMAGE_USERS,
  imageForm,
  runtimesFor,
  type ImageMount,
  type ImageRule,
} from "./job-image.ts";

const MAX_IMAGE_CHARS = 1_024;
const MAX_MOUNTS = 64;
const PULL_TIMEOUT_MS = ms(600_000);
/** A word that no tool takes for a flag, for two words, or for the end of a field. */
const REFERENCE = "[A-Za-z0-9][A-Za-z0-9._/:@-]*";
const PATH = "/[A-Za-z0-9._/@+=~-]*";
/** Made anew in every container. */
const OWN_FOLDERS = ["/proc", "/sys", "/dev", "/tmp"];
/** On which no folder of a job is mounted, for it would hide what the runtime has made. */
const KERNEL_FOLDERS = ["/proc", "/sys", "/dev"];

const image = leaf<string, string>(
  {
    description:
      "A reference of a registry, or the path of an unpacked root folder, a .sif or a .sqsh file on the hosts.",
    type: "string",
    pattern: `^(${REFERENCE}|${PATH})$`,
    maxLength: MAX_IMAGE_CHARS,
    examples: ["nvcr.io/nvidia/pytorch:25.01-py3", "/images/pytorch-25.01"],
  },
  (value) => {
    const reading = readText(value, MAX_IMAGE_CHARS);
    if (reading.kind === "refused") return reading;
    const isSound = new RegExp(`^(${REFERENCE}|${PATH})$`).test(reading.value);
    if (isSound && reading.value !== "/" && !hasDots(reading.value)) return reading;
    return refused(
      `${shown(value)} is no image`,
      "write a reference such as nvcr.io/nvidia/pytorch:25.01-py3, or the whole path of a folder, .sif or .sqsh file",
    );
  },
);

const mount = leaf<string, ImageMount>(
  {
    description: "SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro; whole paths.",
    type: "string",
    pattern: `^${PATH}(:${PATH})?(:r[ow])?$`,
    examples: ["/data:/data:ro"],
  },
  (value) => {
    const remedy =
      "write SOURCE:TARGET or SOURCE:TARGET:ro with whole paths, such as /data:/data:ro";
    const text = typeof value === "string" ? value : "";
    const [, source = "", target = source, mode] =
      new RegExp(`^(${PATH}?)(?::(${PATH}))?(?::(r[ow]))?$`).exec(text) ?? [];
    if (source === "" || [source, target].some(hasDots))
      return refused(`${shown(value)} is no mount`, remedy);
    const own = ownerOf(target, OWN_FOLDERS);
    if (own !== undefined)
      return refused(`${own} of the container is its own`, "mount it elsewhere, such as on /data");
    return { kind: "read", value: { source, target, isReadOnly: mode === "ro" } };
  },
);

export const container = z
  .strictObject({
    image,
    runtime: choice([...IMAGE_RUNTIMES, "auto"], {
      description:
        "The tool of the hosts that starts the image. Default: auto, the first one that a host has and that can.",
    }).optional(),
    mounts: z
      .array(mount)
      .max(MAX_MOUNTS)
      .meta({
        description:
          "Folders and files of the hosts that the processes see. The folder of the run, checkpoints and what Orbweaver gives are always there.",
        examples: [["/data:/data:ro"]],
      })
      .optional(),
    workdir: absolutePath({
      description:
        "Folder of the processes inside the image. Default: the folder of the run, which is mounted.",
      examples: ["/workspace"],
    }).optional(),
    user: choice(IMAGE_USERS, {
      description:
        "As which user the processes see themselves: with the ids of the job's user of the host, or as root without a right of the host's root. Default: host.",
    }).optional(),
    pullTimeout: duration({
      description: "Time that a host may take to fetch the image. Default: 10m.",
      examples: ["10m"],
    }).optional(),
  })
  .meta({
    description: "The image in which the processes run; the host's own files when absent.",
    examples: [{ image: "nvcr.io/nvidia/pytorch:25.01-py3", mounts: ["/data:/data:ro"] }],
  });

export function imageRule(
  file: z.output<typeof container> | undefined,
): { readonly container: ImageRule } | Record<string, never> {
  if (file === undefined) return {};
  const { image: name, runtime = "auto", mounts = [], workdir, user = "host", pullTimeout } = file;
  return {
    container: {
      image: name,
      runtime,
      mounts,
      ...(workdir !== undefined && { workdir }),
      user,
      pullTimeoutMs: pullTimeout ?? PULL_TIMEOUT_MS,
    },
  };
}

export function imageProblems(file: unknown, isServed: boolean): SchemaProblem[] {
  const path = ["run", "container"];
  const value = valueAt(file, path);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  if (isServed)
    return [
      problemAt(file, path, {
        message: "an ONNX model is served by the agent's own program",
        remedy: "leave it out",
      }),
    ];
  const folders = [
    ["run", "workdir"],
    ["run", "checkpoint", "dir"],
  ].flatMap((at) => {
    const folder = valueAt(file, at);
    const message = typeof folder === "string" ? folderFault(folder) : undefined;
    const remedy = "name another folder: it is mounted in the image at its own path";
    return message === undefined ? [] : [problemAt(file, at, { message, remedy })];
  });
  return [...folders, ...runtimeProblems(file, path)];
}

function runtimeProblems(file: unknown, path: ValuePath): SchemaProblem[] {
  const value = valueAt(file, path);
  const [name, runtime] = ["image", "runtime"].map((key) => valueAt(value, [key]));
  const known = IMAGE_RUNTIMES.find((each) => each === runtime);
  if (typeof name !== "string" || known === undefined) return [];
  const form = imageForm(name);
  const fit = runtimesFor(form);
  if (fit.includes(known)) return [];
  const what = form === "reference" ? "a reference of a registry" : `a ${form} on the hosts`;
  return [
    problemAt(file, [...path, "runtime"], {
      message: `${known} does not start ${what}`,
      remedy: `write ${fit.join(" or ")}, or leave it out`,
    }),
  ];
}

/** Of a rule that no reader of files has checked: why it is none that a file can state, undefined when it is one. */
export function imageFault({
  container: rule,
  workdir,
  checkpoint,
}: Pick<RunSpec, "container" | "workdir" | "checkpoint">): string | undefined {
  if (rule === undefined) return undefined;
  const { image: name, runtime, mounts, workdir: inside, user, pullTimeoutMs } = rule;
  const read = container.safeParse({
    ...{ image: name, runtime, user, pullTimeout: `${String(pullTimeoutMs)}ms` },
    mounts: mounts.map(
      ({ source, target, isReadOnly }) => `${source}:${target}:${isReadOnly ? "ro" : "rw"}`,
    ),
    ...(inside !== undefined && { workdir: inside }),
  });
  if (!read.success) {
    const [issue] = read.error.issues;
    return `run.container${issue === undefined ? "" : `.${issue.path.join(".")}`} is none that a job file can state: ${issue?.message ?? ""}`;
  }
  const folders = { "run.workdir": workdir, "run.checkpoint.dir": checkpoint?.dir };
  for (const [key, path] of Object.entries(folders)) {
    const fault = path === undefined ? undefined : folderFault(path);
    if (fault !== undefined) return `${key}: ${fault}`;
  }
  return undefined;
}

/** Why a folder of the hosts cannot be mounted in an image at its own path. */
function folderFault(path: string): string | undefined {
  if (!new RegExp(`^${PATH}$`).test(path) || hasDots(path))
    return `${shown(path)} cannot be mounted in an image`;
  const own = ownerOf(path, KERNEL_FOLDERS);
  return own === undefined ? undefined : `${own} of the container is its own`;
}

/** The one of these folders that a path is in, or `/` where the path is that. */
function ownerOf(path: string, folders: readonly string[]): string | undefined {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return parts.length === 0 ? "/" : folders.find((each) => each === `/${parts[0] ?? ""}`);
}

const hasDots = (path: string): boolean => path.split("/").includes("..");

/**
 * @file Reads a batch script of Slurm, `#SBATCH` lines and all, as a job file; names what has no counterpart here.
 *
 * As sbatch does: options end at the first line of commands, the last of two equal options counts, and the job runs where it was submitted.
 * Unlike there: the script runs once on each host of the gang, and `srun` is not there. https://slurm.schedmd.com/sbatch.html
 */

import { basename } from "node:path";
import type { DependencyEvent } from "../../domain/job/dependency.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { durationText } from "../../domain/values/dimensions.ts";
import { shellQuoted } from "../../lib/shell-word.ts";
import { arrayOfTasks } from "./array-tasks.ts";

export interface SbatchScript {
  /** The job file, as plain data. */
  readonly job: Readonly<Record<string, unknown>>;
  /** It waits for its user's jobs of its name, as with `submit --singleton`. */
  readonly isSingleton: boolean;
  /** One line for each option that was left out, with the reason. */
  readonly unmapped: readonly string[];
}

export const isSbatchScript = (text: string): boolean =>
  text.startsWith("#!") && /^#SBATCH\s/m.test(text);

/** Short options that have a counterpart, by their long names. */
const LONG_NAMES: Readonly<Record<string, string>> = {
  J: "job-name",
  N: "nodes",
  G: "gpus",
  t: "time",
  a: "array",
  A: "account",
  D: "chdir",
  H: "hold",
  C: "constraint",
  c: "cpus-per-task",
  d: "dependency",
  e: "error",
  n: "ntasks",
  o: "output",
  p: "partition",
  q: "qos",
  w: "nodelist",
};

/** Why an option is left out; any other is unknown here. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  output: "`orbweaver logs` shows the output",
  error: "`orbweaver logs` shows the output",
  partition: "name a cluster with --cluster, or a type of GPU with --gpu-type",
  constraint: "name a type of GPU with --gpu-type",
  nodelist: "hosts are named <cluster>/<host> in constraints.hosts",
  mem: "a job has its GPUs' share of the host's memory; --mem-per-gpu asks for an amount",
  "cpus-per-task":
    "a job has its GPUs' share of the host's processors; --cpus-per-gpu asks for a number",
  ntasks: "one process runs on each host",
  "ntasks-per-node": "one process runs on each host",
  "kill-on-invalid-dep":
    "the job ends with DEPENDENCY_FAILED; --on-failed-dependency release lets it run",
  qos: "priority and quota belong to the tenant",
  "mail-type": "no mail is sent; `notify` of a job file tells a webhook",
  "mail-user": "no mail is sent; `notify` of a job file tells a webhook",
  exclusive: "a job's GPUs are its own, and other jobs may have the host's other ones",
  export: "a job has no variable of the shell that submits it; `run.env` of a job file names some",
  requeue: "a job whose host is lost starts again by itself; `retry` counts for its own failures",
  signal: "`run.checkpoint` of a job file names the signal and how long it is waited for",
};

/** Throws BAD_INPUT, with the line, for an option whose value cannot be read, and for a script that asks for no GPU. */
export function readSbatch(
  text: string,
  { file, cwd }: { readonly file: string; readonly cwd: string },
): SbatchScript {
  const options = new Map<string, { readonly value: string; readonly place: string }>();
  const lines = text.split(/\r?\n/);
  for (const [at, line] of lines.entries()) {
    if (line.trim() !== "" && !line.startsWith("#")) break;
    const words = /^#SBATCH\s+(.*)$/
      .exec(line)?.[1]
      ?.replace(/\s#.*$/, "")
      .trim();
    if (words === undefined) continue;
    const place = `${file}:${String(at + 1)}`;
    for (const [name, value] of optionsOf(words)) {
      if (name === "")
        throw new OrbweaverError(
          "BAD_INPUT",
          value === "hetjob"
            ? `${place}: a job of unlike parts has no counterpart. Write a job file for each part; with --group they are listed and cancelled as one.`
            : `${place}: ${value} is no option. Put values with spaces in quotes.`,
        );
      options.set(name, { value, place });
    }
  }
  const taken = new Set<string>();
  const read = <T>(name: string, parse: (value: string) => T | undefined): T | undefined => {
    const option = options.get(name);
    if (option === undefined) return undefined;
    taken.add(name);
    const parsed = parse(option.value);
    if (parsed !== undefined) return parsed;
    const { place, value } = option;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${place}: --${name}=${value} cannot be read. Write it as sbatch takes it, or a job file.`,
    );
  };
  const dependency = read("dependency", dependencyOf);
  const array = read("array", arrayOfTasks);
  const workdir = read("chdir", textOf) ?? cwd;
  const job = {
    name: read("job-name", (name) => name.replace(/[^A-Za-z0-9._/-]+/g, "-")) ?? basename(file),
    ...given("tenant", read("account", textOf)),
    ...given("priority", read("priority", wholeOf)),
    ...gpusOf(read, file),
    ...given("timeLimit", read("time", timeOf)),
    ...given("array", array),
    ...perGpuOf(read),
    ...given("after", dependency?.after),
    ...(options.has("hold") && { hold: read("hold", () => true) }),
    run: {
      command: withSlurmNames([...interpreterOf(lines[0] ?? "", file), lines.join("\n")], {
        workdir,
        isArray: array !== undefined,
      }),
      workdir,
      launch: "per-host",
    },
  };
  const unmapped = [...options].flatMap(([name, { value, place }]) =>
    taken.has(name)
      ? []
      : [
          `${place}: --${name}${value === "" ? "" : `=${value}`}: ${LEFT_OUT[name] ?? "not known here"}`,
        ],
  );
  return {
    job,
    isSingleton: dependency?.isSingleton === true,
    unmapped: [...unmapped, ...stepsOf(lines, file)],
  };
}

/** Lines that start a step with `srun`, which no host here need have. */
const stepsOf = (lines: readonly string[], file: string): readonly string[] =>
  lines.flatMap((line, at) =>
    /^\s*(\w+=\S*\s+)*srun\s/.test(line)
      ? [
          `${file}:${String(at + 1)}: srun: hosts have no such command; the script runs once on each host by itself. Write the command alone`,
        ]
      : [],
  );

type Reader = <T>(name: string, parse: (value: string) => T | undefined) => T | undefined;

/** `--nodes=2 -t 1:00`, of which a value may be quoted; a word that is no option has the name "". */
function optionsOf(words: string): readonly (readonly [name: string, value: string])[] {
  const parts = words.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  const plain = parts.map((part) => part.replace(/["']/g, ""));
  const found: [string, string][] = [];
  for (let at = 0; at < plain.length; at += 1) {
    const [, dashes, body = ""] = /^(--?)(.+)$/.exec(plain[at] ?? "") ?? [];
    if (dashes === undefined) {
      found.push(["", plain[at] ?? ""]);
      continue;
    }
    const next = plain[at + 1];
    const hasNext = next !== undefined && !/^-[A-Za-z-]/.test(next);
    const [flag = "", ...rest] = dashes === "--" ? body.split("=") : [body.slice(0, 1)];
    const inside = dashes === "--" ? rest.join("=") : body.slice(1);
    const isApart = inside === "" && !body.endsWith("=") && hasNext;
    found.push([dashes === "--" ? flag : (LONG_NAMES[flag] ?? flag), isApart ? next : inside]);
    if (isApart) at += 1;
  }
  return found;
}

/** The GPUs of all nodes together, and their type. */
function gpusOf(read: Reader, file: string): object {
  const saidNodes = read("nodes", (value) => wholeOf(value.split("-").at(-1) ?? ""));
  const nodes = saidNodes ?? 1;
  const all = read("gpus", typedCount);
  const each = read("gpus-per-node", typedCount) ?? read("gres", gresOf);
  const ofTask = (all ?? each) ? undefined : read("gpus-per-task", typedCount);
  const gpus =
    all?.count ??
    (each === undefined ? undefined : each.count * nodes) ??
    (ofTask === undefined ? undefined : ofTask.count * tasksOf(read, nodes));
  if (gpus === undefined || gpus < 1)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} asks for no GPUs. Write #SBATCH --gpus=8, or --gpus-per-node with --nodes.`,
    );
  const type = (all ?? each ?? ofTask)?.type;
  const isOneHost = nodes === 1 && (ofTask === undefined || saidNodes !== undefined);
  const constraints = {
    ...(type !== undefined && { gpuTypes: [type.toUpperCase()] }),
    ...(isOneHost && { sameHost: true }),
  };
  return { gang: gpus, ...(Object.keys(constraints).length > 0 && { constraints }) };
}

const tasksOf = (read: Reader, nodes: number): number =>
  read("ntasks", wholeOf) ?? nodes * (read("ntasks-per-node", wholeOf) ?? 1);

function perGpuOf(read: Reader): object {
  const cpus = read("cpus-per-gpu", wholeOf);
  const memory = read("mem-per-gpu", sizeOf);
  const isSaid = cpus !== undefined || memory !== undefined;
  return isSaid
    ? { resources: { perGpu: { ...given("cpus", cpus), ...given("memory", memory) } } }
    : {};
}

const SIZE_UNITS: Readonly<Record<string, string>> = { K: "KiB", M: "MiB", G: "GiB", T: "TiB" };

/** `64G`; without a letter, mebibytes. */
function sizeOf(value: string): string | undefined {
  const [, count, unit = ""] = /^(\d{1,9})([KMGT]?)$/i.exec(value) ?? [];
  return count === undefined ? undefined : `${count} ${SIZE_UNITS[unit.toUpperCase()] ?? "MiB"}`;
}

interface TypedCount {
  readonly count: number;
  readonly type?: string;
}

/** `8` or `h100:8`. */
function typedCount(value: string): TypedCount | undefined {
  const [, type, digits = ""] = /^(?:([A-Za-z][\w.-]*):)?(\d{1,6})$/.exec(value) ?? [];
  return digits === "" ? undefined : { count: Number(digits), ...(type !== undefined && { type }) };
}

/** `gpu:8` or `gpu:h100:8`; other resources make it unreadable. */
function gresOf(value: string): TypedCount | undefined {
  if (value === "gpu") return { count: 1 };
  return value.startsWith("gpu:") ? typedCount(value.slice("gpu:".length)) : undefined;
}

/** `min`, `min:s`, `h:min:s`, `d-h`, `d-h:min`, `d-h:min:s`. */
function timeOf(value: string): string | undefined {
  const [, days, clock = ""] = /^(?:(\d+)-)?(\d+(?::\d+){0,2})$/.exec(value) ?? [];
  if (clock === "") return undefined;
  const parts = clock.split(":").map(Number);
  const [h = 0, min = 0, s = 0] = days !== undefined || parts.length === 3 ? parts : [0, ...parts];
  return durationText(1000 * (((Number(days ?? 0) * 24 + h) * 60 + min) * 60 + s));
}

const SLURM_EVENTS: Readonly<Record<string, DependencyEvent>> = {
  after: "start",
  afterany: "end",
  afternotok: "failure",
  afterok: "success",
};

/** `afterok:a:b,afterany:c,singleton`; `?` (any of them), a delay, aftercorr and burst buffers have no counterpart. */
function dependencyOf(value: string):
  | {
      readonly after?: readonly { readonly job: string; readonly on: DependencyEvent }[];
      readonly isSingleton: boolean;
    }
  | undefined {
  const parts = value.split(",");
  const others = parts.filter((part) => part !== SINGLETON);
  const after = others.flatMap((part) => {
    const [kind = "", ...jobs] = part.split(":");
    const on = SLURM_EVENTS[kind];
    const isSound = on !== undefined && jobs.length > 0 && jobs.every((job) => JOB_ID.test(job));
    return isSound ? jobs.map((job) => ({ job, on })) : [];
  });
  const named = others.reduce((sum, part) => sum + Math.max(1, part.split(":").length - 1), 0);
  if (after.length < named) return undefined;
  return { isSingleton: others.length < parts.length, ...(after.length > 0 && { after }) };
}

const SINGLETON = "singleton";
const JOB_ID = /^[A-Za-z0-9][A-Za-z0-9._@=/-]*$/;

const wholeOf = (value: string): number | undefined =>
  /^\d{1,6}$/.test(value) ? Number(value) : undefined;

const textOf = (value: string): string | undefined => (value === "" ? undefined : value);

const given = (key: string, value: unknown): object =>
  value === undefined ? {} : { [key]: value };

/** `#!/bin/bash -l` → `/bin/bash -l -c`: the script travels in the job, so a host needs no copy. */
function interpreterOf(first: string, file: string): readonly string[] {
  if (SHELL.test(first) || /\bpython[0-9.]*\b/.test(first))
    return [...first.slice(2).trim().split(/\s+/), "-c"];
  throw new OrbweaverError(
    "BAD_INPUT",
    `${file}:1: ${first} is no shell and no python. Start the program from a script of a shell.`,
  );
}

const SHELL = /\b(ba|z|k|da)?sh\b/;

/**
 * The command under the variables that batch scripts read most. Left out are those by which libraries take themselves to be steps of `srun` (`SLURM_PROCID`,
 * `SLURM_NTASKS`): they would then look for its other steps.
 */
function withSlurmNames(
  command: readonly string[],
  { workdir, isArray }: { readonly workdir: string; readonly isArray: boolean },
): readonly string[] {
  const names = [
    'SLURM_JOB_ID="$ORBWEAVER_JOB_ID"',
    'SLURM_JOB_NAME="$ORBWEAVER_JOB_NAME"',
    `SLURM_SUBMIT_DIR=${shellQuoted(workdir)}`,
    'SLURM_NODEID="$NODE_RANK"',
    'SLURM_NNODES="$NNODES"',
    'SLURM_JOB_NUM_NODES="$NNODES"',
    ...(isArray
      ? ['SLURM_ARRAY_JOB_ID="$ORBWEAVER_JOB_ID"', 'SLURM_ARRAY_TASK_ID="$ARRAY_INDEX"']
      : []),
  ];
  return ["/bin/sh", "-c", `export ${names.join(" ")}; exec "$@"`, "sh", ...command];
}

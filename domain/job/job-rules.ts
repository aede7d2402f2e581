/**
 * @file The rules between keys of a job file: sizes of a gang that fit together, one way to order a checkpoint, the needs of
 * preemption and growth, arrays, other fleets, models.
 *
 * They read the raw value and check only readable parts; the schema reports the others.
 */

import { shown, type ValuePath } from "../values/file-problem.ts";
import { imageProblems } from "./image-schema.ts";
import { folderProblems } from "./job-folder.ts";
import { isSecretName, isVariableName } from "./job-env.ts";
import { labelCountProblem } from "./job-labels.ts";
import { modelProblems } from "./job-model.ts";
import { noticeProblems } from "./job-notice.ts";
import { MAX_SECRETS } from "./job-secret.ts";
import { resourceProblems } from "./resources-schema.ts";
import { checkTasksOfFile, MAX_TASKS } from "./task-ranges.ts";
import { engineProblems, isEngineFile } from "./job-engine.ts";
import { isServedFile } from "./job-serving.ts";
import { replicaProblems } from "./service-rule.ts";
import { problemAt, valueAt, type SchemaProblem } from "../file/schema-problems.ts";
import { parseDuration } from "../values/dimensions.ts";
import { MAX_REPLACE_MS } from "./job.ts";

export function jobRuleProblems(value: unknown): SchemaProblem[] {
  return [
    ...commandProblems(value),
    ...servingProblems(value),
    ...engineProblems(value),
    ...replicaProblems(value),
    ...gangProblems(value),
    ...replacementProblems(value),
    ...checkpointProblems(value),
    ...handedOnProblems(value),
    ...growthProblems(value),
    ...preemptionProblems(value),
    ...arrayProblems(value),
    ...cellProblems(value),
    ...modelProblems(value),
    ...labelProblems(value),
    ...resourceProblems(value),
    ...imageProblems(value, isServedFile(value) && !isEngineFile(value)),
    ...dependencyProblems(value),
    ...folderProblems(value),
    ...secretProblems(value),
    ...noticeProblems(value),
  ];
}

function labelProblems(file: unknown): SchemaProblem[] {
  const excess = labelCountProblem(valueAt(file, ["labels"]), valueAt(file, ["group"]));
  return excess === undefined ? [] : [problemAt(file, ["labels"], excess)];
}

function dependencyProblems(file: unknown): SchemaProblem[] {
  const path = ["onFailedDependency"];
  if (valueAt(file, path) === undefined || valueAt(file, ["after"]) !== undefined) return [];
  const message = "it says nothing, because the job waits for no other";
  return [problemAt(file, path, { message, remedy: "write after: [...], or leave it out" })];
}

function secretProblems(file: unknown): SchemaProblem[] {
  const path = ["run", "env"];
  const env = valueAt(file, path);
  if (typeof env !== "object" || env === null) return [];
  const names = Object.entries(env).flatMap(([name, value]) =>
    typeof value === "object" ? [name] : [],
  );
  const problems = names
    .filter((name) => isVariableName(name) && !isSecretName(name))
    .map((name) =>
      problemAt(file, [...path, name], {
        message: "hosts set it themselves",
        remedy: "leave it out",
      }),
    );
  if (names.length <= MAX_SECRETS) return problems;
  const remedy = `name at most ${String(MAX_SECRETS)}; one file may hold several`;
  const message = `${String(names.length)} secrets`;
  return [...problems, problemAt(file, path, { message, remedy })];
}

function commandProblems(file: unknown): SchemaProblem[] {
  if (typeof file !== "object" || file === null || Array.isArray(file)) return [];
  if (isServedFile(file) && !isEngineFile(file)) return [];
  const run = valueAt(file, ["run"]);
  if (run === undefined) {
    const remedy =
      "write a map with the key command, or for an inference job a model that ends in .onnx";
    return [problemAt(file, ["run"], { message: "missing", remedy })];
  }
  if (typeof run !== "object" || run === null || Array.isArray(run)) return [];
  if (valueAt(run, ["command"]) !== undefined) return [];
  return [
    problemAt(file, ["run", "command"], {
      message: "missing",
      remedy: "write text such as python train.py --epochs 10",
    }),
  ];
}

/** A service is one process on one host and uses none of the keys for training. */
function servingProblems(file: unknown): SchemaProblem[] {
  if (isEngineFile(file)) return [];
  if (!isServedFile(file)) {
    if (valueAt(file, ["serve"]) === undefined) return [];
    const message = "Orbweaver serves only the .onnx model of an inference job without a command";
    return [
      problemAt(file, ["serve"], {
        message,
        remedy:
          "leave it out, or run.command, and write class: inference; for a language model name serve.engine",
      }),
    ];
  }
  const problems: SchemaProblem[] = [];
  const model = valueAt(file, ["model"]);
  const isRelative = typeof model === "string" && !model.startsWith("/");
  if (isRelative && valueAt(file, ["run", "workdir"]) === undefined) {
    const message = `${shown(model)} is relative, and there is no run.workdir`;
    problems.push(
      problemAt(file, ["model"], {
        message,
        remedy: "write its full path on the hosts, or run.workdir",
      }),
    );
  }
  for (const [path, wrong, remedy] of [
    [["array"], undefined, "leave it out; submit a job for each service"],
    [["constraints", "sameHost"], false, "leave it out; a model is served by one host"],
    [["run", "launch"], "per-gpu", "leave it out; a model is served by one process"],
  ] as const) {
    const value = valueAt(file, path);
    if (value === undefined || (wrong !== undefined && value !== wrong)) continue;
    problems.push(
      problemAt(file, path, {
        message: "an ONNX model is served by one process on one host",
        remedy,
      }),
    );
  }
  return problems;
}

function gangProblems(file: unknown): SchemaProblem[] {
  const gpus = sizeAt(file, ["gang", "gpus"]);
  const min = sizeAt(file, ["gang", "min"]);
  const problems: SchemaProblem[] = [];
  if (gpus !== undefined && min !== undefined && min > gpus) {
    const message = `${min} is more than gang.gpus, ${gpus}`;
    problems.push(problemAt(file, ["gang", "min"], { message, remedy: `write at most ${gpus}` }));
  }
  const shapes = valueAt(file, ["gang", "shapes"]);
  if (!Array.isArray(shapes)) return problems;
  const seen = new Set<number>();
  for (const index of shapes.keys()) {
    const path = ["gang", "shapes", index];
    const shape = sizeAt(file, path);
    if (shape === undefined) continue;
    if (gpus !== undefined && shape > gpus) {
      const message = `${shape} is more than gang.gpus, ${gpus}`;
      problems.push(problemAt(file, path, { message, remedy: "leave it out, or raise gang.gpus" }));
    } else if (min !== undefined && shape < min) {
      const message = `${shape} is less than gang.min, ${min}`;
      problems.push(problemAt(file, path, { message, remedy: "leave it out, or lower gang.min" }));
    } else if (seen.has(shape)) {
      problems.push(
        problemAt(file, path, { message: `${shape} is there twice`, remedy: "leave one out" }),
      );
    }
    seen.add(shape);
  }
  return problems;
}

function replacementProblems(file: unknown): SchemaProblem[] {
  const path = ["gang", "replace"];
  const value = valueAt(file, path);
  if (value === undefined) return [];
  if (valueAt(file, ["array"]) !== undefined) {
    const message = "a task of an array that loses a host starts anew elsewhere";
    return [problemAt(file, path, { message, remedy: "leave it out" })];
  }
  const reading = parseDuration(value);
  if (reading.kind === "refused" || reading.value <= MAX_REPLACE_MS) return [];
  const message = `${shown(value)} is more than 1h`;
  return [problemAt(file, path, { message, remedy: "write at most 1h" })];
}

const CHECKPOINT_KEYS: readonly string[] = [
  "signal",
  "command",
  "dir",
  "from",
  "grace",
  "interval",
];
/** Beside `run.checkpoint.from`: why it cannot be, and what is to be done. */
const BESIDE_FROM: readonly (readonly [
  path: readonly string[],
  message: string,
  remedy: string,
])[] = [
  [
    ["run", "checkpoint", "dir"],
    "each run goes on from the newest checkpoint in dir",
    "keep one of dir and from",
  ],
  [["array"], "each task of an array has checkpoints of its own", "leave from out"],
  [
    ["run", "container"],
    "a container sees no folder of another job",
    "write checkpoints to a shared run.checkpoint.dir, and leave from out",
  ],
];

function handedOnProblems(file: unknown): SchemaProblem[] {
  const path = ["run", "checkpoint", "from"];
  if (valueAt(file, path) === undefined) return [];
  return BESIDE_FROM.filter(([beside]) => valueAt(file, beside) !== undefined).map(
    ([, message, remedy]) => problemAt(file, path, { message, remedy }),
  );
}

function checkpointProblems(file: unknown): SchemaProblem[] {
  const path = ["run", "checkpoint"];
  const checkpoint = valueAt(file, path);
  if (typeof checkpoint !== "object" || checkpoint === null || Array.isArray(checkpoint)) return [];
  const ways = ["signal", "command"].filter((way) => valueAt(checkpoint, [way]) !== undefined);
  if (ways.length === 1) return [];
  // A misspelt key is reported already, and may be the one that seems to be missing.
  const hasOtherKeys = Object.keys(checkpoint).some((key) => !CHECKPOINT_KEYS.includes(key));
  if (ways.length === 0 && hasOtherKeys) return [];
  if (ways.length === 2) {
    return [
      problemAt(file, [...path, "command"], {
        message: "signal and command are both given",
        remedy: "keep one of the two",
      }),
    ];
  }
  const remedy =
    "write signal: USR1, or command: [...], whichever makes the processes save their work";
  return [problemAt(file, path, { message: "neither signal nor command is given", remedy })];
}

/** Growing is a checkpoint and another start, so it needs a smaller form to grow from and a way to save the work. */
function growthProblems(file: unknown): SchemaProblem[] {
  const path = ["gang", "grow"];
  if (valueAt(file, path) !== true) return [];
  if (!hasSmallerForm(file)) {
    const message = "the gang has no smaller form that it could grow from";
    return [
      problemAt(file, path, { message, remedy: "write gang.min or gang.shapes, or leave it out" }),
    ];
  }
  if (valueAt(file, ["run", "checkpoint"]) !== undefined) return [];
  const message = "without run.checkpoint the job would begin again from nothing";
  return [problemAt(file, path, { message, remedy: "write run.checkpoint, or leave it out" })];
}

function preemptionProblems(file: unknown): SchemaProblem[] {
  const path = ["preemption"];
  const allowed = valueAt(file, [...path, "allowed"]);
  const isShrinking = valueAt(file, [...path, "shrink"]) === true;
  const isInference = valueAt(file, ["class"]) === "inference";
  if (allowed === false || (allowed === undefined && isInference)) {
    const why = allowed === false ? "preemption.allowed is false" : "inference is not preempted";
    const remedy = "write allowed: true, or leave it out";
    return ["shrink", "minRuntime"].flatMap((key) => {
      const value = valueAt(file, [...path, key]);
      if (value === undefined || value === false) return [];
      return [
        problemAt(file, [...path, key], { message: `it says nothing, because ${why}`, remedy }),
      ];
    });
  }
  if (!isShrinking || hasSmallerForm(file)) return [];
  const message = "the gang has no smaller form to go on with";
  const remedy = "write gang.min or gang.shapes, or leave it out";
  return [problemAt(file, [...path, "shrink"], { message, remedy })];
}

/** Also true where the value cannot be read, which is reported elsewhere. */
function hasSmallerForm(file: unknown): boolean {
  const gang = valueAt(file, ["gang"]);
  const gpus = sizeAt(file, ["gang", "gpus"]);
  if (typeof gang === "number") return false;
  if (gpus === undefined) return true;
  const min = valueAt(file, ["gang", "min"]);
  const shapes = valueAt(file, ["gang", "shapes"]);
  const sizes: readonly unknown[] = Array.isArray(shapes) ? shapes : [min ?? gpus];
  return sizes.some((size) => typeof size !== "number" || size < gpus);
}

/** Starts of tasks, retries included, that the history of one workflow holds. */
const MAX_TASK_STARTS = 1_000_000;

function arrayProblems(file: unknown): SchemaProblem[] {
  const count = sizeAt(file, ["array", "count"]);
  if (count === undefined) return [];
  const problems: SchemaProblem[] = [];
  const named = valueAt(file, ["array", "tasks"]);
  const refusal = typeof named === "string" ? checkTasksOfFile(named, count) : undefined;
  if (refusal !== undefined) problems.push(problemAt(file, ["array", "tasks"], refusal));
  const attempts = sizeAt(file, ["retry", "attempts"]) ?? 1;
  // One that is too large by itself is refused for that.
  if (count <= MAX_TASKS && count * attempts > MAX_TASK_STARTS) {
    const message = `${attempts} attempts of ${count} tasks are more than ${MAX_TASK_STARTS} starts`;
    const remedy = `write at most ${Math.floor(MAX_TASK_STARTS / count)}, or submit several arrays`;
    problems.push(problemAt(file, ["retry", "attempts"], { message, remedy }));
  }
  const gpus = sizeAt(file, ["gang", "gpus"]);
  const min = sizeAt(file, ["gang", "min"]);
  const remedy = "leave it out; all tasks of an array have gang.gpus";
  if (gpus !== undefined && min !== undefined && min < gpus) {
    const message = `${min} is less than gang.gpus, but tasks of an array do not shrink`;
    problems.push(problemAt(file, ["gang", "min"], { message, remedy }));
  }
  const shapes = valueAt(file, ["gang", "shapes"]);
  if (
    Array.isArray(shapes) &&
    shapes.some((shape) => typeof shape === "number" && shape !== gpus)
  ) {
    const message = "there are smaller shapes, but tasks of an array do not shrink";
    problems.push(problemAt(file, ["gang", "shapes"], { message, remedy }));
  }
  return problems;
}

/** One ledger grants all batches of an array to one workflow, and its tokens order them. */
function cellProblems(file: unknown): SchemaProblem[] {
  const fleets = valueAt(file, ["fleets"]);
  if (fleets === undefined) {
    if (valueAt(file, ["patience"]) === undefined) return [];
    const message = "it says nothing, because no other fleets are named";
    return [
      problemAt(file, ["patience"], { message, remedy: "write fleets: [...], or leave it out" }),
    ];
  }
  if (valueAt(file, ["array"]) === undefined) return [];
  const message = "an array stays in the fleet that it was submitted to";
  return [
    problemAt(file, ["fleets"], {
      message,
      remedy: "leave it out, or submit an array to each fleet",
    }),
  ];
}

/** A whole number from 1, as sizes and counts are. */
function sizeAt(file: unknown, path: ValuePath): number | undefined {
  const value = valueAt(file, path);
  return typeof value === "number" && Number.isInteger(value) && value >= 1 ? value : undefined;
}

/**
 * @file The schema of `job.yaml`: its keys, their values, and their descriptions for editors.
 *
 * Defaults, and rules between keys, are in `job-file.ts` and `job-rules.ts`. Unions are written with the plain form first and
 * the map or list second, as `schema-problems.ts` requires.
 */

import { COLLECTIVES } from "../bandwidth/message-profile.ts";
import { z } from "zod";
import { gpuType, hostName, plainName } from "../file/file-words.ts";
import { environment, MAX_ARGUMENT_CHARS } from "./job-env.ts";
import { MAX_TASKS, MAX_TASKS_CHARS } from "./task-ranges.ts";
import { MODEL_KEYS } from "./job-model.ts";
import { JOB_CLASSES, LINK_PREFERENCES, MAX_GANG_GPUS, MAX_PRIORITY } from "./job.ts";
import { choice, flag, leaf, text, wholeNumber, word } from "../file/schema-leaf.ts";
import {
  absolutePath,
  duration,
  memory,
  messageSize,
  readText,
  refused,
  type WordRule,
} from "../file/schema-leaf.ts";
import { jsonSchemaOf, type JsonSchema } from "../file/json-schema.ts";
import { DEPENDENCY_KEYS } from "./dependency.ts";
import { container } from "./image-schema.ts";
import { folder } from "./job-folder.ts";
import { groupName, labelMap } from "./job-labels.ts";
import { NOTICE_KEYS } from "./job-notice.ts";
import { resources } from "./resources-schema.ts";
import { serve } from "./serve-schema.ts";

const MAX_FLEETS = 32;
/** Names and keys become parts of ids, file names and addresses. */
const MAX_NAME_CHARS = 200;

const NAME: WordRule = {
  what: "a job",
  pattern: "[A-Za-z0-9._/-]+",
  characters: "letters, digits, ., _, / and -",
  maxLength: MAX_NAME_CHARS,
};

/** A workflow id; those of the fleet itself begin with `orbweaver-`. */
const KEY: WordRule = {
  what: "a job's key",
  pattern: "(?!orbweaver-)[A-Za-z0-9][A-Za-z0-9._:@+=/-]*",
  characters:
    "letters, digits and . _ : @ + = / -, beginning with a letter or digit, not with orbweaver-",
  maxLength: MAX_NAME_CHARS,
};

const gpuCount = (description: string) =>
  wholeNumber({ min: 1, max: MAX_GANG_GPUS, description, examples: [8] });

const gang = z
  .strictObject({
    gpus: gpuCount("GPUs that the job needs at once."),
    min: gpuCount(
      "Smallest gang that is taken when the full one was not to be had within `timeout`. Default: the smallest of `shapes`, else `gpus`.",
    ).optional(),
    timeout: duration({
      description:
        "Waiting longer than this makes smaller gangs acceptable. Default: 30s for training, 5s for inference and interactive.",
      isZeroAllowed: true,
    }).optional(),
    shapes: z
      .array(gpuCount("A gang size."))
      .min(1)
      .max(64)
      .meta({
        description: "Acceptable sizes from `min` to `gpus`. Default: every size.",
        examples: [[8, 4, 2]],
      })
      .optional(),
    grow: flag(
      "Having started smaller, go on at full size when there is room: checkpoint, stop, start again. Default: false.",
    ).optional(),
    replace: duration({
      description:
        "Having lost a host, keep the others for so long while a replacement is found; 0 gives them up at once. At most 1h. Default: 5m.",
      isZeroAllowed: true,
    }).optional(),
  })
  .meta({
    description: "The gang with its smaller forms.",
    examples: [{ gpus: 8, min: 4, timeout: "30s" }],
  });

const constraints = z
  .strictObject({
    jurisdictions: z
      .array(plainName("a jurisdiction", { description: "A jurisdiction." }))
      .min(1)
      .meta({ description: "Run only where one of these laws holds.", examples: [["EU"]] })
      .optional(),
    clusters: z
      .array(plainName("a cluster", { description: "A cluster." }))
      .min(1)
      .meta({ description: "Run only in these clusters.", examples: [["eu-1"]] })
      .optional(),
    hosts: z
      .array(hostName({ description: "A host, as <cluster>/<host>." }))
      .min(1)
      .meta({ description: "Run only on these hosts.", examples: [["eu-1/h100-1"]] })
      .optional(),
    gpuTypes: z
      .array(gpuType({ description: "A GPU type." }))
      .min(1)
      .meta({ description: "Run only on GPUs of these types.", examples: [["H100", "H200"]] })
      .optional(),
    memory: memory({
      description: "Memory of each GPU, at least.",
      examples: ["40 GiB"],
    }).optional(),
    maxClusters: wholeNumber({
      min: 1,
      max: 1000,
      description: "Spread the gang over at most so many clusters.",
      examples: [1],
    }).optional(),
    sameHost: flag("All GPUs in one host. Default: false.").optional(),
    sameFabric: flag("All GPUs behind one fabric. Default: false.").optional(),
    antiAffinity: plainName("a label", {
      description: "A label: jobs of one tenant with the same label never share a host.",
      examples: ["db-replica"],
    }).optional(),
    prefer: choice(LINK_PREFERENCES, {
      description: "What counts between the clusters of one gang. Default: bandwidth.",
    }).optional(),
  })
  .meta({ description: "Where the job may run; each list means any of its members." });

const argument = leaf<string, string>(
  { description: "An argument.", type: "string", maxLength: MAX_ARGUMENT_CHARS },
  (value) => readText(value, MAX_ARGUMENT_CHARS),
);

const command = z
  .union([
    text({
      description: 'A line for the shell: the same as ["sh", "-c", line].',
      maxLength: MAX_ARGUMENT_CHARS,
      examples: ["python train.py --epochs 10"],
    }).transform((line): string[] => ["sh", "-c", line]),
    z
      .array(argument)
      .min(1)
      .max(10_000)
      .transform((argv, context) => {
        if (argv[0] === "") {
          const params = { remedy: "name the program first" };
          context.addIssue({ code: "custom", path: [0], message: "empty", params });
        }
        return argv;
      })
      .meta({
        description: "The program and its arguments, handed over as they are, without a shell.",
        examples: [["python", "train.py", "--epochs", "10"]],
      }),
  ])
  .meta({
    description: "What to run: a list of the program and its arguments, or a line for the shell.",
  });

/** Signals that a process can catch and that the kernel does not send by itself. */
const CHECKPOINT_SIGNALS = ["USR1", "USR2", "HUP", "INT", "QUIT", "TERM", "ALRM", "WINCH"] as const;

const signal = leaf<string, string>(
  {
    description: "Signal that tells every rank to write a checkpoint.",
    type: "string",
    enum: CHECKPOINT_SIGNALS.flatMap((name) => [name, `SIG${name}`]),
    examples: ["USR1"],
  },
  (value) => {
    const name = CHECKPOINT_SIGNALS.find((each) => value === each || value === `SIG${each}`);
    if (name !== undefined) return { kind: "read", value: `SIG${name}` };
    const shownValue = typeof value === "string" && /^[A-Z0-9]{1,20}$/.test(value) ? value : "this";
    return refused(
      `${shownValue} is not a signal for checkpoints`,
      `write one of ${CHECKPOINT_SIGNALS.join(", ")}`,
    );
  },
);

const checkpoint = z
  .strictObject({
    signal: signal.optional(),
    command: command.optional(),
    dir: absolutePath({
      description: "Where checkpoints live. Default: the agent's own folder of the job.",
      examples: ["/shared/checkpoints/resnet"],
    }).optional(),
    from: word(KEY, {
      description:
        "Id of an ended job: the job begins with its newest checkpoint in the agents' own folders, and on no host without one.",
      examples: ["train-7"],
    }).optional(),
    grace: duration({
      description: "Time that writing a checkpoint may take. Default: 1m.",
      examples: ["1m"],
    }).optional(),
    interval: duration({
      description: "The processes write one by themselves about this often.",
      examples: ["10m"],
    }).optional(),
  })
  .meta({
    description:
      "How the job is told to save its work: by `signal` or by `command`, one of the two.",
    examples: [{ signal: "USR1", grace: "1m" }],
  });

const run = z
  .strictObject({
    command: command.optional(),
    env: environment({
      description:
        "Variables of the processes. RANK, WORLD_SIZE, CUDA_VISIBLE_DEVICES, ORBWEAVER_* and the like are set by Orbweaver. A value `{ secret: file:/PATH }` (or `env:NAME`, `command:LINE`) is looked up by the host.",
      examples: [{ EPOCHS: "10" }, { TOKEN: { secret: "file:~/.config/token" } }],
    }).optional(),
    workdir: absolutePath({
      description:
        "Folder of the processes, as the hosts see it. Default: a scratch folder of the run.",
      examples: ["/home/me/project"],
    }).optional(),
    folder: folder.optional(),
    launch: choice(["per-gpu", "per-host"], {
      description:
        "One process for each GPU, or one for each host (as torchrun wants it). Default: per-gpu.",
    }).optional(),
    checkpoint: checkpoint.optional(),
    container: container.optional(),
    grace: duration({
      description:
        "When the job is stopped: time to end by itself, then TERM; the same time again, then KILL. Default: 30s.",
      isZeroAllowed: true,
    }).optional(),
  })
  .meta({
    description:
      "The processes of the job. Only an inference job with an ONNX model may be without.",
  });

const preemption = z
  .strictObject({
    allowed: flag(
      "Whether the job may be stopped for another one: it checkpoints, stops, and stands in line again. Default: true for training and interactive, false for inference.",
    ).optional(),
    shrink: flag(
      "Whether its GPUs above `gang.min` may be taken alone: it goes on with the rest. Default: false.",
    ).optional(),
    minRuntime: duration({
      description:
        "So long after its start nobody stops it. Default: 1m for training, 5m for interactive, 0s for inference.",
      examples: ["10m"],
      isZeroAllowed: true,
    }).optional(),
  })
  .meta({
    description: "What may be done to the job, once it runs, for the sake of another one.",
    examples: [{ allowed: true, shrink: true, minRuntime: "10m" }],
  });

export const jobSchema = z
  .strictObject({
    name: word(NAME, {
      description: "What people call the job; need not be unique.",
      examples: ["resnet50"],
    }),
    tenant: plainName("a tenant", {
      description: 'Whose quota and share. Default: "default".',
      examples: ["research"],
    }).optional(),
    class: choice(JOB_CLASSES, {
      description: "What kind of work; decides its place in the queue. Default: training.",
    }).optional(),
    priority: wholeNumber({
      min: -MAX_PRIORITY,
      max: MAX_PRIORITY,
      description: "Higher goes first inside a tenant. Default: 0.",
      examples: [0],
    }).optional(),
    labels: labelMap({
      description: "Words by which `list` and `cancel` find the job; they change nothing else.",
      examples: [{ team: "vision", sweep: "lr-7" }],
    }).optional(),
    group: groupName({
      description:
        "Jobs of one group are listed, shown and cancelled as one (`--group`). It is the label `group`.",
      examples: ["nightly-12"],
    }).optional(),
    idempotencyKey: word(KEY, {
      description:
        "The job's id. Submitting the same key again is answered with the first job; with another description it is an error.",
      examples: ["resnet50-seed7"],
    }).optional(),
    gang: z
      .union([gpuCount("Short for {gpus: …}."), gang])
      .meta({ description: "The GPUs that the job needs at once: a number, or a map." }),
    constraints: constraints.optional(),
    ...MODEL_KEYS,
    run: run.optional(),
    resources: resources.optional(),
    serve: serve.optional(),
    retry: z
      .strictObject({
        attempts: wholeNumber({
          min: 1,
          max: 100,
          description:
            "Runs in all, counting only failures of the job's own processes. Default: 1.",
          examples: [3],
        }).optional(),
        backoff: duration({
          description: "Pause before the next run. Default: 10s.",
          examples: ["10s"],
          isZeroAllowed: true,
        }).optional(),
      })
      .meta({ description: "Whether the job runs again after its processes failed." })
      .optional(),
    deadline: duration({
      description: "The job must have ended this long after it was submitted.",
      examples: ["2h"],
    }).optional(),
    timeLimit: duration({
      description: "One run may last this long; the clock starts with its processes.",
      examples: ["1h"],
    }).optional(),
    preemption: preemption.optional(),
    communication: z
      .strictObject({
        size: messageSize({
          description: "Size of the messages that take most of the time. Default: 16 MiB.",
          examples: ["256 MiB"],
        }).optional(),
        collective: choice(COLLECTIVES, {
          description:
            "The collective that takes most of the time, as nccl-tests names it. Default: all_reduce.",
        }).optional(),
      })
      .meta({
        description: "What the processes send: the job gets the GPUs that are fastest for it.",
        examples: [{ size: "256 MiB", collective: "all_gather" }],
      })
      .optional(),
    collectives: z
      .strictObject({
        tune: flag(
          "Whether NCCL's algorithm and protocol are tuned for this job, by what its steps take. Default: true.",
        ).optional(),
        overlap: flag(
          "Whether the job computes while it communicates, as data-parallel training does. Default: true.",
        ).optional(),
      })
      .meta({
        description: "How the job's collectives are run; left to NCCL without it.",
        examples: [{ tune: true, overlap: true }],
      })
      .optional(),
    fleets: z
      .array(plainName("a fleet", { description: "A fleet." }))
      .min(1)
      .max(MAX_FLEETS)
      .meta({
        description:
          "Other fleets that may run the job: one that has not placed it within `patience` is left for the next, round and round.",
        examples: [["eu", "us"]],
      })
      .optional(),
    patience: duration({
      description:
        "So long each of `fleets` is waited for before the next is asked; twice as long in every further round, up to 6h. Default: 2m.",
      examples: ["2m"],
    }).optional(),
    ...DEPENDENCY_KEYS,
    ...NOTICE_KEYS,
    hold: flag("Wait until released with `orbweaver release`. Default: false.").optional(),
    array: z
      .strictObject({
        count: wholeNumber({
          min: 1,
          max: MAX_TASKS,
          description: "Number of tasks; each finds its own, from 0 up, in ARRAY_INDEX.",
          examples: [1000],
        }),
        parallel: wholeNumber({
          min: 1,
          max: MAX_TASKS,
          description:
            "Tasks that may run at the same time. Default: as many as there is room for.",
          examples: [50],
        }).optional(),
        tasks: text({
          description:
            "Run only these tasks (`0-99:5`: every fifth); the others count as cancelled. Default: all.",
          maxLength: MAX_TASKS_CHARS,
          examples: ["3,7-9", "0-99:5"],
        }).optional(),
      })
      .meta({
        description:
          "Many tasks with one description: gang, retry and timeLimit are those of each task.",
      })
      .optional(),
  })
  .meta({
    title: "Orbweaver job",
    description: "A job as `orbweaver submit` takes it. Every quantity has its unit: 30s, 80 GiB.",
  });

/** A job as its author writes it. */
export type JobFile = z.input<typeof jobSchema>;
export type ReadJobFile = z.output<typeof jobSchema>;

/** For editors and for remedies. */
export const JOB_JSON_SCHEMA: JsonSchema = jsonSchemaOf(jobSchema);

/**
 * @file The schema of `fleet.yaml`: its keys, their values, and their descriptions for editors.
 *
 * Rules between keys are in `fleet-rules.ts`; `fleet-measured.ts` reads the named files. Unions are written with the plain form
 * first and the map second, as `schema-problems.ts` requires.
 */

import { z } from "zod";
import { accessSchema } from "./access-schema.ts";
import { jobNoticesSchema } from "./job-notices.ts";
import { keepSchema, tenantKeepSchema } from "./keep-schema.ts";
import { notifySchema } from "./notify-schema.ts";
import { policySchema } from "./policy-schema.ts";
import { gpuType, moment, plainName, readGpuType } from "../file/file-words.ts";
import { expandHosts, HOST_RANGE_PATTERN } from "../values/host-range.ts";
import { jsonSchemaOf, type JsonSchema } from "../file/json-schema.ts";
import { IDLE_ACTS, SILENCE_RULES } from "./fleet.ts";
import {
  choice,
  duration,
  flag,
  leaf,
  mapLeaf,
  positiveNumber,
  readWholeNumber,
  text,
  wholeNumber,
} from "../file/schema-leaf.ts";
import { latency, memory, power, price, rate, readText } from "../file/schema-leaf.ts";

/** GPU sets of a host are bit masks in which the sign bit and its neighbour stay free. */
const MAX_GPUS_PER_HOST = 30;
const MAX_GPUS = 100_000;
const MAX_CPUS = 100_000;
/** Windows travel with the fleet's state. */
const MAX_WINDOWS = 1_000;

const filePath = (description: string, example: string) =>
  text({ description, maxLength: 4096, examples: [example] });

export const gpuTypeSchema = z
  .strictObject({
    name: gpuType({ description: "Name of the type.", examples: ["MI300X"] }),
    memory: memory({ description: "Memory of one GPU.", examples: ["192 GiB"] }),
    watts: power({ description: "Draw of one busy GPU.", examples: ["750 W"] }),
  })
  .meta({ description: "A GPU type of your own, or a well-known one with other figures." });

export const hostSchema = z
  .strictObject({
    name: leaf<string, string>(
      {
        description: "Name of the host, or of several alike with ranges.",
        type: "string",
        pattern: `^${HOST_RANGE_PATTERN}$`,
        maxLength: 200,
        examples: ["h100-[26-29]", "node[001-016]"],
      },
      (value) => {
        const name = readText(value, 200);
        const names = name.kind === "read" ? expandHosts(name.value) : name;
        return names.kind === "read" ? name : names;
      },
    ),
    gpus: wholeNumber({
      min: 1,
      max: MAX_GPUS_PER_HOST,
      description: "Number of its GPUs.",
      examples: [8],
    }),
    type: gpuType({
      description: "Type of its GPUs: a well-known one such as H100, or one of `gpuTypes`.",
      examples: ["H100"],
    }),
    memory: memory({ description: "Memory of each GPU. Default: that of the type." }).optional(),
    watts: power({ description: "Draw of one busy GPU. Default: that of the type." }).optional(),
    cpus: positiveNumber({
      max: MAX_CPUS,
      description:
        "Processors of the host that jobs share, each GPU its part. Default: all that its agent finds.",
      examples: [96],
    }).optional(),
    hostMemory: memory({
      description:
        "Memory of the host, not of its GPUs, that jobs share, each GPU its part. Default: 15/16 of what its agent finds.",
      examples: ["960 GiB"],
    }).optional(),
    weights: memory({
      description:
        "Memory of the host for weights of ONNX models that were served there, kept for services to come; part of `hostMemory`, and none that jobs share. Default: half of what jobs do not share.",
      examples: ["32 GiB"],
      isZeroAllowed: true,
    }).optional(),
    rack: plainName("a rack", { description: "Rack of the host.", examples: ["r12"] }).optional(),
    devices: choice(["cpu"], {
      description:
        "Its GPUs stand for processors: ONNX models that Orbweaver serves run there. Default: they run on GPUs, by onnxruntime's CUDA provider.",
    }).optional(),
    topology: filePath(
      "File with the output of `nvidia-smi topo -m` on the host, or NCCL's topology XML, relative to this file.",
      "topology/h100.txt",
    ).optional(),
    bandwidth: z
      .union([
        filePath(
          "File with measured bandwidths, relative to this file: output of nccl-tests, or BandPilot's CSV.",
          "bandwidth/h100-26.txt",
        ),
        z.strictObject({
          file: filePath("The file, relative to this one.", "bandwidth/intra_host.csv"),
          host: text({
            description:
              "Which of the hosts in the file. Default: the only one, or the one of this name.",
            maxLength: 200,
            examples: ["H100_26"],
          }).optional(),
        }),
      ])
      .meta({ description: "Measured collective bandwidth of the host's GPU sets." })
      .optional(),
  })
  .meta({ description: "A host, or several alike." });

const budgets = (of: string) => ({
  power: power({
    description: `What all busy GPUs of the ${of} may draw together. Default: no limit.`,
    examples: ["40 kW"],
  }).optional(),
  cooling: power({
    description: `What the cooling of the ${of} can take away. Default: no limit.`,
    examples: ["40 kW"],
  }).optional(),
});

export const rackSchema = z
  .strictObject({
    name: plainName("a rack", { description: "A rack that hosts name.", examples: ["r12"] }),
    ...budgets("rack"),
  })
  .meta({ description: "Limits of one rack." });

export const siteSchema = z
  .strictObject({
    name: plainName("a site", {
      description: "A site that clusters name.",
      examples: ["frankfurt"],
    }),
    ...budgets("site"),
  })
  .meta({ description: "Limits over all clusters of one site." });

export const maintenanceSchema = z
  .strictObject({
    hosts: z
      .array(
        leaf<string, readonly string[]>(
          {
            description: "A host of this cluster, or several with ranges.",
            type: "string",
            pattern: `^${HOST_RANGE_PATTERN}$`,
            maxLength: 200,
            examples: ["h100-[26-27]"],
          },
          (value) => {
            const name = readText(value, 200);
            return name.kind === "read" ? expandHosts(name.value) : name;
          },
        ),
      )
      .min(1)
      .meta({ description: "Which hosts. Default: all of the cluster.", examples: [["h100-26"]] })
      .optional(),
    from: moment({ description: "When it begins.", examples: ["2030-05-04T06:00:00Z"] }),
    to: moment({ description: "When it is over.", examples: ["2030-05-04T10:00:00Z"] }),
    reason: text({
      description: "What is done, for people.",
      maxLength: 200,
      examples: ["new firmware"],
    }).optional(),
  })
  .meta({
    description:
      "Hosts that are to be empty for a time: no job starts there that might still run when it begins.",
  });

const overHostsPath = filePath(
  "File with measured bandwidths of GPU sets over several hosts, relative to this file: output of nccl-tests (all_reduce, all_gather, reduce_scatter), or BandPilot's CSV.",
  "bandwidth/inter_host.csv",
);

const overHostsMap = z.strictObject({
  file: filePath("The file, relative to this one.", "bandwidth/inter_host.csv"),
  hosts: z
    .array(text({ description: "A host of this cluster.", maxLength: 200 }))
    .min(1)
    .meta({
      description:
        "Which hosts of this cluster the file means: in the order of its columns, or in which the log names them.",
      examples: [["h100-26", "h100-27"]],
    })
    .optional(),
});

export const clusterSchema = z
  .strictObject({
    name: plainName("a cluster", { description: "Name of the cluster.", examples: ["eu-1"] }),
    site: plainName("a site", { description: "Where it stands.", examples: ["frankfurt"] }),
    jurisdiction: plainName("a jurisdiction", {
      description: "Whose law holds there; jobs may ask for it.",
      examples: ["EU"],
    }),
    fabric: z
      .strictObject({
        bandwidth: rate({
          description: "Bandwidth of one host's links into the fabric.",
          examples: ["400 Gbps"],
        }),
      })
      .meta({
        description:
          "The network that joins the hosts. Leave it out where there is none worth the name.",
      })
      .optional(),
    ...budgets("cluster"),
    simulated: flag(
      "Its GPUs are made up: one agent runs real processes for all its hosts. Default: false.",
    ).optional(),
    silence: duration({
      description:
        "A host whose agent has said nothing for this long is silent, and is offered no work. At least 1s. Default: 90s.",
      examples: ["90s"],
    }).optional(),
    fence: duration({
      description:
        "So long after a host fell silent its jobs go on elsewhere; its agent, cut off, has stopped them by then. At least `silence`. Default: 10m.",
      examples: ["10m"],
    }).optional(),
    onSilence: choice(SILENCE_RULES, {
      description:
        "What becomes of the jobs of a silent host: `fence` moves them after `fence`, `hold` lets them run on and grants nothing again before the host answers. Default: fence.",
      examples: ["hold"],
    }).optional(),
    hosts: z.array(hostSchema).min(1).meta({ description: "The hosts of the cluster." }),
    racks: z
      .array(rackSchema)
      .meta({ description: "Racks with limits of their own; others have none." })
      .optional(),
    maintenance: z
      .array(maintenanceSchema)
      .max(MAX_WINDOWS)
      .meta({ description: "Times in which hosts are to be empty." })
      .optional(),
    bandwidth: z
      .union([
        overHostsPath,
        overHostsMap,
        z
          .array(z.union([overHostsPath, overHostsMap]))
          .min(1)
          .meta({ description: "Several such files." }),
      ])
      .meta({ description: "Measured collective bandwidth between hosts." })
      .optional(),
  })
  .meta({ description: "Hosts behind one fabric in one site." });

const linkEnd = (description: string) =>
  plainName("a cluster", { description, examples: ["eu-1"] });

export const linkSchema = z
  .strictObject({
    between: z
      .array(linkEnd("A cluster."))
      .length(2)
      .meta({
        description: "Two clusters, for a link that is the same both ways.",
        examples: [["eu-1", "us-1"]],
      })
      .optional(),
    from: linkEnd("Cluster where the link begins, for one direction.").optional(),
    to: linkEnd("Cluster where the link ends.").optional(),
    bandwidth: rate({ description: "Bandwidth of the link.", examples: ["5 Gbps"] }),
    latency: latency({
      description: "Round-trip time of the link.",
      examples: ["84.9ms"],
      isZeroAllowed: true,
    }),
    price: price({
      description: "Price of what is sent over it. Default: none.",
      examples: ["0.02 USD/GB"],
      isZeroAllowed: true,
    }).optional(),
  })
  .meta({ description: "A link between two clusters: `between`, or `from` and `to`." });

/** What the console does about jobs that use none of their GPUs. */
const idleSchema = z
  .strictObject({
    after: duration({
      description:
        "So long none of the GPUs of a job was used (each by less than 5 %; looked at every ten seconds).",
      examples: ["30m"],
    }),
    then: choice(IDLE_ACTS, {
      description:
        "`warn` says so on the console's page; `notify` also tells those whom `notify:` names for `gpu-idle`; `suspend` also suspends the job: it writes a checkpoint, gives its GPUs back, and is held until it is released. Inference jobs are never suspended for it. Default: warn.",
      examples: ["notify"],
    }).optional(),
  })
  .meta({
    description:
      "What becomes of jobs that leave their GPUs idle. Only the file on the console's machine counts.",
  });

export const tenantSchema = z
  .strictObject({
    name: plainName("a tenant", { description: "Name of the tenant.", examples: ["research"] }),
    weight: positiveNumber({
      max: 1_000_000,
      description: "Its share against the other tenants. Default: 1.",
      examples: [1],
    }).optional(),
    quota: mapLeaf<number>(
      {
        description:
          'GPUs by type that are its own to hold; "*" means all types not named. What is not named is not limited.',
        examples: [{ H100: 16, "*": 8 }],
        additionalProperties: { type: "integer", minimum: 0, maximum: MAX_GPUS },
      },
      {
        readKey: (key) => (key === "*" ? { kind: "read", value: key } : readGpuType(key)),
        readValue: (value) => readWholeNumber(value, { min: 0, max: MAX_GPUS }),
      },
    ).optional(),
    borrowing: wholeNumber({
      min: 0,
      max: MAX_GPUS,
      description:
        "How many GPUs above its quota it may take while they are idle; they go back when a tenant inside its own quota wants them. Default: 0.",
      examples: [8],
    }).optional(),
    idle: idleSchema.optional(),
    keep: tenantKeepSchema.optional(),
  })
  .meta({ description: "Whose quota and share." });

export const fleetSchema = z
  .strictObject({
    name: plainName("a fleet", {
      description: 'Name of the fleet. Default: "default".',
      examples: ["default"],
    }).optional(),
    gpuTypes: z
      .array(gpuTypeSchema)
      .min(1)
      .meta({ description: "GPU types that are not well-known, or differ from what is known." })
      .optional(),
    clusters: z.array(clusterSchema).min(1).meta({ description: "The clusters of the fleet." }),
    sites: z
      .array(siteSchema)
      .meta({ description: "Sites with limits of their own; others have none." })
      .optional(),
    policy: policySchema.optional(),
    links: z.array(linkSchema).meta({ description: "Links between clusters." }).optional(),
    tenants: z
      .array(tenantSchema)
      .meta({
        description:
          "Tenants with a share or a quota of their own; others have weight 1 and no limit.",
      })
      .optional(),
    access: accessSchema.optional(),
    notify: notifySchema.optional(),
    jobNotices: jobNoticesSchema.optional(),
    keep: keepSchema.optional(),
  })
  .meta({
    title: "Orbweaver fleet",
    description:
      "Clusters, hosts, links and tenants. Every quantity has its unit: 80 GiB, 400 Gbps, 10 kW.",
  });

/** A fleet as its author writes it. */
export type FleetFile = z.input<typeof fleetSchema>;
export type HostEntry = z.input<typeof hostSchema>;

/** For editors and for remedies. */
export const FLEET_JSON_SCHEMA: JsonSchema = jsonSchemaOf(fleetSchema);

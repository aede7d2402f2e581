/**
 * @file Whose jobs a host starts: those of its agent's own user, those that its policy file names, or those of everybody in the namespace.
 *
 * A policy file belongs to root (or to the agent's user) and nobody else may write it. It names submitters by their public keys and, of
 * each, tenants; and it limits commands and environment for all. What it does not name is refused.
 */

import { parse } from "yaml";
import { z } from "zod";
import { IMAGE_RUNTIMES, type ImageRule, type ImageRuntime } from "../domain/job/job-image.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { parseSecret } from "../domain/job/job-secret.ts";
import type { ProvenSubmitter } from "./job-proof.ts";
import { readOwnedFile } from "./owned-file.ts";
import { parsePublicKey } from "./own-identity.ts";
import { MOST_OPEN_FILES, type ProcessLimits } from "./run-as.ts";

export type HostTrust =
  | { readonly kind: "own-user"; readonly publicKey: string; readonly name: string }
  | { readonly kind: "policy"; readonly file: string; readonly policy: HostPolicy }
  | { readonly kind: "namespace" };

export interface HostPolicy {
  readonly submitters: readonly {
    readonly name: string;
    readonly key: string;
    /** All when absent. */
    readonly tenants?: readonly string[];
  }[];
  /** First words of a command; one that ends in a slash allows all that begins with it. All when absent. */
  readonly commands?: readonly string[];
  /** Names in `env` that a job may not set, beside those that change which code a program loads. */
  readonly deniedEnv: readonly string[];
  /** Which images may be started, by which runtimes, and what they may see of the host; none when absent. */
  readonly containers?: ContainerPolicy;
  /** Which user of the host runs a tenant's jobs; `*` stands for every other tenant. */
  readonly users?: Readonly<Record<string, string>>;
  /**
   * References to secrets that the jobs of a tenant may name; `*` stands for every other tenant. A file that ends in a slash allows all that lies
   * below it.
   */
  readonly secrets: Readonly<Record<string, readonly string[]>>;
  readonly limits: ProcessLimits;
  /** Public keys of those who may read every job's output. */
  readonly operators: readonly string[];
  /** Public keys of the fleet whose tickets count; those of the agent's own user when absent. */
  readonly fleetKeys?: readonly string[];
}

export interface ContainerPolicy {
  /** Every runtime when absent. */
  readonly runtimes?: readonly ImageRuntime[];
  /** Each an image, or what its name begins with where it ends in a slash. */
  readonly images: readonly string[];
  /** Each a path, or a folder with what is in it where it ends in a slash. */
  readonly mounts: readonly PolicyMount[];
}

export interface PolicyMount {
  readonly source: string;
  readonly isWritable: boolean;
}

/** What a policy judges of an order. */
export interface PolicyQuestion {
  readonly tenant: string;
  readonly command: readonly string[];
  /** Run beside the processes to make them write a checkpoint. */
  readonly checkpointCommand?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** References by the names of their variables. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** In which the processes are to run. */
  readonly image?: ImageRule;
  /** Folders of the host that the job names for its processes and checkpoints: mounted in the image for writing. */
  readonly folders?: readonly string[];
  /** The user that the agent runs as. */
  readonly agent: { readonly name: string; readonly isRoot: boolean };
}

/** Each makes the dynamic linker, a shell or an interpreter run code that the command does not name. */
export const LOADER_VARIABLES = [
  "LD_PRELOAD",
  "LD_LIBRARY_PATH",
  "LD_AUDIT",
  "BASH_ENV",
  "ENV",
  "NODE_OPTIONS",
  "PERL5OPT",
  "PYTHONSTARTUP",
  "RUBYOPT",
  "GCONV_PATH",
  "LOCPATH",
  "NLSPATH",
  "HOSTALIASES",
  "SHELLOPTS",
  "PS4",
] as const;
/**
 * Where a policy names commands, these are denied, too: each changes which program a plain name is, or where interpreters, runtimes and libraries of
 * GPUs look for code. Programs without such a wall may set them.
 */
export const SEARCH_VARIABLES = [
  "PATH",
  "HOME",
  "CLASSPATH",
  "GEM_HOME",
  "GEM_PATH",
  "JAVA_TOOL_OPTIONS",
  "JDK_JAVA_OPTIONS",
  "_JAVA_OPTIONS",
  "JULIA_DEPOT_PATH",
  "JULIA_LOAD_PATH",
  "LUA_CPATH",
  "LUA_INIT",
  "LUA_PATH",
  "NODE_PATH",
  "OPENSSL_CONF",
  "OPENSSL_ENGINES",
  "OPENSSL_MODULES",
  "PERL5DB",
  "PERL5LIB",
  "PERLLIB",
  "PYTHONBREAKPOINT",
  "PYTHONHOME",
  "PYTHONPATH",
  "PYTHONPLATLIBDIR",
  "PYTHONPYCACHEPREFIX",
  "PYTHONUSERBASE",
  "PYTHONWARNINGS",
  "RUBYLIB",
  "R_ENVIRON",
  "R_ENVIRON_USER",
  "R_LIBS",
  "R_LIBS_SITE",
  "R_LIBS_USER",
  "R_PROFILE",
  "R_PROFILE_USER",
  "ZDOTDIR",
] as const;
/** Libraries that drivers of GPUs and of networks, collectives and OpenMP load by a variable, or by a file that it names; Lua's names by its version. */
const LOADED_BY_DRIVERS = new RegExp(
  [
    String.raw`^(?:\w+_INJECTION(?:32|64)_PATH|OCL_ICD_\w+|VK_\w+|__EGL_\w+|(?:LIBGL|LIBVA)_DRIVERS_PATH`,
    String.raw`NCCL_\w+_PLUGIN|NCCL_CONF_FILE|HSA_TOOLS_LIB|OMP_TOOL_LIBRARIES|UCX_MODULE_DIR|FI_PROVIDER_PATH`,
    String.raw`(?:RDMAV|IBV)_DRIVERS|OPAL_PREFIX|LUA_(?:INIT|C?PATH)_\d_\d|(?:OMPI|PMIX|PRTE)_MCA_(?:mca_base_component_path|plm_\w+_agent))$`,
  ].join("|"),
);
/** With a `=` in it, a name sets the variable before that. Who submits with a client of their own has passed no reader of job files. */
const PLAIN_VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** The dynamic linker, libc and bash obey more such names than a list could hold. */
const LOADER_PREFIXES = ["LD_", "GLIBC_", "MALLOC_", "BASH"] as const;
/** What begins so configures the tools that start images, and what these mount. */
const RUNTIME_VARIABLES =
  /^(APPTAINER|APPTAINERENV|SINGULARITY|SINGULARITYENV|ENROOT|DOCKER|CONTAINERS?|BUILDAH|PODMAN|XDG)_/;
/** Enough for data loaders of eight ranks; far from what makes a host unusable. */
const DEFAULT_LIMITS: ProcessLimits = Object.freeze({
  processes: 32_768,
  openFiles: MOST_OPEN_FILES,
});

const FOLDER = /^(file:.*)\/$/;

const publicKey = z.string().refine((text) => parsePublicKey(text) !== undefined, {
  error:
    "no public key; `orbweaver keys identity` prints a user's, `orbweaver keys fleet` the fleet's",
});

/** A reference, or a folder of files. */
const secretRule = z
  .string()
  .refine((rule) => parseSecret(rule.replace(FOLDER, "$1/any")).kind === "read", {
    error: "no file:/PATH, file:/FOLDER/, env:NAME or command:LINE",
  });

/** `/data/`, read-only unless `:rw` follows. */
const policyMount = z
  .string()
  .regex(/^\/[^:]*(:r[ow])?$/, { error: "no whole path; write /data/ or /scratch/:rw" })
  .transform((text): PolicyMount => ({
    source: text.replace(/:r[ow]$/, ""),
    isWritable: text.endsWith(":rw"),
  }));

const policySchema = z.strictObject({
  submitters: z
    .array(
      z.strictObject({
        name: z.string().min(1).max(64),
        key: publicKey,
        tenants: z.array(z.string().min(1)).exactOptional(),
      }),
    )
    .default([]),
  commands: z.array(z.string().min(1)).exactOptional(),
  deniedEnv: z.array(z.string().min(1)).default([]),
  containers: z
    .strictObject({
      runtimes: z.array(z.enum(IMAGE_RUNTIMES)).exactOptional(),
      images: z.array(z.string().min(1)).default([]),
      mounts: z.array(policyMount).default([]),
    })
    .exactOptional(),
  users: z.record(z.string(), z.string().regex(/^[a-z_][a-z0-9_.-]*$/)).exactOptional(),
  secrets: z.record(z.string(), z.array(secretRule)).default({}),
  limits: z
    .strictObject({
      processes: z.number().int().min(1).default(DEFAULT_LIMITS.processes),
      openFiles: z.number().int().min(16).default(DEFAULT_LIMITS.openFiles),
    })
    .default(DEFAULT_LIMITS),
  operators: z.array(publicKey).default([]),
  fleetKeys: z.array(publicKey).exactOptional(),
});

/** Throws BAD_INPUT when the file is missing or wrong, or when others may write it. */
export function readHostPolicy(file: string): HostPolicy {
  const wrong = (why: string): OrbweaverError =>
    new OrbweaverError("BAD_INPUT", `the host policy ${file} cannot be used: ${why}`);
  let text: string;
  try {
    text = readOwnedFile(file);
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  const parsed = policySchema.safeParse(value ?? {});
  if (!parsed.success) throw wrong(z.prettifyError(parsed.error));
  return parsed.data;
}

/** Why a host with this trust does not start what a proven submitter asks for; undefined when it does. */
export function trustRefusal(
  trust: Exclude<HostTrust, { readonly kind: "namespace" }>,
  by: ProvenSubmitter,
  question: PolicyQuestion,
): string | undefined {
  if (trust.kind === "own-user") {
    if (by.publicKey === trust.publicKey) return undefined;
    return `it runs only jobs of its own user ${trust.name}, and ${by.name} (${by.publicKey}) has signed this one. Name that key in a host policy (--policy), or start the fleet with --trust namespace.`;
  }
  const { policy, file } = trust;
  const found = policy.submitters.find(({ key }) => key === by.publicKey);
  if (found === undefined) return `${file} names no submitter with the key ${by.publicKey}`;
  const { tenants } = found;
  if (tenants !== undefined && !tenants.includes(question.tenant))
    return `${file} lets ${found.name} submit for ${tenants.join(", ") || "no tenant"}, not for ${question.tenant}`;
  return userRefusal(policy, file, question) ?? contentRefusal(policy, file, question);
}

/** The user of the host that runs a tenant's jobs. */
export function userOfTenant({ users }: HostPolicy, tenant: string): string | undefined {
  if (users === undefined) return undefined;
  return Object.hasOwn(users, tenant) ? users[tenant] : users["*"];
}

/** Root runs jobs only as users whom its policy names, be it root; another agent cannot become anybody else. */
function userRefusal(
  policy: HostPolicy,
  file: string,
  { tenant, agent }: PolicyQuestion,
): string | undefined {
  const user = userOfTenant(policy, tenant);
  if (user === undefined)
    return agent.isRoot || policy.users !== undefined
      ? `${file} names no user of this host for tenant ${tenant} (users)`
      : undefined;
  return agent.isRoot || user === agent.name
    ? undefined
    : `${file} has the jobs of ${tenant} run as ${user}, and this agent runs as ${agent.name}: only one of root can become another user`;
}

function contentRefusal(
  policy: HostPolicy,
  file: string,
  question: PolicyQuestion,
): string | undefined {
  const { command, checkpointCommand, env } = question;
  const { deniedEnv } = policy;
  const programs = [command, ...(checkpointCommand === undefined ? [] : [checkpointCommand])];
  for (const program of programs) {
    const refusal = commandRefusal({ kind: "policy", policy, file }, program);
    if (refusal !== undefined) return refusal;
  }
  const { secrets = {} } = question;
  const secret = Object.values(secrets).find(
    (reference) => !mayName(policy, question.tenant, reference),
  );
  if (secret !== undefined)
    return `${file} names no secret ${JSON.stringify(secret)} for tenant ${question.tenant} (secrets)`;
  const refused =
    question.image && imageRefusal(policy, file, { ...question, image: question.image });
  if (refused !== undefined) return refused;
  const isWalled = policy.commands !== undefined;
  const denied = new Set<string>([
    ...LOADER_VARIABLES,
    ...deniedEnv,
    ...(isWalled ? SEARCH_VARIABLES : []),
  ]);
  const name = [...Object.keys(env), ...Object.keys(secrets)].find(
    (variable) =>
      !PLAIN_VARIABLE.test(variable) ||
      denied.has(variable) ||
      LOADER_PREFIXES.some((prefix) => variable.startsWith(prefix)) ||
      (isWalled && LOADED_BY_DRIVERS.test(variable)),
  );
  return name === undefined
    ? undefined
    : `${file} denies the environment variable ${JSON.stringify(name)}`;
}

function mayName({ secrets }: HostPolicy, tenant: string, reference: string): boolean {
  const rules = Object.hasOwn(secrets, tenant) ? secrets[tenant] : secrets["*"];
  return rules?.some((rule) => isNamed(reference, rule)) === true;
}

/** Only a folder stands for more than itself: a line that begins with an allowed one may go on to anything. */
const isNamed = (reference: string, rule: string): boolean =>
  FOLDER.test(rule) ? isAllowed(reference, rule) : reference === rule;

function imageRefusal(
  { containers }: HostPolicy,
  file: string,
  { image: rule, folders = [], env, secrets = {} }: PolicyQuestion & { readonly image: ImageRule },
): string | undefined {
  const { image, runtime } = rule;
  if (containers === undefined) return `${file} allows no images (containers)`;
  const { runtimes, images, mounts: open } = containers;
  if (runtimes !== undefined && runtime !== "auto" && !runtimes.includes(runtime))
    return `${file} does not allow the runtime ${runtime}; it allows ${runtimes.join(", ")}`;
  if (!images.some((allowed) => isAllowed(image, allowed)))
    return `${file} does not allow the image ${image}`;
  const variable = [...Object.keys(env), ...Object.keys(secrets)].find((name) =>
    RUNTIME_VARIABLES.test(name),
  );
  if (variable !== undefined)
    return `${file} denies the environment variable ${variable}: it configures what starts the image`;
  const mounts = [...rule.mounts, ...folders.map((source) => ({ source, isReadOnly: false }))];
  const closed = mounts.find(
    ({ source, isReadOnly }) =>
      !open.some((each) => isOpen(source, each) && (isReadOnly || each.isWritable)),
  );
  if (closed === undefined) return undefined;
  const isReadable = open.some((each) => isOpen(closed.source, each));
  return `${file} does not allow the mount ${closed.source}${isReadable ? " for writing; mount it with :ro" : ""}`;
}

/** A folder is in itself. */
const isOpen = (path: string, { source }: PolicyMount): boolean =>
  isAllowed(path, source) || isAllowed(`${path}/`, source);

/** Why a policy does not let this program be started beside a job; undefined when it does. */
export function commandRefusal(
  { policy: { commands }, file }: Extract<HostTrust, { readonly kind: "policy" }>,
  [program = ""]: readonly string[],
): string | undefined {
  return commands?.some((allowed) => isAllowed(program, allowed)) === false
    ? `${file} does not allow the command ${JSON.stringify(program)}`
    : undefined;
}

/** A path with `..` may leave the folder that it begins with. */
const isAllowed = (program: string, allowed: string): boolean =>
  allowed.endsWith("/")
    ? program.startsWith(allowed) && !program.split("/").includes("..")
    : program === allowed;

/**
 * @file The schema of `access:` in a fleet file: who may do what through `orbweaver api`. Rules between its entries are in `access-rules.ts`.
 */

import { z } from "zod";
import { gpuType, plainName } from "../file/file-words.ts";
import { choice, leaf, refused, text, wholeNumber } from "../file/schema-leaf.ts";
import { JOB_CLASSES } from "../job/job.ts";
import { shown } from "../values/file-problem.ts";

/** `user`: submits, and changes its own jobs. `viewer`: sees all jobs. `operator`: changes all jobs. */
export const ROLES = ["user", "viewer", "operator"] as const;
export type Role = (typeof ROLES)[number];

/** `own`: a user's role covers the jobs that it has submitted. `tenant`: all jobs of the tenants that it names. */
export const JOB_REACHES = ["own", "tenant"] as const;

/** In `to`: every principal. */
export const EVERYBODY = "*";
const MOST_ENTRIES = 10_000;
/** The proofs of jobs have room for no longer name. */
const MAX_PRINCIPAL_CHARS = 64;
const MOST_KEYS = 8;

const names = (what: string, description: string, example: readonly string[]) =>
  z
    .array(plainName(what, { description: "A name." }))
    .min(1)
    .meta({ description, examples: [example] });

export const principalSchema = z
  .strictObject({
    name: plainName("a principal", {
      description: "The name by which jobs, lists and the audit know this user.",
      maxLength: MAX_PRINCIPAL_CHARS,
      examples: ["ada"],
    }),
    user: text({
      description:
        "A user of the machine where `orbweaver api` runs. It gets a socket of its own there.",
      maxLength: 64,
      examples: ["ada"],
    }).optional(),
    subject: text({
      description: "The subject (`sub`) of this user's tokens.",
      maxLength: 255,
      examples: ["ada@example.org"],
    }).optional(),
    issuer: plainName("an issuer", {
      description: "Which of `issuers` makes those tokens.",
      examples: ["company"],
    }).optional(),
    certificate: text({
      description:
        "A name in this user's client certificates: the whole subject, as CN=ada,O=Example, or one alternative name, as email:ada@example.org, URI:… or DNS:….",
      maxLength: 400,
      examples: ["URI:spiffe://example.org/ada"],
    }).optional(),
  })
  .meta({
    description:
      "A user, known by a user of the machine, by a token's subject, by a client certificate, or by several of them.",
  });

export const groupSchema = z
  .strictObject({
    name: plainName("a group", { description: "Name of the group.", examples: ["vision"] }),
    members: names("a principal", "Principals. Default: only those whose tokens name the group.", [
      "ada",
    ]).optional(),
  })
  .meta({ description: "Several principals." });

const grantee = leaf<string, string>(
  {
    description: "A principal, a group, or * for everybody who is known.",
    type: "string",
    maxLength: 100,
    examples: ["vision"],
  },
  (value) =>
    typeof value === "string" && /^(?:\*|[A-Za-z0-9][A-Za-z0-9._-]{0,99})$/.test(value)
      ? { kind: "read", value }
      : refused(`${shown(value)} is no name`, "name a principal or a group, or write *"),
);

export const grantSchema = z
  .strictObject({
    to: z
      .array(grantee)
      .min(1)
      .meta({ description: "To whom.", examples: [["vision"]] }),
    role: choice(ROLES, {
      description:
        "`user` submits for some tenants and changes jobs; `viewer` sees all jobs and changes none; `operator` changes all jobs, and drains and fences hosts.",
      examples: ["user"],
    }),
    tenants: names("a tenant", "Of a user: the tenants for which it may submit.", [
      "research",
    ]).optional(),
    jobs: choice(JOB_REACHES, {
      description:
        "Of a user: whether it sees and changes only its own jobs, or all jobs of its tenants. Default: own.",
      examples: ["tenant"],
    }).optional(),
    classes: z
      .array(choice(JOB_CLASSES, { description: "A class." }))
      .min(1)
      .meta({
        description: "Of a user: the classes that it may ask for. Default: all.",
        examples: [["training", "interactive"]],
      })
      .optional(),
    priority: wholeNumber({
      min: -1_000,
      max: 1_000,
      description: "Of a user: the highest priority that it may ask for. Default: any.",
      examples: [0],
    }).optional(),
    gpuTypes: z
      .array(gpuType({ description: "A type of GPU." }))
      .min(1)
      .meta({
        description:
          "Of a user: the types of GPU that its jobs may run on; they have to name them. Default: all.",
        examples: [["L4"]],
      })
      .optional(),
  })
  .meta({ description: "A role, and to whom it is given." });

const PUBLIC_KEY =
  /^(?:ed25519:[A-Za-z0-9_-]{43}|-----BEGIN PUBLIC KEY-----[\s\S]+-----END PUBLIC KEY-----\s*)$/;

const issuerKey = leaf<string, string>(
  {
    description: "A public key: `ed25519:…`, or the PEM text of one for EdDSA, RS256 or ES256.",
    type: "string",
    maxLength: 4_096,
  },
  (value) =>
    typeof value === "string" && PUBLIC_KEY.test(value)
      ? { kind: "read", value }
      : refused(
          "it is no public key",
          "write ed25519:…, or the PEM text that begins with -----BEGIN PUBLIC KEY-----",
        ),
);

export const issuerSchema = z
  .strictObject({
    name: plainName("an issuer", { description: "Its name in this file.", examples: ["company"] }),
    issuer: text({
      description: "What its tokens say in `iss`.",
      maxLength: 400,
      examples: ["https://login.example.org"],
    }),
    audience: text({
      description: "What its tokens for this fleet say in `aud`.",
      maxLength: 400,
      examples: ["orbweaver"],
    }),
    jwks: text({
      description: "Where its public keys are (JSON Web Key Set).",
      maxLength: 2_000,
      examples: ["https://login.example.org/keys"],
    }).optional(),
    keys: z
      .array(issuerKey)
      .min(1)
      .max(MOST_KEYS)
      .meta({ description: "Its public keys, instead of `jwks`." })
      .optional(),
    groups: text({
      description: "The claim that lists a user's groups. Default: none is read.",
      maxLength: 100,
      examples: ["groups"],
    }).optional(),
  })
  .meta({ description: "Who makes tokens that are believed." });

const list = <Schema extends z.ZodType>(schema: Schema, description: string) =>
  z.array(schema).max(MOST_ENTRIES).meta({ description }).optional();

export const accessSchema = z
  .strictObject({
    principals: list(principalSchema, "The users."),
    groups: list(groupSchema, "Groups of users."),
    grants: list(grantSchema, "Who may do what."),
    issuers: list(issuerSchema, "Whose tokens are believed."),
  })
  .meta({
    description:
      "Who may do what through `orbweaver api`. Only the file on the machine where that runs counts.",
  });

export type Access = z.output<typeof accessSchema>;
export type Grant = z.output<typeof grantSchema>;
export type Issuer = z.output<typeof issuerSchema>;
export type PrincipalEntry = z.output<typeof principalSchema>;

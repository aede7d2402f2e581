/**
 * @file Parses inbox entries from any sender: the entry, or the reason of its refusal.
 *
 * Written by hand, because it runs inside the fleet workflow. Unknown fields are left out, so they do not enter the ledger. Never throws.
 * Cost: O(size of the entry). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { RefusalCode } from "../../domain/values/codes.ts";
import { MAX_REQUEST_ENTRY_BYTES } from "../../domain/lease/gang-request.ts";
import {
  byCodeUnit,
  clusterId,
  jobId,
  leaseId,
  parseHostId,
  runId,
  tenantId,
  token,
} from "../../domain/values/ids.ts";
import type { HostId, LeaseId } from "../../domain/values/ids.ts";
import {
  JOB_CLASSES,
  MAX_REPLACE_MS,
  type JobClass,
  type PreemptionRule,
} from "../../domain/job/job.ts";
import type {
  CheckpointTerms,
  GangRequest,
  HostGpus,
  LeaseFact,
} from "../../domain/lease/lease.ts";
import type { MeasuredRate, SiteLink } from "../../domain/fleet/site-link.ts";
import { gbps, ms } from "../../domain/values/units.ts";
import { jsonSizeUpTo, jsonStart, MAX_JSON_DEPTH } from "../../lib/json-size.ts";
import { utf8Length } from "../../lib/utf8.ts";
import { DEAD_LETTER_CHARACTERS } from "./rules/dead-letters.ts";
import {
  amount,
  count,
  field,
  flag,
  id,
  jsonOf,
  list,
  MAX_TOLD,
  optional,
  optionally,
  text,
  wrong,
  type Incoming,
} from "./json-fields.ts";
import { parseConstraints, parseGang, parseResources } from "./gang-fields.ts";
import { parseLobbyReport, parsePlace } from "./lobby-fields.ts";
import type { AgentAddress, InboxEntry } from "../../domain/lease/inbox-entry.ts";
import {
  BOUNDED_RULES,
  KEPT_AFTER_LOSS_RULES,
  NEWEST_RULES,
  ORDERED_PRESENCE_RULES,
  REPLACED_HOSTS_RULES,
} from "./ledger.ts";
import { isFields } from "../../lib/fields.ts";

/** No entry is larger than a batch may be. */
export const MAX_ENTRY_BYTES = 256 * 1024;
/** Of the first rules, which took lease ids above it for the id of this one. */
const CLAMPED_TOKEN = 2 ** 52;
/** What is larger is not even written as JSON; its bytes are counted without escapes, so the exact limits come after it. */
const SCREENED_BYTES = 2 * MAX_ENTRY_BYTES;
const MAX_SLOTS = 1_000_000;
/** Of 30 GPUs. */
const MAX_MASK = 2 ** 30 - 1;

export type ReadEntry =
  | { readonly kind: "read"; readonly entry: InboxEntry; readonly json: string }
  | {
      readonly kind: "refused";
      readonly code: RefusalCode;
      readonly message: string;
      readonly json: string;
    };

/** Above it numbers are not exact. */
const mostToken = ({ rules }: Incoming): number =>
  rules >= BOUNDED_RULES ? Number.MAX_SAFE_INTEGER - 1 : CLAMPED_TOKEN;

/** `rules`: the version of the fleet's rules. */
export function readEntry(value: unknown, rules: number = NEWEST_RULES): ReadEntry {
  if (rules >= BOUNDED_RULES && jsonSizeUpTo(value, SCREENED_BYTES) > SCREENED_BYTES) {
    const message = `an inbox entry has more than ${SCREENED_BYTES} bytes, or nests more than ${MAX_JSON_DEPTH} levels deep`;
    return refused("EntryTooLarge", message, jsonStart(value, DEAD_LETTER_CHARACTERS));
  }
  const json = jsonOf(value);
  if (json === undefined) return refused("EntryMalformed", "an inbox entry is no JSON value", "");
  const isRequest = isFields(value) && value["kind"] === "request";
  const mostBytes = isRequest ? MAX_REQUEST_ENTRY_BYTES : MAX_ENTRY_BYTES;
  const bytes = utf8Length(json);
  if (bytes > mostBytes) {
    return refused(
      "EntryTooLarge",
      `an inbox entry has ${bytes} bytes; at most ${mostBytes} are read`,
      json,
    );
  }
  const problems: string[] = [];
  const entry = parseEntry({ value, path: "entry", problems, rules });
  return entry === undefined || problems.length > 0
    ? refused(
        "EntryMalformed",
        `an inbox entry is wrong: ${problems.slice(0, MAX_TOLD).join("; ")}`,
        json,
      )
    : { kind: "read", entry, json };
}

const refused = (code: RefusalCode, message: string, json: string): ReadEntry => ({
  kind: "refused",
  code,
  message,
  json,
});

function parseEntry(entry: Incoming): InboxEntry | undefined {
  const { rules } = entry;
  const kind = field(entry, "kind").value;
  if (kind === "lobby" && rules >= BOUNDED_RULES) return { kind, ...parseLobbyReport(entry) };
  switch (kind) {
    case "request": {
      const request = parseRequest(field(entry, "request"));
      return rules >= BOUNDED_RULES
        ? { kind, request: { ...request, ...parsePlace(field(entry, "request")) } }
        : { kind, request };
    }
    case "end":
      return {
        kind,
        jobId: jobId(id(field(entry, "jobId"))),
        runId: runId(id(field(entry, "runId"))),
        seq: count(field(entry, "seq"), 0),
        unconfirmedHosts:
          field(entry, "unconfirmedHosts").value === "all"
            ? "all"
            : hosts(field(entry, "unconfirmedHosts")),
        ...optionally("lease", optional(field(entry, "lease"), leaseIdOf)),
        ...(rules >= BOUNDED_RULES &&
          optional(field(entry, "returns"), flag) === true && { returns: true as const }),
        ...(rules >= REPLACED_HOSTS_RULES &&
          optionally(
            "keepMs",
            optional(field(entry, "keepMs"), (each) => count(each, 0, MAX_REPLACE_MS)),
          )),
        ...(rules >= KEPT_AFTER_LOSS_RULES &&
          optionally("kept", optional(field(entry, "kept"), parseGpus))),
      };
    case "assert":
      return { kind, lease: parseFact(field(entry, "lease")) };
    case "agent-registered":
      return {
        kind,
        hosts: hosts(field(entry, "hosts")),
        agent: parseAgent(field(entry, "agent")),
        running: list(field(entry, "running"), (each) => ({
          host: parseHostId(id(field(each, "host"))),
          lease: leaseIdOf(field(each, "lease")),
          token: token(count(field(each, "token"), 0)),
          ...optionally("fact", optional(field(each, "fact"), parseFact)),
        })),
        highestToken: count(field(entry, "highestToken"), 0, mostToken(entry)),
        ...optionally(
          "terms",
          optional(field(entry, "terms"), (terms) =>
            optionally(
              "fenceMs",
              optional(field(terms, "fenceMs"), (each) => amount(each)),
            ),
          ),
        ),
        ...parseTold(entry),
      };
    case "silence":
    case "agent-deregistered":
      return {
        kind,
        hosts: hosts(field(entry, "hosts")),
        epoch: id(field(entry, "epoch")),
        ...parseTold(entry),
      };
    case "checkpointed":
      return {
        kind,
        marks: list(field(entry, "marks"), (each) => ({
          lease: leaseIdOf(field(each, "lease")),
          atMs: amount(field(each, "atMs")),
        })),
      };
    case "model":
      return {
        kind,
        cluster: clusterId(id(field(entry, "cluster"))),
        version: id(field(entry, "version")),
        generation: count(field(entry, "generation"), 1),
      };
    case "links":
      return { kind, links: list(field(entry, "links"), parseSiteLink) };
    case "vacated":
      return {
        kind,
        lease: leaseIdOf(field(entry, "lease")),
        hosts: hosts(field(entry, "hosts")),
      };
    default:
      wrong(
        field(entry, "kind"),
        rules >= BOUNDED_RULES
          ? "request, end, assert, agent-registered, agent-deregistered, silence, checkpointed, model, links, vacated or lobby"
          : "request, end, assert, agent-registered, agent-deregistered, silence, checkpointed, model, links or vacated",
      );
      return undefined;
  }
}

const parseTold = (of: Incoming): { readonly toldAtMs?: number } =>
  of.rules < ORDERED_PRESENCE_RULES
    ? {}
    : optionally(
        "toldAtMs",
        optional(field(of, "toldAtMs"), (each) => amount(each)),
      );

function parseSiteLink(of: Incoming): SiteLink {
  const checkedAtMs = amount(field(of, "checkedAtMs"));
  return {
    from: id(field(of, "from")),
    to: id(field(of, "to")),
    checkedAtMs,
    validUntilMs: amount(field(of, "validUntilMs"), checkedAtMs),
    ...optionally("measured", optional(field(of, "measured"), parseRate)),
    ...optionally(
      "outageSinceMs",
      optional(field(of, "outageSinceMs"), (each) => amount(each)),
    ),
    ...(optional(field(of, "isLocal"), flag) === true && { isLocal: true as const }),
  };
}

const parseRate = (of: Incoming): MeasuredRate => ({
  bandwidthGbps: gbps(amount(field(of, "bandwidthGbps"))),
  spreadGbps: gbps(amount(field(of, "spreadGbps"))),
  roundTripMs: ms(amount(field(of, "roundTripMs"))),
  atMs: amount(field(of, "atMs")),
  probes: count(field(of, "probes"), 1),
});

function parseRequest(of: Incoming): GangRequest {
  const timeLimitMs = optional(field(of, "timeLimitMs"), (each) => ms(amount(each)));
  const avoidHosts = optional(field(of, "avoidHosts"), hosts);
  return {
    jobId: jobId(id(field(of, "jobId"))),
    runId: runId(id(field(of, "runId"))),
    seq: count(field(of, "seq"), 0),
    name: text(field(of, "name")),
    tenant: tenantId(id(field(of, "tenant"))),
    class: jobClass(field(of, "class")),
    priority: amount(field(of, "priority"), -Infinity),
    gang: parseGang(field(of, "gang")),
    constraints: parseConstraints(field(of, "constraints")),
    submittedAtMs: amount(field(of, "submittedAtMs")),
    requestedAtMs: amount(field(of, "requestedAtMs")),
    ...(timeLimitMs !== undefined && { timeLimitMs }),
    ...(avoidHosts !== undefined && { avoidHosts }),
    ...optionally(
      "slots",
      optional(field(of, "slots"), (each) => count(each, 0, MAX_SLOTS)),
    ),
    ...optionally("preemption", optional(field(of, "preemption"), parsePreemption)),
    ...optionally("checkpoint", optional(field(of, "checkpoint"), parseCheckpoint)),
    ...optionally(
      "patienceMs",
      optional(field(of, "patienceMs"), (each) => ms(amount(each))),
    ),
  };
}

const parsePreemption = (of: Incoming): PreemptionRule => ({
  isPreemptible: flag(field(of, "isPreemptible")),
  mayShrink: flag(field(of, "mayShrink")),
  minRuntimeMs: ms(amount(field(of, "minRuntimeMs"))),
});

const parseCheckpoint = (of: Incoming): CheckpointTerms => ({
  graceMs: ms(amount(field(of, "graceMs"))),
  ...optionally(
    "intervalMs",
    optional(field(of, "intervalMs"), (each) => ms(amount(each))),
  ),
});

function parseFact(of: Incoming): LeaseFact {
  const own = token(count(field(of, "token"), 0, mostToken(of)));
  if (leaseIdOf(field(of, "id")) !== leaseId(own)) wrong(field(of, "id"), `the id of token ${own}`);
  const gpus = parseGpus(field(of, "gpus"));
  return {
    id: leaseId(own),
    token: own,
    jobId: jobId(id(field(of, "jobId"))),
    runId: runId(id(field(of, "runId"))),
    seq: count(field(of, "seq"), 0),
    class: jobClass(field(of, "class")),
    tenant: tenantId(id(field(of, "tenant"))),
    ...optionally(
      "slots",
      optional(field(of, "slots"), (each) => count(each, 1, MAX_SLOTS)),
    ),
    gpus,
    ...parseResources(field(of, "resources")),
    grantedAtMs: amount(field(of, "grantedAtMs")),
    requestedAtMs: amount(field(of, "requestedAtMs")),
  };
}

/** In the order of their hosts. */
function parseGpus(of: Incoming): readonly HostGpus[] {
  const gpus = list(of, (each): HostGpus => ({
    host: parseHostId(id(field(each, "host"))),
    mask: count(field(each, "mask"), 1, MAX_MASK),
  }));
  const names = gpus.map(({ host }) => host);
  if (names.length === 0 || new Set(names).size < names.length)
    wrong(of, "each of its hosts once, and one at least");
  return [...gpus].sort((a, b) => byCodeUnit(a.host, b.host));
}

function parseAgent(of: Incoming): AgentAddress {
  return {
    epoch: id(field(of, "epoch")),
    runQueue: id(field(of, "runQueue")),
    orderQueue: id(field(of, "orderQueue")),
    address: text(field(of, "address")),
  };
}

const hosts = (of: Incoming): readonly HostId[] => list(of, (each) => parseHostId(id(each)));

function leaseIdOf(of: Incoming): LeaseId {
  const digits = /^lease-(\d{1,16})$/.exec(id(of))?.[1];
  const own = Number(digits ?? 0);
  const isExact = own <= mostToken(of);
  if (String(own) !== digits || (of.rules >= BOUNDED_RULES && !isExact))
    wrong(of, "the id of a lease");
  return leaseId(token(isExact ? own : CLAMPED_TOKEN));
}

function jobClass(of: Incoming): JobClass {
  const known = JOB_CLASSES.find((name) => name === of.value);
  if (known === undefined) wrong(of, JOB_CLASSES.join(", "));
  return known ?? "training";
}

/**
 * @file Checks an inbox entry against the ledger before anything changes: whether it can be true.
 *
 * A ledger knows every token and every lease id that it gave, so an entry that names another is refused, unless the fleet recovers
 * (ledger-recovery.ts). An entry that is wrong in one part changes nothing. There is one exception: an agent, or a link monitor,
 * speaks of each of its hosts or sites by itself. A host that was taken out of the description must not cost the others of its agent their
 * standing, so it is refused by name, and the rest counts. An entry of which no host is known is refused whole.
 * Epochs begin with the time at which their agent started. One of the future would make all later agents of its hosts look old.
 * Cost: O(hosts and leases named). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { LeaseFact } from "../../../domain/lease/lease.ts";
import type { RefusalCode } from "../../../domain/values/codes.ts";
import type { HostId, LeaseId } from "../../../domain/values/ids.ts";
import { isFields } from "../../../lib/fields.ts";
import { boundsProblem, CLOCK_DIFFERENCE_MS } from "../entry-bounds.ts";
import { isBounded, type HostStatus } from "../ledger.ts";
import { tokensBelow } from "./ledger-recovery.ts";
import type { LedgerTransaction } from "./transaction.ts";
import { indexOf, leasesOf } from "./transaction-index.ts";
import { newestEpochOf } from "./host-silence.ts";

export interface EntryRefusal {
  readonly code: RefusalCode;
  readonly message: string;
}

type Of<Kind extends InboxEntry["kind"]> = Extract<InboxEntry, { readonly kind: Kind }>;

const MAX_SENDER_CHARACTERS = 100;

/** As the sender calls itself. */
export function senderOf(entry: InboxEntry): string | undefined {
  switch (entry.kind) {
    case "request":
      return entry.request.jobId;
    case "end":
      return entry.jobId;
    case "assert":
      return entry.lease.jobId;
    case "agent-registered":
      return entry.agent.address;
    default:
      return undefined;
  }
}

/** The same of a value that is no entry: the first text among the fields that name senders. */
export function claimedSender(value: unknown): string | undefined {
  const names = [["request", "jobId"], ["jobId"], ["lease", "jobId"], ["agent", "address"]];
  for (const path of names) {
    const found = path.reduce<unknown>(ownField, value);
    if (typeof found === "string") return found.slice(0, MAX_SENDER_CHARACTERS);
  }
  return undefined;
}

const ownField = (value: unknown, name: string): unknown =>
  isFields(value) && Object.hasOwn(value, name) ? value[name] : undefined;

/** Why the entry cannot be true; undefined when it can. */
export function checkEntry(
  transaction: LedgerTransaction,
  entry: InboxEntry,
): EntryRefusal | undefined {
  const problem = boundsProblem(entry, transaction.nowMs);
  if (problem !== undefined) {
    const message = `an inbox entry of kind ${entry.kind} is wrong: ${problem}`;
    return { code: "EntryMalformed", message };
  }
  switch (entry.kind) {
    case "request":
      return undefined;
    case "end":
      return checkEnd(transaction, entry);
    case "assert":
      return checkFact(transaction, entry.lease, "a job");
    case "agent-registered":
      return checkRegistration(transaction, entry);
    case "silence":
    case "agent-deregistered":
      return checkHosts(transaction, entry.hosts, "a presence");
    case "checkpointed":
      return checkGiven(
        transaction,
        entry.marks.map(({ lease }) => tokenOf(lease)),
        "an agent",
      );
    case "vacated":
      return checkVacated(transaction, entry);
    case "model":
      return checkModel(transaction, entry);
    case "links":
    case "lobby":
      return undefined;
  }
}

function checkEnd(
  transaction: LedgerTransaction,
  { jobId, unconfirmedHosts, lease }: Of<"end">,
): EntryRefusal | undefined {
  const found = lease && checkGiven(transaction, [tokenOf(lease)], `job ${jobId}`);
  if (found !== undefined || unconfirmedHosts === "all" || unconfirmedHosts.length === 0)
    return found;
  // A lease keeps its hosts though the description may have lost them.
  const held = new Set(
    leasesOf(transaction, jobId).flatMap(({ gpus }) => gpus.map(({ host }) => host)),
  );
  const { places } = indexOf(transaction);
  const unknown = unconfirmedHosts.filter((host) => !places.has(host) && !held.has(host));
  return unknown.length === 0 ? undefined : hostUnknown(`job ${jobId}`, unknown);
}

function checkFact(
  transaction: LedgerTransaction,
  { id, token, gpus }: LeaseFact,
  who: string,
): EntryRefusal | undefined {
  const found = checkGiven(transaction, [token], who);
  // A lease that the ledger knows was granted by the description of its time.
  if (found !== undefined || transaction.leases.has(id)) return found;
  const { places } = indexOf(transaction);
  const beyond = gpus.find(
    ({ host, mask }) => mask >= 2 ** (places.get(host)?.host.gpuCount ?? 30),
  );
  return (
    beyond && {
      code: "EntryMalformed",
      message: `${who} tells of GPUs of ${beyond.host} that the host does not have (bit mask ${beyond.mask})`,
    }
  );
}

function checkRegistration(
  transaction: LedgerTransaction,
  { hosts, agent, running, highestToken }: Of<"agent-registered">,
): EntryRefusal | undefined {
  const who = `an agent (${agent.address})`;
  const found = checkHosts(transaction, hosts, who);
  if (found !== undefined) return found;
  const isKnownAgent = hosts.some(
    (host) => transaction.hosts.get(host)?.agent?.epoch === agent.epoch,
  );
  if (!isKnownAgent && isEpochAhead(agent.epoch, transaction.nowMs)) {
    const message = `${who} says that it started in the future (epoch ${agent.epoch}); set the clock of its host, remove the file \`epoch\` from the host's folder of state, and start the agent again`;
    return { code: "EntryMalformed", message };
  }
  const named = new Set(hosts);
  const wrong = running.find(
    ({ host, lease, token, fact }) =>
      !named.has(host) || lease !== `lease-${token}` || (fact !== undefined && fact.id !== lease),
  );
  if (wrong !== undefined) {
    const message = `${who} reports a run of ${wrong.lease} under token ${wrong.token} on ${wrong.host}, which do not belong together`;
    return { code: "EntryMalformed", message };
  }
  return (
    checkGiven(transaction, [highestToken, ...running.map(({ token }) => token)], who) ??
    firstOf(running, ({ fact }) => fact && checkFact(transaction, fact, who))
  );
}

function checkVacated(
  transaction: LedgerTransaction,
  { lease: id, hosts }: Of<"vacated">,
): EntryRefusal | undefined {
  const found = checkGiven(transaction, [tokenOf(id)], "a sweep");
  const lease = transaction.leases.get(id);
  if (found !== undefined || lease === undefined) return found;
  const strange = hosts.filter((host) => !lease.gpus.some((part) => part.host === host));
  if (strange.length === 0) return undefined;
  const message = `a sweep says that nothing of ${id} runs on ${named(strange)}, where the lease has no GPUs`;
  return { code: "HostUnknown", message };
}

/** A model publishes its versions one after the other, and says so each time. */
const MOST_UNHEARD_GENERATIONS = 10_000;

function checkModel(
  { models }: LedgerTransaction,
  { cluster, generation }: Of<"model">,
): EntryRefusal | undefined {
  const former = models.get(cluster)?.generation;
  if (former === undefined || generation <= former + MOST_UNHEARD_GENERATIONS) return undefined;
  const message = `a bandwidth model of ${cluster} tells of its publication ${generation}; the last one known is ${former}`;
  return { code: "EntryMalformed", message };
}

/** Refuses tokens that the fleet has never given. */
function checkGiven(
  transaction: LedgerTransaction,
  tokens: readonly number[],
  who: string,
): EntryRefusal | undefined {
  const below = tokensBelow(transaction, transaction.nowMs);
  const strange = tokens.find((token) => token >= below);
  if (strange === undefined) return undefined;
  const message = `${who} names token ${strange}, which this fleet has never given: its next one is ${transaction.nextToken}`;
  return { code: "TokenUnknown", message };
}

/** Refuses an entry of which the fleet knows no host. */
function checkHosts(
  transaction: LedgerTransaction,
  hosts: readonly HostId[],
  who: string,
): EntryRefusal | undefined {
  const { places } = indexOf(transaction);
  return hosts.some((host) => places.has(host)) ? undefined : hostUnknown(who, hosts);
}

const hostUnknown = (who: string, hosts: readonly HostId[]): EntryRefusal => ({
  code: "HostUnknown",
  message:
    hosts.length === 0
      ? `${who} speaks of no host`
      : `${who} speaks of ${named(hosts)}, which the fleet's description lacks; add it to the description, or stop the agent`,
});

const named = (hosts: readonly HostId[]): string =>
  `${hosts.slice(0, 5).join(", ")}${hosts.length > 5 ? ` and ${hosts.length - 5} more` : ""}`;

function firstOf<Item>(
  items: readonly Item[],
  check: (item: Item) => EntryRefusal | undefined,
): EntryRefusal | undefined {
  for (const item of items) {
    const refusal = check(item);
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

/** Of an id that was read. */
const tokenOf = (lease: LeaseId): number => Number(lease.slice("lease-".length));

const EPOCH_DIGITS = 8;
/** Only simulated clocks stand earlier. */
const EARLIEST_CLOCK_MS = 1_767_225_600_000;

/** Whether no agent can have started in this epoch yet; for one of another form, whether it comes after all that can. */
export function isEpochAhead(epoch: string, nowMs: number): boolean {
  const latestMs = Math.floor(Math.max(nowMs, EARLIEST_CLOCK_MS)) + CLOCK_DIFFERENCE_MS;
  return epoch.slice(0, EPOCH_DIGITS) > latestMs.toString(36).padStart(EPOCH_DIGITS, "0");
}

/** The newest epoch that the ledger knows of a host; empty where former rules took one that no agent can have. */
export function newestEpoch(
  status: HostStatus | undefined,
  { before, nowMs }: Pick<LedgerTransaction, "before" | "nowMs">,
): string {
  const epoch = (status && newestEpochOf(status)) ?? "";
  const isForged = isBounded(before) && isEpochAhead(epoch, nowMs);
  return isForged ? "" : epoch;
}

/**
 * @file The identity under which workers and agents poll: the process, the release, and the newest rules of a fleet that it knows.
 *
 * Temporal shows it with every poller of a task queue, so a client can tell which processes know newer rules. Releases before rules 2
 * polled as `pid@host`.
 */

export interface WorkerIdentity {
  readonly pid: number;
  readonly host: string;
  /** Package version and build; absent where the poller does not say it. */
  readonly release?: string;
  /** The newest rules that the process knows. */
  readonly rules: number;
  /** Of an agent: whose jobs its hosts start, in a word (`access/host-trust.ts`). */
  readonly trust?: string;
  /** Of an agent: the kind of container in which its launches run, and the limits that it keeps (`agent/containment/container.ts`). */
  readonly containment?: string;
  /** Of an agent: how the GPUs of its host differ from the fleet's description (`domain/fleet/machine-differences.ts`). */
  readonly differences?: readonly string[];
}

/** Known to every release that does not say more. */
const FIRST_RULES = 1;

export const identityText = ({
  pid,
  host,
  release,
  rules,
  trust,
  containment,
  differences = [],
}: WorkerIdentity & { readonly release: string }): string =>
  [
    `${pid}@${host} orbweaver=${release} rules=${rules}`,
    ...(trust === undefined ? [] : [`trust=${trust}`]),
    ...(containment === undefined ? [] : [`containment=${containment}`]),
    ...(differences.length === 0 ? [] : [`differs=${differences.join(",")}`]),
  ].join(" ");

/** Undefined for an identity of another program's making. */
export function parseIdentity(text: string): WorkerIdentity | undefined {
  const [, pid, host, release, rules, trust, containment, differs] =
    /^(\d+)@(\S*)(?: orbweaver=(\S+) rules=(\d+)(?: trust=(\S+))?(?: containment=(\S+))?(?: differs=(\S+))?)?$/.exec(
      text,
    ) ?? [];
  if (pid === undefined || host === undefined) return undefined;
  return {
    pid: Number(pid),
    host,
    ...(release !== undefined && { release }),
    rules: rules === undefined ? FIRST_RULES : Number(rules),
    ...(trust !== undefined && { trust }),
    ...(containment !== undefined && { containment }),
    ...(differs !== undefined && { differences: differs.split(",") }),
  };
}

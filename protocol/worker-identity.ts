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
  /** Of an agent: the runtimes that start images on its hosts, the one that is taken first in front (`domain/job/job-image.ts`). */
  readonly images?: readonly string[];
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
  images = [],
}: WorkerIdentity & { readonly release: string }): string =>
  [
    `${pid}@${host} orbweaver=${release} rules=${rules}`,
    ...(trust === undefined ? [] : [`trust=${trust}`]),
    ...(containment === undefined ? [] : [`containment=${containment}`]),
    ...(differences.length === 0 ? [] : [`differs=${differences.join(",")}`]),
    ...(images.length === 0 ? [] : [`images=${images.join(",")}`]),
  ].join(" ");

/**
 * Undefined for an identity of another program's making. Words that are not known here, of a newer release, are passed over. Releases before
 * `differs=` know no identity that has it, and show such an agent as one that says nothing.
 */
export function parseIdentity(text: string): WorkerIdentity | undefined {
  const [process = "", ...words] = text.split(" ");
  const [, pid, host] = /^(\d+)@(\S*)$/.exec(process) ?? [];
  if (pid === undefined || host === undefined || words.some((word) => !/^[a-z]+=\S+$/.test(word)))
    return undefined;
  const said = new Map(
    words.map((word) => {
      const at = word.indexOf("=");
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
  const [release, rules] = [said.get("orbweaver"), Number(said.get("rules") ?? FIRST_RULES)];
  if (words.length > 0 && (release === undefined || !Number.isInteger(rules))) return undefined;
  const [trust, containment, differs, images] = ["trust", "containment", "differs", "images"].map(
    (key) => said.get(key),
  );
  return {
    pid: Number(pid),
    host,
    ...(release !== undefined && { release }),
    rules,
    ...(trust !== undefined && { trust }),
    ...(containment !== undefined && { containment }),
    ...(differs !== undefined && { differences: differs.split(",") }),
    ...(images !== undefined && { images: images.split(",") }),
  };
}

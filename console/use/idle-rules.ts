/**
 * @file Carries out the rules on idle jobs: each job is told of once for each lease, and is suspended where its tenant's rule says so.
 *
 * Before the order the job itself is asked which leases it has: one that runs elsewhere by now works there, and is let be. An order that fails is
 * given again with the next look. A console that starts again may give one anew, which a job that follows it already takes as the same.
 */

import type { FleetClient } from "../../client/index.ts";
import type { IdleJob } from "./idle-jobs.ts";

/** `elsewhere`: the job has other leases than the idle ones. */
export type SuspendAnswer = "suspended" | "elsewhere";

export interface IdleCare {
  /** Tells those whom `notify:` names; absent where nobody can be told. */
  readonly tell: ((job: IdleJob) => void) | undefined;
  /** Absent where this console may give no orders. */
  readonly suspend: ((job: IdleJob) => Promise<SuspendAnswer>) | undefined;
  readonly say: (line: string) => void;
}

/** `actor`: in whose name; found anew for each order, because a submit service may come and go. */
export const suspendBy =
  (actor: () => FleetClient) =>
  async ({ job, leases }: IdleJob): Promise<SuspendAnswer> => {
    const handle = actor().job(job);
    const { attempts, array } = await handle.view();
    const now = array?.leases ?? attempts.slice(-1).filter(({ end }) => end === undefined);
    const own = new Set<string>(leases);
    if (now.length !== own.size || now.some(({ leaseId }) => !own.has(leaseId))) return "elsewhere";
    await handle.suspend();
    return "suspended";
  };

/** To be called with the idle jobs of each look. */
export function idleCare({ tell, suspend, say }: IdleCare): (idle: readonly IdleJob[]) => void {
  let told = new Set<string>();
  let ordered = new Set<string>();
  const failed = new Set<string>();
  return (idle) => {
    const keys = new Set(idle.map(keyOf));
    // Forgotten once a job is not idle any more: it may be told of again.
    told = new Set([...told].filter((key) => keys.has(key)));
    ordered = new Set([...ordered].filter((key) => keys.has(key)));
    for (const one of idle) {
      const { job, rule } = one;
      const key = keyOf(one);
      if (rule.act === "warn") continue;
      if (!told.has(key)) tell?.(one);
      told.add(key);
      if (rule.act !== "suspend" || one.class === "inference" || ordered.has(key)) continue;
      ordered.add(key);
      suspend?.(one).then(
        (answer) => {
          failed.delete(key);
          if (answer === "elsewhere") ordered.delete(key);
          else say(`console: ${job} was suspended: none of its GPUs was used for ${minutes(one)}`);
        },
        (error: unknown) => {
          ordered.delete(key);
          const why = error instanceof Error ? error.message : String(error);
          if (!failed.has(key)) say(`console: idle job ${job} could not be suspended: ${why}`);
          failed.add(key);
        },
      );
    }
  };
}

const keyOf = ({ job, lease }: IdleJob): string => `${job} ${lease}`;

const minutes = ({ idleMs }: IdleJob): string => `${String(Math.floor(idleMs / 60_000))} minutes`;

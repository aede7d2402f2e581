/**
 * @file What each host's GPUs were leased to: from the leases that folded events ended, and those that are held. Pure.
 *
 * The last ended leases are kept, so the memory is bounded. Cost: one pass over the leases for an event that changed some.
 */

import type { Lease } from "../../domain/lease/lease.ts";
import type { HostPast, HostSpan } from "../../page/wire.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Folded } from "../follow/fleet-run.ts";
import { takenGpus } from "../../scheduling/ledger/rules/usage.ts";

export interface LeaseSpans {
  readonly begin: (startedAtMs: number) => void;
  readonly add: (folded: Pick<Folded, "event" | "before" | "ledger">) => void;
  /** The newest last. */
  readonly of: (host: string, ledger: Ledger) => HostPast;
}

const MOST_ENDED = 20_000;
/** Of one host. */
const MOST_TOLD = 500;

interface Ended {
  readonly host: string;
  readonly span: HostSpan;
}

export function createLeaseSpans(mostEnded = MOST_ENDED): LeaseSpans {
  let ended: Ended[] = [];
  let sinceMs: number | undefined;

  function add({ event, before, ledger }: Pick<Folded, "event" | "before" | "ledger">): void {
    if (before.leases === ledger.leases) return;
    for (const [id, lease] of before.leases) {
      const after = ledger.leases.get(id);
      if (after === lease) continue;
      const left = masksBy(after);
      for (const { host, mask } of takenGpus(lease)) {
        // Hosts give their GPUs back one by one.
        const freed = mask & ~(left.get(host) ?? 0);
        if (freed !== 0) ended.push({ host, span: { ...spanOf(lease, freed), toMs: event.nowMs } });
      }
    }
    if (ended.length > 2 * mostEnded) ended = ended.slice(-mostEnded);
  }

  return {
    begin: (startedAtMs) => void (sinceMs ??= startedAtMs),
    add,
    of(host, ledger) {
      const held = [...ledger.leases.values()].flatMap((lease) =>
        takenGpus(lease)
          .filter((part) => part.host === host)
          .map(({ mask }) => spanOf(lease, mask)),
      );
      const former = ended.slice(-mostEnded).filter((one) => one.host === host);
      const spans = [...former.map(({ span }) => span), ...held];
      return { host, sinceMs: sinceMs ?? 0, spans: spans.slice(-MOST_TOLD) };
    },
  };
}

const masksBy = (lease: Lease | undefined): ReadonlyMap<string, number> =>
  new Map((lease === undefined ? [] : takenGpus(lease)).map(({ host, mask }) => [host, mask]));

const spanOf = (lease: Lease, mask: number): HostSpan => {
  const { jobId: job, tenant, grantedAtMs: fromMs } = lease;
  return { job, class: lease.class, tenant, lease: lease.id, mask: mask >>> 0, fromMs };
};

/**
 * @file A rolling reboot: hosts are drained, rebooted once nothing holds their GPUs, and taken back once their agents answer anew, never more than `parallel` at a
 * time.
 *
 * The fleet's ledger says what holds GPUs and which agent answers; the operator's own command reboots. A host that fails stays drained, and no further one is begun: what
 * broke one may break all.
 */

import { OrbweaverError } from "../../domain/values/failure.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

export type RebootStep =
  | { readonly kind: "drained"; readonly leases: number }
  | { readonly kind: "rebooting" }
  | { readonly kind: "back" }
  | { readonly kind: "failed"; readonly why: string };

export interface RebootPorts {
  readonly fleet: () => Promise<Ledger>;
  readonly drain: (host: HostId) => Promise<unknown>;
  readonly undrain: (host: HostId) => Promise<unknown>;
  /** The operator's command; undefined when it ended well, else why not. */
  readonly reboot: (host: HostId) => Promise<string | undefined>;
  readonly say: (host: HostId, step: RebootStep) => void;
  readonly pause: () => Promise<void>;
  readonly nowMs: () => number;
}

export interface RebootOptions {
  readonly parallel: number;
  /** An agent that does not answer anew so long after the command has ended is counted as lost. */
  readonly backWithinMs: number;
}

export interface RebootResult {
  readonly back: readonly HostId[];
  readonly failed: readonly { readonly host: HostId; readonly why: string }[];
  readonly left: readonly HostId[];
}

export const REBOOT_REASON = "rolling reboot";

interface Begun {
  readonly epoch: string | undefined;
  /** Absent until the command has ended. */
  rebootedAtMs?: number;
  isRebooting: boolean;
}

/** Throws NOT_ALLOWED where one of the hosts is drained for another reason, and for errors of the ports. */
export async function rollHosts(
  hosts: readonly HostId[],
  { parallel, backWithinMs }: RebootOptions,
  ports: RebootPorts,
): Promise<RebootResult> {
  refuseDrained(hosts, await ports.fleet());
  const left = [...hosts];
  const begun = new Map<HostId, Begun>();
  const back: HostId[] = [];
  const failed: { readonly host: HostId; readonly why: string }[] = [];
  const rebooting: Promise<void>[] = [];
  const fail = (host: HostId, why: string): void => {
    begun.delete(host);
    failed.push({ host, why });
    ports.say(host, { kind: "failed", why });
  };
  const startReboot = (host: HostId, state: Begun): void => {
    state.isRebooting = true;
    ports.say(host, { kind: "rebooting" });
    rebooting.push(
      ports.reboot(host).then((why) => {
        if (why === undefined) state.rebootedAtMs = ports.nowMs();
        else fail(host, why);
      }),
    );
  };

  while (begun.size > 0 || (left.length > 0 && failed.length === 0)) {
    const ledger = await ports.fleet();
    for (const [host, state] of begun) {
      if (!state.isRebooting && leasesOn(ledger, host) === 0) startReboot(host, state);
      if (state.rebootedAtMs === undefined) continue;
      if (isBack(ledger, host, state.epoch)) {
        await ports.undrain(host);
        begun.delete(host);
        back.push(host);
        ports.say(host, { kind: "back" });
      } else if (ports.nowMs() - state.rebootedAtMs > backWithinMs)
        fail(host, `its agent did not answer anew within ${String(backWithinMs / 1_000)} s`);
    }
    while (begun.size < parallel && failed.length === 0) {
      const host = left.shift();
      if (host === undefined) break;
      await ports.drain(host);
      begun.set(host, { epoch: ledger.hosts.get(host)?.agent?.epoch, isRebooting: false });
      ports.say(host, { kind: "drained", leases: leasesOn(ledger, host) });
    }
    if (begun.size > 0) await ports.pause();
  }
  await Promise.all(rebooting);
  return { back, failed, left };
}

/** What an operator or an agent has taken out for a reason does not come back by a reboot. */
function refuseDrained(hosts: readonly HostId[], ledger: Ledger): void {
  const drained = hosts.filter((host) => {
    const { isDrained, drainReason } = ledger.hosts.get(host) ?? { isDrained: false };
    return isDrained && drainReason !== REBOOT_REASON;
  });
  if (drained.length === 0) return;
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `${drained.join(", ")}: drained for another reason, which a reboot would end. \`orbweaver fleet show\` lists the reasons; undrain them first, or leave them out.`,
  );
}

/** Those that wait for the host to confirm their end count. */
const leasesOn = ({ leases }: Ledger, host: HostId): number =>
  [...leases.values()].filter(({ gpus }) => gpus.some((part) => part.host === host)).length;

function isBack({ hosts }: Ledger, host: HostId, former: string | undefined): boolean {
  const status = hosts.get(host);
  return (
    status?.agent !== undefined &&
    status.agent.epoch !== former &&
    status.silentSinceMs === undefined &&
    status.isFenced !== true
  );
}

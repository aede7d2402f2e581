/**
 * @file Watches the health of an agent's hosts, and drains them in its fleet: where jobs of different tenants fail fast in a row, and where the
 * operator's check fails.
 *
 * It uses the operators' own updates, `drain` and `undrain`, and looks at the ledger first: a host that anybody drained before keeps that reason.
 * Where a fifth of the fleet's hosts is set aside, no more are: then the jobs are to blame, or something that all hosts share.
 */

import type { Client } from "@temporalio/client";
import {
  afterLaunch,
  evidenceText,
  judgeLaunch,
  type FastFailure,
} from "../agent/health/black-hole.ts";
import { keepChecking } from "../agent/health/health-checks.ts";
import { runCheckProgram } from "../agent/system/check-program.ts";
import { nodeClock } from "../agent/system/node-clock.ts";
import type { HostId } from "../domain/values/ids.ts";
import type { RunOrder, RunReport } from "../protocol/agent-contract.ts";
import { drainUpdate, fleetWorkflowId, ledgerQuery, undrainUpdate } from "../protocol/messages.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import type { HealthRules } from "./health-file.ts";

export interface HealthWatch {
  /** Takes the ends of this host's launches. */
  endsOn(host: HostId): (order: RunOrder, report: RunReport) => void;
  /** Runs the first check, and then again and again. */
  begin(): Promise<void>;
}

export interface HealthSetup {
  /** Nothing is watched without. */
  readonly health?: HealthRules;
  readonly client: Client;
  readonly fleet: string;
  readonly hosts: readonly { readonly id: HostId }[];
  readonly onNote?: (note: string) => void;
}

const CALL_MS = 10_000;
const RETRY_MS = 5_000;
/** How each reason of a host that was set aside begins. */
const SET_ASIDE = "set aside at ";
const MOST_SET_ASIDE = 1 / 5;

export function watchHealth(setup: HealthSetup, closing: AbortSignal): HealthWatch {
  const { health, onNote = () => undefined } = setup;
  const hosts = setup.hosts.map(({ id }) => id);
  const rows = new Map<HostId, readonly FastFailure[]>();
  const fleet = fleetOrders(setup);
  const setAside = async (host: HostId, reason: string): Promise<void> => {
    while (!closing.aborted) {
      try {
        const isDone = await fleet.drain([host], { reason, mostAlike: SET_ASIDE });
        onNote(`${host}: ${isDone ? "" : "not drained, for many hosts are already; "}${reason}`);
        return;
      } catch {
        await nodeClock.pause(RETRY_MS, closing);
      }
    }
  };
  return {
    endsOn: (host) => (order, report) => {
      if (health?.isSetAside !== true) return;
      const { row, isEvidence } = afterLaunch(rows.get(host) ?? [], judgeLaunch(order, report));
      rows.set(host, isEvidence ? [] : row);
      if (isEvidence) void setAside(host, evidenceText(row, nodeClock.nowMs()));
    },
    begin: async () => {
      if (health?.check === undefined) return;
      await keepChecking(health.check, {
        clock: nodeClock,
        closing,
        onNote,
        runCheck: runCheckProgram,
        drain: async (reason) => {
          await fleet.drain(hosts, { reason });
        },
        undrain: (prefix) => fleet.undrain(hosts, prefix),
      });
    },
  };
}

interface DrainOrder {
  readonly reason: string;
  /** Nothing is drained where a fifth of all hosts has a reason that begins so. */
  readonly mostAlike?: string;
}

function fleetOrders({ client, fleet }: HealthSetup) {
  const workflow = client.workflow.getHandle(fleetWorkflowId(fleet));
  const withinTime = <T>(call: () => Promise<T>): Promise<T> =>
    client.withAbortSignal(AbortSignal.timeout(CALL_MS), call);
  const ledger = async (): Promise<Ledger> =>
    unpackLedger(await withinTime(() => workflow.query(ledgerQuery)));
  return {
    /** Those that nobody has drained before; false where there would be too many. */
    drain: async (hosts: readonly HostId[], order: DrainOrder): Promise<boolean> => {
      const { reason, mostAlike } = order;
      const { hosts: known, shape } = await ledger();
      const drained = [...known.values()].filter(({ isDrained }) => isDrained);
      if (mostAlike !== undefined) {
        const all = shape.clusters.reduce((sum, cluster) => sum + cluster.hosts.length, 0);
        const alike = drained.filter((host) => host.drainReason?.startsWith(mostAlike) === true);
        if (alike.length >= Math.max(1, Math.floor(all * MOST_SET_ASIDE))) return false;
      }
      const open = hosts.filter((host) => known.get(host)?.isDrained !== true);
      if (open.length > 0)
        await withinTime(() =>
          workflow.executeUpdate(drainUpdate, { args: [{ hosts: open, reason }] }),
        );
      return true;
    },
    undrain: async (hosts: readonly HostId[], prefix: string): Promise<number> => {
      const { hosts: known } = await ledger();
      const ours = hosts.filter((host) => {
        const { isDrained = false, drainReason } = known.get(host) ?? {};
        return isDrained && drainReason?.startsWith(prefix) === true;
      });
      if (ours.length > 0)
        await withinTime(() => workflow.executeUpdate(undrainUpdate, { args: [{ hosts: ours }] }));
      return ours.length;
    },
  };
}

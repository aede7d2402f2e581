/**
 * @file What the hosts of an agent have refused, whoever asked: a row for each sender, in a private file of each host, told with every heartbeat.
 *
 * The sender learns of a refusal by its own history alone, which nobody else looks at and which it can delete. Orders that come past every job leave their
 * line here. A new sender is written at once while there is a row for it, all else with the next heartbeat, so that a flood costs the disk no more than heartbeats do.
 */

import { ApplicationFailure, type Info } from "@temporalio/activity";
import type { ActivityInterceptorsFactory } from "@temporalio/worker";
import { join } from "node:path";
import { readJson, replaceJson } from "../agent/folder/json-files.ts";
import type { AgentHost } from "../agent/runs/agent-host.ts";
import type { PresenceBeat } from "../domain/lease/gpu-use.ts";
import { addRefusal, refusedRows, type RefusedOrder } from "../domain/lease/refused-order.ts";
import type { HostId } from "../domain/values/ids.ts";
import { isFields, type Fields } from "../lib/fields.ts";

export interface RefusalTally {
  /** Of both workers of the agent. */
  readonly interceptors: { readonly activity: ActivityInterceptorsFactory[] };
  /** Notes what this activity refuses after it has answered. */
  later(asked: AskedFor): (order: object, why: string) => void;
  /** With what the hosts have refused; as it is where they have refused nothing. */
  withRefusals(beat: PresenceBeat | undefined): PresenceBeat | undefined;
}

type TallyHost = Pick<AgentHost, "id" | "layout" | "system">;

const REFUSED = "NOT_ALLOWED";

export function refusalTally(
  hosts: ReadonlyMap<HostId, TallyHost>,
  onNote: (note: string) => void,
): RefusalTally {
  const rows = new Map<HostId, readonly RefusedOrder[]>();
  const unwritten = new Set<TallyHost>();
  const fileOf = ({ layout }: TallyHost): string => join(layout.dir, "refused.json");
  for (const host of hosts.values()) {
    const kept = refusedRows(readJson(host.system.files, fileOf(host)));
    if (kept.length > 0) rows.set(host.id, kept);
  }
  const write = (host: TallyHost): void => {
    try {
      replaceJson(host.system.files, fileOf(host), rows.get(host.id));
      unwritten.delete(host);
    } catch (error) {
      // The order is refused all the same, and the next heartbeat tries again.
      onNote(`what ${host.id} has refused cannot be written: ${String(error)}`);
    }
  };
  const note = (info: AskedFor, order: unknown, why: string): void => {
    const asked: Fields = isFields(order) ? order : {};
    const [first] = hosts.values();
    const host = [...hosts.values()].find(({ id }) => id === asked["host"]) ?? first;
    if (host === undefined) return;
    const sender = info.workflowExecution?.workflowId ?? "no workflow";
    const job = asked["jobId"];
    const about = typeof job === "string" ? ` of ${job}` : "";
    const before = rows.get(host.id) ?? [];
    const refusal = { sender, order: `${info.activityType}${about}`, why };
    const after = addRefusal(before, { ...refusal, atMs: host.system.clock.nowMs() });
    rows.set(host.id, after);
    unwritten.add(host);
    if (after.length > before.length) write(host);
  };
  const witness: ActivityInterceptorsFactory = ({ info }) => ({
    inbound: {
      execute: async (input, next) => {
        const [order] = input.args;
        try {
          const answer = await next(input);
          const why = refusalIn(answer);
          if (why !== undefined) note(info, order, why);
          return answer;
        } catch (error) {
          if (error instanceof ApplicationFailure && error.type === REFUSED)
            note(info, order, error.message);
          throw error;
        }
      },
    },
  });
  return {
    interceptors: { activity: [witness] },
    later: (asked) => (order, why) => note(asked, order, why),
    withRefusals(beat) {
      for (const host of unwritten) write(host);
      if (rows.size === 0) return beat;
      return { use: {}, ...beat, refused: Object.fromEntries(newest(rows)) };
    },
  };
}

/** Rows of one heartbeat, each of at most 3 KiB: an agent of many hosts must not lose its presence by what others make them refuse. */
const MOST_TOLD = 128;

function newest(
  rows: ReadonlyMap<HostId, readonly RefusedOrder[]>,
): ReadonlyMap<HostId, readonly RefusedOrder[]> {
  const times = [...rows.values()].flatMap((all) => all.map(({ atMs }) => atMs));
  const [sinceMs = -Infinity] = times.sort((a, b) => a - b).slice(-MOST_TOLD);
  let left = MOST_TOLD;
  const told = new Map<HostId, readonly RefusedOrder[]>();
  for (const [host, all] of rows) {
    const some = all.filter(({ atMs }) => atMs >= sinceMs && left-- > 0);
    if (some.length > 0) told.set(host, some);
  }
  return told;
}

type AskedFor = Pick<Info, "activityType" | "workflowExecution">;

/** `run` answers with a report of why it started nothing. */
function refusalIn(answer: unknown): string | undefined {
  const cause = isFields(answer) ? answer["cause"] : undefined;
  if (!isFields(cause) || cause["code"] !== REFUSED) return undefined;
  return String(cause["message"]);
}

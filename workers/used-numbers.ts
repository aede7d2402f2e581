/** @file Numbers of a host's tickets that were used, in a private file of the host: an agent that is started again takes none of them a second time. */

import { join } from "node:path";
import type { AgentHost } from "../agent/runs/agent-host.ts";
import { failure } from "../agent/system/failures.ts";
import { readFile, replaceFile } from "../agent/system/state-files.ts";
import type { HostId } from "../domain/values/ids.ts";
import { isFields } from "../lib/fields.ts";

export interface UsedNumbers {
  /** Uses the number, which is good until then; or says why it cannot be. Throws the system's error where it cannot be written down. */
  use(number: string, time: { readonly untilMs: number; readonly nowMs: number }): Refusal;
}
type Refusal = "used" | "full" | undefined;

const MOST_NUMBERS = 10_000;

export function usedNumbers(file: string): UsedNumbers {
  const kept = readFile<unknown>(file);
  const used = new Map<string, number>();
  for (const [number, untilMs] of Object.entries(isFields(kept) ? kept : {}))
    if (typeof untilMs === "number") used.set(number, untilMs);
  return {
    use(number, { untilMs, nowMs }) {
      for (const [other, until] of used) if (until < nowMs) used.delete(other);
      if (used.has(number)) return "used";
      if (used.size >= MOST_NUMBERS) return "full";
      used.set(number, untilMs);
      replaceFile(file, Object.fromEntries(used));
      return undefined;
    },
  };
}

/** Of each host of an agent, read once. */
export function usedNumbersOf(
  hosts: ReadonlyMap<HostId, Pick<AgentHost, "layout">>,
): (host: HostId) => UsedNumbers {
  const all = new Map(
    [...hosts].map(([id, { layout }]) => [id, usedNumbers(join(layout.dir, "sessions.json"))]),
  );
  return (host) => {
    const numbers = all.get(host);
    if (numbers === undefined) throw failure("HOST_REFUSED", `this agent does not serve ${host}`);
    return numbers;
  };
}

/** @file The ports of an agent in a process of its own: gangs of one host, nobody cancels, nothing is refused. */

import type { AgentHost } from "../../agent/runs/agent-host.ts";
import { createRunActivities } from "../../agent/runs/run-activities.ts";
import { openStarter } from "../../agent/system/starter.ts";

export const plainRuns = (
  host: AgentHost,
  { shimPath, native }: { readonly shimPath: string; readonly native: string },
): ReturnType<typeof createRunActivities> =>
  createRunActivities({
    hosts: new Map([[host.id, host]]),
    gang: { look: () => Promise.resolve({ isClosed: false, beats: [] }) },
    contact: { isInDoubt: () => false, isCutOff: () => false, noteAnswer: () => undefined },
    task: () => ({
      heartbeat: () => undefined,
      cancelled: new AbortController().signal,
      givenAtMs: 0,
      reason: () => "asked",
    }),
    onUnattended: () => undefined,
    shimPath,
    nativePath: native === "" ? undefined : native,
    starter: native === "" ? undefined : openStarter(native, new AbortController().signal),
    env: process.env,
    log: { partBytes: 1_000_000, parts: 4 },
    refusalOf: () => Promise.resolve(undefined),
    readSecrets: () => Promise.resolve({ kind: "read", values: {} }),
    minFreeBytes: 0,
  });

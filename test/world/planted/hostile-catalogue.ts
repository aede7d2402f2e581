/** @file Bugs that only hostile worlds show: disks, clocks of hosts, words that come again, resets. As `catalogue.ts` has the others. */

import { entries, type PlantedBug } from "./planted-bug.ts";

export const PLANTED_HOSTILE: readonly PlantedBug[] = [
  {
    name: "the fence counts wall time",
    seenAt: 1,
    climate: "hostile",
    planted: {
      agent: {
        isCutOff: ({ terms, wallMs: atMs }, { wallMs }) =>
          terms.onSilence === "fence" && wallMs - atMs > terms.fenceMs,
      },
    },
  },
  {
    name: "an agent promises what its disk does not have yet",
    seenAt: 112,
    climate: "hostile",
    planted: { agent: { waitsForDisk: false } },
  },
  {
    name: "a launch whose files cannot be read starts again",
    seenAt: 3,
    climate: "hostile",
    planted: { agent: { givesUp: false } },
  },
  {
    // Hosts start nothing for a run whose lease is another one's, so the first of these alone breaks no law, nor does the second at this seed.
    name: "a job that was reset takes the grants of the run before, and hosts start for any run",
    seenAt: 7_000_260,
    climate: "hostile",
    planted: {
      agent: { mayOrder: () => true },
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) => {
          if (event.kind !== "admission" || event.admission.kind !== "admitted")
            return machine.step(state, event, nowMs);
          const { runId: _asked, ...admission } = event.admission;
          return machine.step(state, { ...event, admission }, nowMs);
        },
      }),
    },
  },
  {
    name: "an end with an older seq is obeyed",
    seenAt: 291,
    climate: "hostile",
    planted: {
      fleet: entries((entry, requests) => {
        const end = entry as { readonly kind?: unknown; readonly jobId?: never } | null;
        const present = end?.kind === "end" ? requests.get(end.jobId as never) : undefined;
        return [present === undefined ? entry : { ...end, seq: present.seq }];
      }),
    },
  },
  {
    name: "a run that was reset starts what the run before was granted",
    seenAt: 81_000_050,
    climate: "ruthless",
    planted: { agent: { mayOrder: ({ workflowRunId }, sender) => workflowRunId === sender } },
  },
  {
    name: "a host reports a batch for another one of its number",
    seenAt: 81_000_179,
    climate: "ruthless",
    planted: { agent: { isOrdered: () => true } },
  },
];

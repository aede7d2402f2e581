/**
 * @file All verbs under their headings of the help, each with the way to load it: a run of one verb loads no other.
 */

import type { Command } from "commander";
import type { CommandContext } from "./command/command-context.ts";

export interface VerbEntry {
  /** The name first, then its aliases. */
  readonly names: readonly [string, ...string[]];
  readonly load: () => Promise<(context: CommandContext) => Command>;
}

export interface VerbGroup {
  readonly heading: string;
  readonly verbs: readonly VerbEntry[];
}

const verb = (names: VerbEntry["names"] | string, load: VerbEntry["load"]): VerbEntry => ({
  names: typeof names === "string" ? [names] : names,
  load,
});

/** In the order of the help. */
export const VERB_GROUPS: readonly VerbGroup[] = [
  {
    heading: "Jobs:",
    verbs: [
      verb("submit", async () => (await import("./verbs/jobs/submit.ts")).submitVerb),
      verb("run", async () => (await import("./verbs/jobs/run.ts")).runVerb),
      verb("attach", async () => (await import("./verbs/jobs/attach.ts")).attachVerb),
      verb("plan", async () => (await import("./verbs/science/plan.ts")).planVerb),
      verb(["list", "ls"], async () => (await import("./verbs/jobs/list.ts")).listVerb),
      verb("status", async () => (await import("./verbs/jobs/status.ts")).statusVerb),
      verb("explain", async () => (await import("./verbs/jobs/explain.ts")).explainVerb),
      verb("queue", async () => (await import("./verbs/jobs/queue.ts")).queueVerb),
      verb("logs", async () => (await import("./verbs/jobs/logs.ts")).logsVerb),
      verb("exec", async () => (await import("./verbs/jobs/exec.ts")).execVerb),
      verb(
        "port-forward",
        async () => (await import("./verbs/jobs/port-forward.ts")).portForwardVerb,
      ),
      verb("cancel", async () => (await import("./verbs/jobs/cancel.ts")).cancelVerb),
      verb("kill", async () => (await import("./verbs/jobs/kill.ts")).killVerb),
      verb("retry", async () => (await import("./verbs/jobs/retry.ts")).retryVerb),
      verb("update", async () => (await import("./verbs/jobs/update.ts")).updateVerb),
      verb("top", async () => (await import("./verbs/jobs/top.ts")).topVerb),
      verb("suspend", async () => (await import("./verbs/jobs/suspend.ts")).suspendVerb),
      verb("resume", async () => (await import("./verbs/jobs/resume.ts")).resumeVerb),
      verb("requeue", async () => (await import("./verbs/jobs/requeue.ts")).requeueVerb),
      verb("move", async () => (await import("./verbs/jobs/move.ts")).moveVerb),
      verb("hold", async () => (await import("./verbs/jobs/hold.ts")).holdVerb),
      verb("release", async () => (await import("./verbs/jobs/release.ts")).releaseVerb),
      verb("cron", async () => (await import("./verbs/jobs/cron.ts")).cronVerb),
    ],
  },
  {
    heading: "Fleet:",
    verbs: [
      verb("init", async () => (await import("./verbs/fleet/init.ts")).initVerb),
      verb("up", async () => (await import("./verbs/service/up.ts")).upVerb),
      verb("down", async () => (await import("./verbs/service/down.ts")).downVerb),
      verb("doctor", async () => (await import("./verbs/service/doctor.ts")).doctorVerb),
      verb(
        "support-bundle",
        async () => (await import("./verbs/service/support-bundle.ts")).supportBundleVerb,
      ),
      verb("backup", async () => (await import("./verbs/service/backup.ts")).backupVerb),
      verb("restore", async () => (await import("./verbs/service/restore.ts")).restoreVerb),
      verb("house", async () => (await import("./verbs/service/house.ts")).houseVerb),
      verb("console", async () => (await import("./verbs/service/console.ts")).consoleVerb),
      verb("fleet", async () => (await import("./verbs/fleet/fleet.ts")).fleetVerb),
      verb("model", async () => (await import("./verbs/science/model.ts")).modelVerb),
      verb(
        "collectives",
        async () => (await import("./verbs/science/collectives.ts")).collectivesVerb,
      ),
      verb("drain", async () => (await import("./verbs/fleet/drain.ts")).drainVerb),
      verb("undrain", async () => (await import("./verbs/fleet/undrain.ts")).undrainVerb),
      verb("fence", async () => (await import("./verbs/fleet/fence.ts")).fenceVerb),
      verb("usage", async () => (await import("./verbs/service/usage.ts")).usageVerb),
      verb("audit", async () => (await import("./verbs/service/audit.ts")).auditVerb),
    ],
  },
  {
    heading: "Processes:",
    verbs: [
      verb("worker", async () => (await import("./verbs/service/worker.ts")).workerVerb),
      verb("agent", async () => (await import("./verbs/service/worker.ts")).agentVerb),
      verb("serve", async () => (await import("./verbs/science/serve.ts")).serveVerb),
      verb("api", async () => (await import("./verbs/service/api.ts")).apiVerb),
      verb("supervise", async () => (await import("./verbs/service/supervise.ts")).superviseVerb),
      verb(
        "codec-server",
        async () => (await import("./verbs/service/codec-server.ts")).codecServerVerb,
      ),
      verb("keys", async () => (await import("./verbs/service/keys.ts")).keysVerb),
    ],
  },
  {
    heading: "Measurements:",
    verbs: [
      verb("bench", async () => (await import("./verbs/science/bench.ts")).benchVerb),
      verb("simulate", async () => (await import("./verbs/science/simulate.ts")).simulateVerb),
    ],
  },
];

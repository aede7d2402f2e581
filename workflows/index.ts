/** @file Every workflow type that Orbweaver's workers run; this file is the entry of the workflow bundle. */

export { bandwidthModel as "bandwidth-model" } from "./learners/bandwidth-model.ts";
export { collectiveTuner as "collective-tuner" } from "./learners/collective-tuner.ts";
export { cron } from "./job/cron.ts";
export { fleet } from "./fleet/fleet.ts";
export { job } from "./job/job.ts";
export { linkMonitor as "link-monitor" } from "./learners/link-monitor.ts";
export { lobby } from "./lobby/lobby.ts";
export { logSession as "log-session" } from "./job/log-session.ts";
export { presence } from "./hosts/presence.ts";
export { session } from "./hosts/session.ts";
export { sweep } from "./hosts/sweep.ts";
export { timedDrain as "timed-drain" } from "./hosts/timed-drain.ts";
export { wake } from "./runtime/wake.ts";

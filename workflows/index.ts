/** @file Every workflow type that Orbweaver's workers run; this file is the entry of the workflow bundle. */

export { bandwidthModel as "bandwidth-model" } from "./bandwidth-model.ts";
export { collectiveTuner as "collective-tuner" } from "./collective-tuner.ts";
export { fleet } from "./fleet.ts";
export { job } from "./job.ts";
export { linkMonitor as "link-monitor" } from "./link-monitor.ts";
export { logSession as "log-session" } from "./log-session.ts";
export { presence } from "./presence.ts";
export { sweep } from "./sweep.ts";
export { wake } from "./wake.ts";

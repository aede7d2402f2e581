/** @file What `whole.cjs` is made from: all verbs but the benches, and the worker on demand, which starts by itself. */

export { runCli } from "./program.ts";
export { runOnDemand } from "../workers/on-demand/run.ts";

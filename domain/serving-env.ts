/** @file The variables by which a job tells `orbweaver serve` what to serve and where, and by which the agent hears of it. */

/** Whether a run is `orbweaver serve`, by itself or as the author wrote it. */
export const isServing = ([program, verb]: readonly string[]): boolean =>
  program === "orbweaver" && verb === "serve";

export const SERVING_ENV = Object.freeze({
  /** The model's file as the host sees it. */
  model: "ORBWEAVER_MODEL",
  /** GPUs of the lease. */
  gpus: "ORBWEAVER_GPUS",
  /** The plan's file, when one was made before the start. */
  plan: "ORBWEAVER_SERVING_PLAN",
  /** The address at which others reach this host. */
  address: "ORBWEAVER_ADDRESS",
  port: "ORBWEAVER_SERVING_PORT",
  maxBatch: "ORBWEAVER_SERVING_MAX_BATCH",
  batchWindowMs: "ORBWEAVER_SERVING_BATCH_WINDOW_MS",
  queue: "ORBWEAVER_SERVING_QUEUE",
  /** Where the service writes its address once it answers. */
  file: "ORBWEAVER_SERVING_FILE",
});

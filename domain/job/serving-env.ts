/** @file The variables that carry a served job's settings to `orbweaver serve`, and its address to the agent. */

/** Whether a run is `orbweaver serve`, chosen by Orbweaver or by the author. */
export const isServing = ([program, verb]: readonly string[]): boolean =>
  program === "orbweaver" && verb === "serve";

/** The label of a replica, with the name of its service. */
export const SERVICE_LABEL = "orbweaver/service";

/** What runs a served model: threads on the host's processor, or its GPUs by onnxruntime's CUDA provider. */
export const SERVED_DEVICES = ["cpu", "cuda"] as const;
export type ServedDevices = (typeof SERVED_DEVICES)[number];
/** Beside the processes: one of these words. A file, because agents of former releases fail a job whose extras set a variable that they do not know. */
export const SERVED_DEVICES_FILE = "serving-devices";

export const SERVING_ENV = Object.freeze({
  /** The model's path on the host. */
  model: "ORBWEAVER_MODEL",
  /** GPUs of the lease. */
  gpus: "ORBWEAVER_GPUS",
  /** The plan's file, when a plan was made before the start. */
  plan: "ORBWEAVER_SERVING_PLAN",
  /** Which devices run the parts. */
  devices: "ORBWEAVER_SERVING_DEVICES",
  /** The address at which others reach this host. */
  address: "ORBWEAVER_ADDRESS",
  port: "ORBWEAVER_SERVING_PORT",
  /** A file with the token that requests must carry. */
  tokenFile: "ORBWEAVER_SERVING_TOKEN_FILE",
  maxBatch: "ORBWEAVER_SERVING_MAX_BATCH",
  batchWindowMs: "ORBWEAVER_SERVING_BATCH_WINDOW_MS",
  queue: "ORBWEAVER_SERVING_QUEUE",
  /** The folder in memory in which the host keeps weights for the tenant, and how many bytes one model may take there. */
  weights: "ORBWEAVER_WEIGHTS",
  weightsBytes: "ORBWEAVER_WEIGHTS_BYTES",
  /** The file to which the service writes its address when it answers. */
  file: "ORBWEAVER_SERVING_FILE",
});

/**
 * @file Where and how a model is served: by the flags, else by the environment that a job gives, else by what is usual.
 *
 * In a job the service listens where others reach the host: on its loopback address when the fleet is on one machine, else on all
 * of its addresses, because the one that others know it by may be that of a gateway.
 */

import { renameSync, writeFileSync } from "node:fs";
import { SERVING_ENV } from "../../domain/serving-env.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { SERVICE_DEFAULTS, type ServiceOptions } from "../../workers/serving/service-options.ts";
import { wholeNumber } from "../option-values.ts";

export interface ServingPlace {
  readonly gpus: number;
  readonly listen: { readonly host: string; readonly port: number };
  /** What the address that is told begins with. */
  readonly address: string;
  readonly service: ServiceOptions;
  /** In a job: tells the agent. */
  readonly tell: (told: { readonly url: string; readonly line: string }) => void;
}

export interface PlaceValues {
  readonly gpus?: number;
  readonly host?: string;
  readonly port?: number;
  readonly maxBatch?: number;
  readonly batchWindow?: number;
  readonly queue?: number;
  readonly threads?: number;
}

const USUAL_PORT = 8_000;
/** The other form, by UUID, gives no place among the host's. */
const GPU_IDS = /^\d{1,3}(,\d{1,3})*$/;
const LOOPBACK = /^(127\.|localhost$|::1$)/;

export function servingPlace(values: PlaceValues, env: Environment): ServingPlace {
  const told = (name: string, least: number): number | undefined => {
    const text = env[name];
    return text === undefined || text === "" ? undefined : wholeNumber(name, least)(text);
  };
  const address = values.host ?? env[SERVING_ENV.address] ?? "127.0.0.1";
  const isGiven = values.host !== undefined || LOOPBACK.test(address);
  const file = env[SERVING_ENV.file];
  const visible = env["CUDA_VISIBLE_DEVICES"] ?? "";
  return {
    gpus: values.gpus ?? told(SERVING_ENV.gpus, 1) ?? 1,
    listen: {
      host: isGiven ? address : "0.0.0.0",
      port: values.port ?? told(SERVING_ENV.port, 0) ?? told("MASTER_PORT", 0) ?? USUAL_PORT,
    },
    address,
    service: {
      maxBatch: values.maxBatch ?? told(SERVING_ENV.maxBatch, 1) ?? SERVICE_DEFAULTS.maxBatch,
      windowMs:
        values.batchWindow ?? told(SERVING_ENV.batchWindowMs, 0) ?? SERVICE_DEFAULTS.windowMs,
      maxQueue: values.queue ?? told(SERVING_ENV.queue, 1) ?? SERVICE_DEFAULTS.maxQueue,
      threads: values.threads ?? SERVICE_DEFAULTS.threads,
      ...(GPU_IDS.test(visible) && { gpuIds: visible.split(",").map(Number) }),
    },
    tell(said) {
      if (file === undefined || file === "") return;
      // Whole or not at all: the agent may look at any moment.
      writeFileSync(`${file}.new`, JSON.stringify(said));
      renameSync(`${file}.new`, file);
    },
  };
}

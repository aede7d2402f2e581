/**
 * @file Where and how a model is served: by the flags, else by the environment that a job gives, else by what is usual.
 *
 * In a job the service listens where others reach the host: on its loopback address when the fleet is on one machine, else on all
 * of its addresses, because the one that others know it by may be that of a gateway. There it asks for a token: the user's, else one
 * that it makes and says in its log, which those who may read the job's log can read.
 */

import { randomBytes } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { GPU_INDICES_VARIABLE } from "../../domain/job/job-env.ts";
import { SERVED_DEVICES, SERVING_ENV, type ServedDevices } from "../../domain/job/serving-env.ts";
import type { BearerRule } from "../../access/bearer.ts";
import type { Environment } from "../../workers/server/environment.ts";
import type { WeightsPlace } from "../../workers/serving/kept-weights.ts";
import { SERVICE_DEFAULTS, type ServiceOptions } from "../../workers/serving/service-options.ts";
import { wholeNumber } from "../command/option-values.ts";
import { readToken } from "../command/token-file.ts";

export interface ServingPlace {
  readonly gpus: number;
  readonly devices: ServedDevices;
  readonly listen: BearerRule & { readonly host: string; readonly port: number };
  /** Said when the service starts. */
  readonly tokenNote?: string;
  /** Start of the announced address. */
  readonly address: string;
  readonly service: ServiceOptions;
  /** Where the host keeps weights: in a job, what its agent says. */
  readonly weights?: WeightsPlace;
  /** Announces the service to the agent when it runs in a job. */
  readonly tell: (served: { readonly url: string; readonly line: string }) => void;
}

export interface PlaceValues {
  readonly gpus?: number;
  readonly devices?: ServedDevices;
  readonly host?: string;
  readonly port?: number;
  readonly tokenFile?: string;
  readonly anyone?: boolean;
  readonly maxBatch?: number;
  readonly batchWindow?: number;
  readonly queue?: number;
  readonly threads?: number;
}

const USUAL_PORT = 8_000;
const GPU_IDS = /^\d{1,3}(,\d{1,3})*$/;
const TOKEN_BYTES = 24;
const LOOPBACK = /^(127\.|localhost$|::1$)/;

interface ServingMachine {
  readonly env: Environment;
  readonly cwd: string;
  /** Whether the machine shows GPUs; looked at where nobody says what runs the parts. */
  readonly hasGpus: () => boolean;
}

export function servingPlace(
  values: PlaceValues,
  { env, cwd, hasGpus }: ServingMachine,
): ServingPlace {
  const fromJob = (name: string, least: number): number | undefined => {
    const text = env[name];
    return text === undefined || text === "" ? undefined : wholeNumber(name, least)(text);
  };
  const address = values.host ?? env[SERVING_ENV.address] ?? "127.0.0.1";
  const isGiven = values.host !== undefined || LOOPBACK.test(address);
  const host = isGiven ? address : "0.0.0.0";
  const { rule, note } = ruleOf(values, { env, cwd, host });
  const file = env[SERVING_ENV.file];
  const visible = env[GPU_INDICES_VARIABLE] ?? "";
  const weights = env[SERVING_ENV.weights];
  const jobName = env["ORBWEAVER_JOB_NAME"];
  const mostBytes = fromJob(SERVING_ENV.weightsBytes, 1);
  return {
    gpus: values.gpus ?? fromJob(SERVING_ENV.gpus, 1) ?? 1,
    devices: values.devices ?? devicesOf(env[SERVING_ENV.devices], hasGpus),
    ...(note !== undefined && { tokenNote: note }),
    listen: {
      host,
      ...rule,
      port: values.port ?? fromJob(SERVING_ENV.port, 0) ?? fromJob("MASTER_PORT", 0) ?? USUAL_PORT,
    },
    address,
    service: {
      maxBatch: values.maxBatch ?? fromJob(SERVING_ENV.maxBatch, 1) ?? SERVICE_DEFAULTS.maxBatch,
      windowMs:
        values.batchWindow ?? fromJob(SERVING_ENV.batchWindowMs, 0) ?? SERVICE_DEFAULTS.windowMs,
      maxQueue: values.queue ?? fromJob(SERVING_ENV.queue, 1) ?? SERVICE_DEFAULTS.maxQueue,
      threads: values.threads ?? SERVICE_DEFAULTS.threads,
      ...(GPU_IDS.test(visible) && { gpuIds: visible.split(",").map(Number) }),
    },
    ...(weights &&
      mostBytes !== undefined && {
        weights: { dir: weights, mostBytes, ...(jobName && { jobName }) },
      }),
    tell(said) {
      if (file === undefined || file === "") return;
      // Replaced by rename, because the agent may read it at any moment.
      writeFileSync(`${file}.new`, JSON.stringify(said));
      renameSync(`${file}.new`, file);
    },
  };
}

function devicesOf(said: string | undefined, hasGpus: () => boolean): ServedDevices {
  const known = SERVED_DEVICES.find((each) => each === said);
  return known ?? (hasGpus() ? "cuda" : "cpu");
}

function ruleOf(
  { tokenFile: given, anyone }: PlaceValues,
  { env, cwd, host }: { readonly env: Environment; readonly cwd: string; readonly host: string },
): { readonly rule: BearerRule; readonly note?: string } {
  if (anyone === true) return { rule: { isOpen: true } };
  const fromJob = env[SERVING_ENV.tokenFile];
  const file = given ?? (fromJob === "" ? undefined : fromJob);
  if (file !== undefined) return { rule: { token: readToken(file, cwd) } };
  if (LOOPBACK.test(host)) return { rule: {} };
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  return {
    rule: { token },
    note: `requests need this token, made for this start (Authorization: Bearer ${token}); --token-file or ${SERVING_ENV.tokenFile} sets one of yours`,
  };
}

/**
 * @file Chooses the Temporal server and opens a client or a worker connection to it.
 *
 * The address comes from the first source that names one: a flag; TEMPORAL_ADDRESS; the profile of Temporal's configuration
 * file; the server that `orbweaver up` started. Namespace, TLS and API key come from the same sources by the rules of
 * `@temporalio/envconfig`: flags before environment before file. `isIsolated` ignores environment and files, so a demo or a
 * test never reaches the production server of a developer's configuration.
 */

import {
  Client,
  Connection,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from "@temporalio/client";
import type { DataConverter } from "@temporalio/common";
import { loadClientConfigProfile, toClientOptions } from "@temporalio/envconfig";
import type { ClientConfigProfile, ClientConfigTLS } from "@temporalio/envconfig";
import type { NativeConnection } from "@temporalio/worker";
import { resolve } from "node:path";
import { isAlive } from "../agent/system/process-identity.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { createConverters, type Converters } from "./codec/converters.ts";
import { askingInterceptor } from "./codec/sealed-answers.ts";
import { loadPayloadCodecs } from "./payload-codec.ts";
import { USER } from "../protocol/word-proof.ts";
import type { KeysInUse } from "../protocol/seal.ts";
import type { Environment } from "./server/environment.ts";
import { readUpState } from "./state.ts";
import { heldWrites } from "./held-writes.ts";
import { readableMemos } from "./readable-memos.ts";
import { silentOnce } from "./silent-calls.ts";
import { signingInterceptor, wordProver } from "./word-signer.ts";

/** The connection settings of the command line; each overrides environment and profile. */
export interface ConnectionFlags {
  readonly address?: string | undefined;
  readonly namespace?: string | undefined;
  readonly profile?: string | undefined;
  readonly apiKey?: string | undefined;
  /** `true` asks for TLS without any further setting, `false` refuses it. */
  readonly tls?: boolean | undefined;
  readonly tlsCaPath?: string | undefined;
  readonly tlsCertPath?: string | undefined;
  readonly tlsKeyPath?: string | undefined;
  readonly tlsServerName?: string | undefined;
  /** Path of a module that exports `payloadCodecs`; ORBWEAVER_CODEC when absent. */
  readonly codec?: string | undefined;
  /** File of the encryption keys; ORBWEAVER_ENCRYPTION_KEYS when absent. */
  readonly encryptionKeys?: string | undefined;
  /** Neither environment nor profile file is read: only these flags and the server that `up` started. */
  readonly isIsolated?: boolean | undefined;
}

export interface ConnectionPlace {
  readonly env: Environment;
  readonly cwd: string;
  /** The state folder of the fleet, where `up` records its server. */
  readonly stateDir: string;
}

export interface ConnectionConfig {
  /** The source of the address. */
  readonly source: "configured" | "up" | "isolated";
  readonly address: string;
  readonly namespace: string;
  readonly options: ConnectionOptions;
  /** For clients. */
  readonly dataConverter: DataConverter;
  /** For workers, with whether their payloads are encrypted. */
  readonly workerPayloads: WorkerPayloads;
  /** Temporal's Web UI, where known. */
  readonly uiUrl?: string;
}

export interface WorkerPayloads {
  readonly dataConverter: DataConverter;
  readonly isEncrypted: boolean;
  /** The keys, where there are any: what comes without them is not heard. */
  readonly keys?: KeysInUse;
}

/** The options that `Connection` and `NativeConnection` share. */
export interface ConnectionOptions {
  readonly address: string;
  readonly tls?: Exclude<ReturnType<typeof toClientOptions>["connectionOptions"]["tls"], undefined>;
  readonly apiKey?: string;
  readonly metadata?: Record<string, string>;
}

export const DEFAULT_NAMESPACE = "default";

/** A connection that reads neither environment nor profiles: for demo, tests, and servers of our own. */
export function isolatedConnection(isolated: {
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl?: string;
}): ConnectionConfig {
  const { address, namespace, uiUrl } = isolated;
  return {
    source: "isolated",
    address,
    namespace,
    options: { address },
    ...withConverters(createConverters()),
    ...(uiUrl !== undefined && { uiUrl }),
  };
}

/** The connection by the order in the file header; throws NO_CONNECTION when no source names an address. */
export async function resolveConnection(
  flags: ConnectionFlags,
  place: ConnectionPlace,
): Promise<ConnectionConfig> {
  const configured = configuredConnection(flags, place.env);
  if (configured !== undefined) {
    const noted = await notedKeys(place.stateDir, configured.address);
    return { ...configured, ...withConverters(await loadConverters(flags, place, noted)) };
  }
  const state = await readUpState(place.stateDir);
  const server = state?.server;
  if (server === undefined) {
    throw new OrbweaverError(
      "NO_CONNECTION",
      "no Temporal server is named. Run `orbweaver up` to start one here, or set TEMPORAL_ADDRESS (or --address).",
    );
  }
  if (!isAlive(server)) {
    throw new OrbweaverError(
      "NO_CONNECTION",
      `the Temporal server that \`orbweaver up\` started at ${server.address} has stopped. Run \`orbweaver up\` again.`,
    );
  }
  return {
    ...isolatedConnection({
      address: server.address,
      namespace: flags.namespace ?? server.namespace,
      ...(server.uiUrl !== undefined && { uiUrl: server.uiUrl }),
    }),
    source: "up",
    ...withConverters(await loadConverters(flags, place, state?.encryptionKeys)),
  };
}

/** The key file that `up` used, if it brought the fleet up at this address. */
async function notedKeys(stateDir: string, address: string): Promise<string | undefined> {
  // With another address the recorded state is optional, so errors in it are ignored.
  const state = await readUpState(stateDir).catch(() => undefined);
  const isThere = [state?.server?.address, state?.configuredAddress].includes(address);
  return isThere ? state?.encryptionKeys : undefined;
}

/**
 * The connection that flags, environment and profile name, without codec and keys; undefined when none of them names an
 * address.
 */
export function configuredConnection(
  flags: ConnectionFlags,
  env: Environment,
): ConnectionConfig | undefined {
  const profile = withFlags(flags.isIsolated === true ? {} : readProfile(flags, env), flags);
  if (profile.address === undefined || profile.address === "") return undefined;
  checkHasPort(profile.address);
  const { connectionOptions } = readTlsFiles(profile);
  const { tls, apiKey, metadata } = connectionOptions;
  const uiUrl = configuredUi(profile.address, env);
  return {
    source: flags.isIsolated === true ? "isolated" : "configured",
    address: profile.address,
    namespace: profile.namespace ?? DEFAULT_NAMESPACE,
    options: {
      address: profile.address,
      ...(tls !== undefined && { tls }),
      ...(apiKey !== undefined && { apiKey }),
      // envconfig turns only its own profile's strings into metadata.
      ...(metadata !== undefined && { metadata: metadata as Record<string, string> }),
    },
    ...withConverters(createConverters()),
    ...(uiUrl !== undefined && { uiUrl }),
  };
}

/** The client would guess a port, and every later error would name an address that the user did not write. */
function checkHasPort(address: string): void {
  if (/:\d+\/?$/.test(address)) return;
  throw new OrbweaverError(
    "BAD_INPUT",
    `the Temporal address ${JSON.stringify(address)} names no port. Write host:port, e.g. ${address.replace(/:$/, "")}:7233 (TEMPORAL_ADDRESS, --address or the profile).`,
  );
}

export interface OpenClient {
  readonly client: Client;
  readonly close: () => Promise<void>;
}

/** The SDK (1.24) means this and names it without its prefix, so that 4 MiB are left: a page of a history with three signals of 2 MiB would be refused for ever. */
const MOST_RECEIVED = "grpc.max_receive_message_length";
const MOST_RECEIVED_BYTES = 128 * 1024 * 1024;

/** Signs what its user says to workflows. Connects eagerly, so that a dead address is one NO_CONNECTION error and not a failure of the first call. */
export async function openClient(config: ConnectionConfig): Promise<OpenClient> {
  const { ready, ...opened } = startClient(config);
  await ready;
  return opened;
}

/**
 * As `openClient`, before it is connected: a call that reads goes as soon as it can, others once the server is reached and `check` has passed. `ready` throws NO_CONNECTION, or
 * what `check` throws, which is to be said instead of any call's failure.
 */
export function startClient(
  config: ConnectionConfig,
  check?: (client: Client) => Promise<void>,
): OpenClient & { readonly ready: Promise<void> } {
  let isClosed = false;
  const interceptors = [
    makeGrpcRetryInterceptor(defaultGrpcRetryOptions()),
    silentOnce(() => isClosed),
  ];
  const connection = Connection.lazy({
    connectTimeout: CONNECT_TIMEOUT_MS,
    interceptors,
    ...config.options,
    channelArgs: { [MOST_RECEIVED]: MOST_RECEIVED_BYTES },
  });
  const client: Client = new Client({
    connection,
    namespace: config.namespace,
    dataConverter: config.dataConverter,
    interceptors: {
      workflow: [
        heldWrites(() => ready),
        signingInterceptor(wordProver([USER])),
        askingInterceptor,
        readableMemos(config.dataConverter, config.namespace),
      ],
    },
  });
  const ready = connected(config, () => connection.ensureConnected()).then(() => check?.(client));
  return {
    client,
    ready,
    close: async () => {
      isClosed = true;
      await connection.close();
    },
  };
}

/** The connection of workers; the caller gives `config.namespace` and `config.workerPayloads` to `Worker.create`. */
export async function openNative(config: ConnectionConfig): Promise<NativeConnection> {
  // A client needs none of the native core, which takes half as long to load as everything else.
  const { NativeConnection: Native } = await import("@temporalio/worker");
  return await connected(config, () => Native.connect({ ...config.options }));
}

/** Temporal's UI page of one workflow; undefined when the UI's address is not known. */
export function workflowUrl(config: ConnectionConfig, workflowId: string): string | undefined {
  if (config.uiUrl === undefined) return undefined;
  const namespace = encodeURIComponent(config.namespace);
  return `${config.uiUrl}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`;
}

const CONNECT_TIMEOUT_MS = 5_000;

async function connected<T>(config: ConnectionConfig, connect: () => Promise<T>): Promise<T> {
  try {
    return await connect();
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError(
      "NO_CONNECTION",
      `no Temporal server answers at ${config.address}: ${firstLine(found)}. ` +
        "Check the address, TLS and API key, or run `orbweaver up` without TEMPORAL_ADDRESS.",
      { cause: error },
    );
  }
}

/**
 * Converters with the keys and the codec module that flags or environment name; `notedKeys` is the key file that `up` recorded.
 */
export async function loadConverters(
  flags: ConnectionFlags,
  place: Pick<ConnectionPlace, "env" | "cwd">,
  notedKeys?: string,
): Promise<Converters> {
  const keyFile = keyFileOf(flags, place) ?? notedKeys;
  const module = said(flags.codec, place.env["ORBWEAVER_CODEC"]);
  return createConverters({
    ...(keyFile !== undefined && { keyFile }),
    ...(module !== undefined && { userCodecs: await loadPayloadCodecs(module, place.cwd) }),
  });
}

/** Absolute path of the key file that flag or environment name. */
export function keyFileOf(
  { encryptionKeys }: ConnectionFlags,
  { env, cwd }: Pick<ConnectionPlace, "env" | "cwd">,
): string | undefined {
  const file = said(encryptionKeys, env["ORBWEAVER_ENCRYPTION_KEYS"]);
  return file === undefined ? undefined : resolve(cwd, file);
}

/** The flag, else the variable; an empty variable counts as unset. */
const said = (flag: string | undefined, variable: string | undefined): string | undefined =>
  flag ?? (variable === "" ? undefined : variable);

export const withConverters = ({
  client,
  worker,
  isEncrypted,
  keys,
}: Converters): Pick<ConnectionConfig, "dataConverter" | "workerPayloads"> => ({
  dataConverter: client,
  workerPayloads: { dataConverter: worker, isEncrypted, ...(keys !== undefined && { keys }) },
});

function readProfile(flags: ConnectionFlags, env: Environment): ClientConfigProfile {
  const named = Object.entries(env).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  );
  try {
    return loadClientConfigProfile({
      ...(flags.profile !== undefined && { profile: flags.profile }),
      overrideEnvVars: Object.fromEntries(named),
    });
  } catch (error) {
    throw badConfiguration(error, env["TEMPORAL_CONFIG_FILE"]);
  }
}

/** Certificates and keys are read here, so a missing file is reported before anything connects. */
function readTlsFiles(profile: ClientConfigProfile): ReturnType<typeof toClientOptions> {
  try {
    return toClientOptions(profile);
  } catch (error) {
    throw badConfiguration(error);
  }
}

/** `file`: the profile file that the environment names. */
function badConfiguration(error: unknown, file = ""): OrbweaverError {
  const found = error instanceof Error ? error.message : String(error);
  const place = file === "" ? "" : ` (TEMPORAL_CONFIG_FILE is ${JSON.stringify(file)})`;
  return new OrbweaverError(
    "BAD_INPUT",
    `the Temporal configuration${place} cannot be read: ${firstLine(found)}. ` +
      "Correct the TEMPORAL_* variables, the profile file or the --tls flags.",
    { cause: error },
  );
}

function withFlags(profile: ClientConfigProfile, flags: ConnectionFlags): ClientConfigProfile {
  const tls = tlsWithFlags(profile.tls, flags);
  return {
    ...profile,
    ...(flags.address !== undefined && { address: flags.address }),
    ...(flags.namespace !== undefined && { namespace: flags.namespace }),
    ...(flags.apiKey !== undefined && { apiKey: flags.apiKey }),
    ...(tls !== undefined && { tls }),
  };
}

function tlsWithFlags(
  tls: ClientConfigTLS | undefined,
  flags: ConnectionFlags,
): ClientConfigTLS | undefined {
  const said: ClientConfigTLS = {
    ...(flags.tls !== undefined && { disabled: !flags.tls }),
    ...(flags.tlsCaPath !== undefined && { serverCACert: { path: flags.tlsCaPath } }),
    ...(flags.tlsCertPath !== undefined && { clientCert: { path: flags.tlsCertPath } }),
    ...(flags.tlsKeyPath !== undefined && { clientKey: { path: flags.tlsKeyPath } }),
    ...(flags.tlsServerName !== undefined && { serverName: flags.tlsServerName }),
  };
  return Object.keys(said).length === 0 ? tls : { ...tls, ...said };
}

function configuredUi(address: string, env: Environment): string | undefined {
  const said = env["ORBWEAVER_UI_URL"];
  if (said !== undefined && said !== "") return said.replace(/\/+$/, "");
  const host = address.replace(/:\d+$/, "");
  const isCloud = host.endsWith(".tmprl.cloud") || host.endsWith(".api.temporal.io");
  return isCloud ? "https://cloud.temporal.io" : undefined;
}

function firstLine(text: string): string {
  return (text.split("\n", 1)[0] ?? text).replace(/\.$/, "");
}

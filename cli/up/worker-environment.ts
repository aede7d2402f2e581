/**
 * @file The environment and arguments by which workers of `up` reach its server.
 *
 * With our own server they get nothing of the user's configuration. With a configured server they inherit the environment, and
 * flags of `up` become variables too, because every user of the machine can read an API key on a command line.
 */

import type { ConnectionConfig, ConnectionFlags } from "../../workers/connection.ts";
import { withoutTemporal, type Environment } from "../../workers/server/environment.ts";

export interface WorkerSurroundings {
  readonly args: readonly string[];
  readonly env: Environment;
}

export function workerSurroundings(
  connection: ConnectionConfig,
  {
    flags,
    env: given,
    keyFile,
    isNamespaceTrusted = false,
  }: {
    readonly flags: ConnectionFlags;
    readonly env: Environment;
    /** File of the payloads' encryption keys. */
    readonly keyFile?: string | undefined;
    /** Workflows believe whoever reaches the namespace. */
    readonly isNamespaceTrusted?: boolean;
  },
): WorkerSurroundings {
  const { ORBWEAVER_TRUST: _former, ...untold } = given;
  const env: Environment = isNamespaceTrusted
    ? { ...untold, ORBWEAVER_TRUST: "namespace" }
    : untold;
  const codec = {
    ...(flags.codec !== undefined && { ORBWEAVER_CODEC: flags.codec }),
    ...(keyFile !== undefined && { ORBWEAVER_ENCRYPTION_KEYS: keyFile }),
  };
  if (connection.source !== "configured") {
    const { address, namespace } = connection;
    return {
      args: ["--isolated", "--address", address, "--namespace", namespace],
      env: { ...withoutTemporal(env), ...codec },
    };
  }
  const said = {
    TEMPORAL_ADDRESS: flags.address,
    TEMPORAL_NAMESPACE: flags.namespace,
    TEMPORAL_PROFILE: flags.profile,
    TEMPORAL_API_KEY: flags.apiKey,
    TEMPORAL_TLS: flags.tls === undefined ? undefined : String(flags.tls),
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: flags.tlsCaPath,
    TEMPORAL_TLS_CLIENT_CERT_PATH: flags.tlsCertPath,
    TEMPORAL_TLS_CLIENT_KEY_PATH: flags.tlsKeyPath,
    TEMPORAL_TLS_SERVER_NAME: flags.tlsServerName,
  };
  const named = Object.entries(said).filter(([, value]) => value !== undefined);
  return { args: [], env: { ...env, ...Object.fromEntries(named), ...codec } };
}

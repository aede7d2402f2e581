/** @file The connection's flags, the same on every verb that connects to Temporal. */

import type { Command } from "commander";
import type { ConnectionFlags } from "../../workers/connection.ts";

/** The flags as commander names them. */
export interface ConnectionOptionValues {
  readonly address?: string;
  readonly namespace?: string;
  readonly profile?: string;
  readonly apiKey?: string;
  readonly tls?: boolean;
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsServerName?: string;
  readonly codec?: string;
  readonly encryptionKeys?: string;
  readonly isolated?: boolean;
  readonly fleet?: string;
  /** Of the verbs that a submit service answers, too. */
  readonly api?: string;
}

export function addConnectionOptions(command: Command): Command {
  return command
    .optionsGroup("Fleet and connection:")
    .option("--fleet <name>", "name of the fleet (ORBWEAVER_FLEET; default: default)")
    .option(
      "--address <host:port>",
      "Temporal server (TEMPORAL_ADDRESS; default: the server of `up`)",
    )
    .option("--namespace <name>", "Temporal namespace (TEMPORAL_NAMESPACE)")
    .option("--profile <name>", "profile of Temporal's configuration file (TEMPORAL_PROFILE)")
    .option("--api-key <key>", "API key; prefer TEMPORAL_API_KEY, which `ps` does not show")
    .option("--tls", "connect with TLS (TEMPORAL_TLS)")
    .option("--no-tls", "connect without TLS, whatever the profile says")
    .option("--tls-ca <file>", "certificate of the server's authority")
    .option("--tls-cert <file>", "client certificate")
    .option("--tls-key <file>", "key of the client certificate")
    .option("--tls-server-name <name>", "expected name in the server's certificate")
    .option("--codec <module>", "module that exports payloadCodecs (ORBWEAVER_CODEC)")
    .option("--encryption-keys <file>", "keys of the payloads (ORBWEAVER_ENCRYPTION_KEYS)")
    .option("--isolated", "ignore TEMPORAL_* variables and profile files")
    .optionsGroup("Options:");
}

/** Of a verb that a submit service answers, too. */
export function addServiceOptions(command: Command): Command {
  return addConnectionOptions(command)
    .optionsGroup("Fleet and connection:")
    .option(
      "--api <address>",
      "submit service instead of Temporal: https://HOST:PORT or unix:PATH (ORBWEAVER_API)",
    )
    .optionsGroup("Options:");
}

export function connectionFlags(values: ConnectionOptionValues): ConnectionFlags {
  return {
    address: values.address,
    namespace: values.namespace,
    profile: values.profile,
    apiKey: values.apiKey,
    tls: values.tls,
    tlsCaPath: values.tlsCa,
    tlsCertPath: values.tlsCert,
    tlsKeyPath: values.tlsKey,
    tlsServerName: values.tlsServerName,
    codec: values.codec,
    encryptionKeys: values.encryptionKeys,
    isIsolated: values.isolated,
  };
}

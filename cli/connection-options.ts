/** @file The connection's flags, the same on every verb that talks to Temporal, and what they mean. */

import type { Command } from "commander";
import type { ConnectionFlags } from "../workers/connection.ts";

/** The flags as commander hands them over. */
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
}

export function addConnectionOptions(command: Command): Command {
  return command
    .optionsGroup("Fleet and connection:")
    .option("--fleet <name>", "which fleet (ORBWEAVER_FLEET, else default)")
    .option("--address <host:port>", "the Temporal server (TEMPORAL_ADDRESS, else the one of `up`)")
    .option("--namespace <name>", "Temporal namespace (TEMPORAL_NAMESPACE)")
    .option("--profile <name>", "profile of Temporal's configuration file (TEMPORAL_PROFILE)")
    .option("--api-key <key>", "API key; better in TEMPORAL_API_KEY, where `ps` does not show it")
    .option("--tls", "connect with TLS (TEMPORAL_TLS)")
    .option("--no-tls", "connect without TLS, whatever the profile says")
    .option("--tls-ca <file>", "certificate of the server's authority")
    .option("--tls-cert <file>", "client certificate")
    .option("--tls-key <file>", "key of the client certificate")
    .option("--tls-server-name <name>", "name to expect in the server's certificate")
    .option("--codec <module>", "module that exports payloadCodecs (ORBWEAVER_CODEC)")
    .option("--encryption-keys <file>", "keys of the payloads (ORBWEAVER_ENCRYPTION_KEYS)")
    .option("--isolated", "ignore TEMPORAL_* variables and profile files")
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

/**
 * @file `orbweaver api`: the submit service of a fleet, for users whom `access:` in the fleet file admits.
 *
 * Each admitted user of this machine gets a socket of its own; with --port, those elsewhere come with tokens, or with client certificates (--client-ca).
 */

import type { Command } from "commander";
import { join, resolve } from "node:path";
import { HTTP_LIMITS } from "../../../api/http.ts";
import { auditFileIn, startService } from "../../../api/service.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { fleetStateDir, readUpState } from "../../../workers/state.ts";
import { hostInUrl } from "../../../lib/url-host.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { fleetIn } from "../../command/fleet-files.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { packageVersion } from "../../command/package-version.ts";
import {
  addTlsOptions,
  refuseClearTokens,
  revocations,
  tlsOf,
  type TlsValues,
} from "../../command/tls-files.ts";
import { workerLogger } from "../../command/worker-log.ts";
import { aborted } from "../../terminal/until-interrupted.ts";
import { tellReady } from "../../up/worker-process.ts";

interface ApiValues extends ConnectionOptionValues, TlsValues {
  readonly file?: string;
  readonly socketDir?: string;
  readonly port?: number;
  readonly host: string;
  readonly relay?: string;
  readonly plain?: boolean;
  readonly json?: boolean;
}

const LOOPBACK = "127.0.0.1";

export function apiVerb(context: CommandContext): Command {
  const verb = context
    .verb("api")
    .summary("let other users submit jobs")
    .description(
      "Serves the fleet to the users whom `access:` in its file admits, in the foreground. It knows who asks, decides by the file, signs jobs in the asker's name, and keeps an audit (`orbweaver audit`). A user of this machine asks at a socket of its own, which a service of root makes in /run/orbweaver/FLEET; users elsewhere ask with a token (--port) or a client certificate (--client-ca). You are an operator. `orbweaver up` starts one where the fleet file has `access:`. The OpenAPI document is at /openapi.json.",
    )
    .option("--file <fleet.yaml>", "fleet file (default: the one that `up` was given last)")
    .option("--socket-dir <dir>", "folder of other users' sockets (default: /run/orbweaver/FLEET)")
    .option(
      "--port <port>",
      "answer tokens on this port; 0 for a free one",
      wholeNumber("--port", 0),
    )
    .option(
      "--client-ca <file>",
      "answer client certificates that these authorities have signed, too; `access:` says whose they are",
    )
    .option(
      "--client-crl <file>",
      "lists of what these authorities have revoked, in PEM; read again when it changes",
    )
    .option("--host <address>", "address to listen on", LOOPBACK)
    .option(
      "--relay <url>",
      "https://HOST:PORT at which agents elsewhere reach this service for sessions (default: its own name and port, with --cert)",
    )
    .option("--plain", "HTTP beyond this machine, because a proxy in front encrypts")
    .option("--json", "answer with one JSON document when it listens")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver api --file fleet.yaml", "for users of this machine"],
        [
          "orbweaver api --host 0.0.0.0 --port 8443 --cert c.pem --key k.pem",
          "for users elsewhere, with tokens",
        ],
        [
          "orbweaver api --port 8443 --cert c.pem --key k.pem --client-ca ca.pem",
          "with tokens or client certificates",
        ],
        ["ORBWEAVER_API=unix:/run/orbweaver/default orbweaver list", "what such a user does"],
      ]),
    )
    .action(async (values: ApiValues) => {
      context.endsByItself();
      const { io } = context;
      const tcp = tcpOf(context, values);
      await context.withSession(values, async ({ client, temporal, fleet, connection }) => {
        const stateDir = fleetStateDir(io.env, fleet);
        const { keys } = connection.workerPayloads;
        const file = resolve(io.cwd, values.file ?? (await notedFile(stateDir, fleet)));
        const service = await startService({
          ...{ fleet, temporal, client, file, say: context.say, version: packageVersion() },
          readAccess: (text) => fleetIn(text, file, io.cwd).access,
          auditFile: auditFileIn(stateDir),
          revokedFile: join(stateDir, "revoked-orders"),
          sessionFile: join(stateDir, "sessions.jsonl"),
          ownFolder: join(stateDir, "api"),
          folderStore: join(stateDir, "folders"),
          sharedFolder: resolve(io.cwd, values.socketDir ?? join("/run/orbweaver", fleet)),
          ...(tcp !== undefined && { tcp }),
          ...(keys !== undefined && { keys }),
          ...(values.relay !== undefined && { relay: relayUrl(values.relay) }),
          // Behind a proxy all have its address.
          ...(values.plain === true && {
            limits: { ...HTTP_LIMITS, ofAddress: HTTP_LIMITS.connections },
          }),
        });
        const scheme = values.cert === undefined ? "http" : "https";
        const url =
          service.port === undefined
            ? undefined
            : `${scheme}://${hostInUrl(values.host)}:${String(service.port)}`;
        const sockets = Object.fromEntries(service.sockets());
        if (values.json === true)
          context.printJson({ fleet, sockets, ...(url !== undefined && { url }) });
        else {
          for (const [user, path] of service.sockets()) context.print(`${user}: unix:${path}`);
          if (url !== undefined) context.print(`with tokens: ${url}`);
        }
        const { startCronWorker } = await import("../../../workers/cron-worker.ts");
        const crons = await startCronWorker({
          ...{ connection, fleet, logger: workerLogger(io, "api") },
          activities: service.cronActivities,
        });
        tellReady();
        await Promise.race([aborted(io.interrupted), crons.over]);
        await crons.close();
        await service.close();
      });
    });
  return addConnectionOptions(addTlsOptions(verb));
}

function tcpOf({ io }: CommandContext, values: ApiValues) {
  const tls = tlsOf(values, io.cwd);
  const { host, port } = values;
  if (port === undefined) return undefined;
  refuseClearTokens(values);
  const crl = values.clientCrl === undefined ? undefined : resolve(io.cwd, values.clientCrl);
  return {
    ...{ host, port, ...(tls !== undefined && { tls }) },
    ...(crl !== undefined && { readCrl: () => revocations(crl) }),
  };
}

function relayUrl(text: string): string {
  if (URL.canParse(text) && new URL(text).protocol === "https:") return text;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--relay ${JSON.stringify(text)} is no https://HOST:PORT. What is typed in sessions crosses the network encrypted alone.`,
  );
}

async function notedFile(stateDir: string, fleet: string): Promise<string> {
  const noted = (await readUpState(stateDir))?.fleetFile;
  if (noted !== undefined) return noted;
  throw new OrbweaverError(
    "BAD_INPUT",
    `no fleet file of fleet ${fleet} is known here. Name it with --file fleet.yaml.`,
  );
}

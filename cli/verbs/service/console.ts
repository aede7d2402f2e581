/**
 * @file `orbweaver console`: shows a fleet in a browser. It follows the fleet's history.
 *
 * Without a token it answers its own user on this machine alone, who may give orders there; with one its page only reads. It suspends idle jobs, as the
 * user who started it, where the file of --notify says so, whoever may look. Beyond this machine tokens need HTTPS, or a proxy that encrypts.
 */

import type { Command } from "commander";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { userName } from "../../../access/own-identity.ts";
import { socketIn } from "../../../api/sockets.ts";
import { openServiceClient, type FleetClient } from "../../../client/index.ts";
import { startConsole } from "../../../console/console.ts";
import type { NotifyOptions } from "../../../console/history/start-history.ts";
import { growHeapSlowly } from "../../../console/heap-growth.ts";
import { traceTargetIn, type TraceTarget } from "../../../console/traces/trace-target.ts";
import { readPage } from "../../../console/http/page-files.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";
import { hostInUrl } from "../../../lib/url-host.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { readNotify } from "../../command/notice-targets.ts";
import {
  addTlsOptions,
  refuseClearTokens,
  tlsOf,
  type TlsValues,
} from "../../command/tls-files.ts";
import { readToken, refuseStrangers } from "../../command/token-file.ts";
import { collectDaily } from "../../house/daily.ts";
import { tellReady } from "../../up/worker-process.ts";
import { aborted } from "../../terminal/until-interrupted.ts";

interface ConsoleValues extends ConnectionOptionValues, TlsValues {
  readonly port: number;
  readonly host: string;
  readonly tokenFile?: string;
  readonly anyone?: boolean;
  readonly plain?: boolean;
  readonly history?: string;
  readonly notify?: string;
  readonly collect?: boolean;
  readonly json?: boolean;
}

const DEFAULT_PORT = 8082;
const LOOPBACK = "127.0.0.1";

export function consoleVerb(context: CommandContext): Command {
  const verb = context
    .verb("console")
    .summary("show the fleet in a browser")
    .description(
      "Serves a page with the map of the fleet's GPUs, the queue with the reason of every waiting job, tenants and decisions, live and in the foreground. It follows the history of the fleet in Temporal: for this it asks no worker, wakes none, and changes nothing, but for one thing: where a tenant of the --notify file has `idle: { then: suspend }`, it suspends that tenant's idle jobs in your name, whoever may look. Without a token it answers you alone, and you can read logs, cancel, hold, release and drain there; with --token-file or --anyone the page only reads. Beyond this machine a token needs --cert and --key, or --plain. Where OTEL_EXPORTER_OTLP_ENDPOINT or its like is set, it sends the trace of each job that ends there; that needs --history. `orbweaver up` starts one.",
    )
    .option(
      "--port <port>",
      "port to listen on; 0 for a free one",
      wholeNumber("--port", 0),
      DEFAULT_PORT,
    )
    .option("--host <address>", "address to listen on", LOOPBACK)
    .option("--token-file <file>", "ask for the token in this file")
    .option("--anyone", "answer everybody without a token, because a proxy in front decides")
    .option("--plain", "HTTP beyond this machine, because a proxy in front encrypts")
    .option("--history <file>", "keep what leases held and how jobs ended in this database")
    .option(
      "--notify <fleet.yaml>",
      "tell those whom its notify: names, and whom jobs may name by its jobNotices:, and act on idle jobs; needs --history",
    )
    .option(
      "--collect",
      "once a day, remove what is due in the fleet's folder here, as `house --collect --yes` does; `up` starts it so",
    )
    .option("--json", "answer with one JSON document when it listens")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver console", "for yourself, on this machine"],
        ["orbweaver console --port 0 --json", "on a free port, for a script"],
        [
          "orbweaver console --host 0.0.0.0 --token-file t.txt --cert c.pem --key k.pem",
          "for those who have the token",
        ],
      ]),
    )
    .action(async (values: ConsoleValues) => {
      context.endsByItself();
      growHeapSlowly();
      const { io } = context;
      const { host, port, tokenFile } = values;
      refuseStrangers(values, "see the fleet");
      // Everybody shows none.
      if (values.anyone !== true) refuseClearTokens(values);
      const tls = tlsOf(values, io.cwd);
      const token = tokenFile === undefined ? undefined : readToken(tokenFile, io.cwd);
      const files = readPage(packageRoot());
      const notify = notifyOf(values, { cwd: io.cwd, say: context.say });
      const traces = tracesOf(values, io.env, context.say);
      await context.withSession(values, async (session) => {
        const { client, temporal, fleet, connection } = session;
        const stateDir = fleetStateDir(io.env, fleet);
        const socket = socketIn(join(stateDir, "api"), userName());
        // Where a submit service runs, it decides and keeps the audit.
        const actor = (): FleetClient =>
          existsSync(socket) ? openServiceClient({ socket }, fleet) : client;
        const served = await startConsole({
          client: temporal,
          fleet,
          codecs: connection.workerPayloads.dataConverter.payloadCodecs ?? [],
          host,
          port,
          rule: { ...(token !== undefined && { token }), isOpen: values.anyone === true },
          files,
          ...(tls !== undefined && { tls }),
          ...(values.history !== undefined && { historyFile: resolve(io.cwd, values.history) }),
          ...(notify && { notify }),
          ...(traces && { traces }),
          ...{ actor, say: context.say },
          ...(connection.uiUrl !== undefined && { uiUrl: connection.uiUrl }),
        });
        const scheme = tls === undefined ? "http" : "https";
        const url = `${scheme}://${hostInUrl(host)}:${String(served.port)}/`;
        if (values.json === true) context.printJson({ url, fleet });
        else context.print(`console of fleet ${fleet}: ${url}`);
        tellReady();
        if (values.collect === true) void collectDaily(context, session, { fleet, stateDir });
        await aborted(io.interrupted);
        await served.close();
      });
    });
  return addConnectionOptions(addTlsOptions(verb));
}

function notifyOf(
  { notify, history }: ConsoleValues,
  place: Parameters<typeof readNotify>[1],
): NotifyOptions | undefined {
  if (notify === undefined) return undefined;
  if (history !== undefined) return readNotify(notify, place);
  throw new OrbweaverError(
    "BAD_INPUT",
    "--notify needs the database in which notices wait until they are sent. Add --history FILE.",
  );
}

/** Nothing needs them: what is wrong is said, and the console starts. */
function tracesOf(
  { history }: ConsoleValues,
  env: Parameters<typeof traceTargetIn>[0],
  say: (line: string) => void,
): TraceTarget | undefined {
  const found = traceTargetIn(env);
  if (found === undefined) return undefined;
  if (typeof found !== "string" && history !== undefined) return found;
  const why = typeof found === "string" ? found : "they wait in the database of --history.";
  say(`console: no traces are sent: ${why}`);
  return undefined;
}

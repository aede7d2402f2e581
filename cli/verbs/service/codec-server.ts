/**
 * @file `orbweaver codec-server`: makes compressed and encrypted payloads readable in Temporal's Web UI.
 *
 * Whoever it answers reads everything, so without a token it answers its own user on this machine alone.
 */

import type { Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { startCodecServer, type CodecServerOptions } from "../../../workers/codec/server.ts";
import { loadConverters } from "../../../workers/connection.ts";
import { fleetStateDir, readUpState } from "../../../workers/state.ts";
import { hostInUrl } from "../../../lib/url-host.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { nameList, wholeNumber } from "../../command/option-values.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { addTlsOptions, tlsOf, type TlsValues } from "../../command/tls-files.ts";
import { readToken, refuseStrangers } from "../../command/token-file.ts";
import { tellReady } from "../../up/worker-process.ts";
import { aborted } from "../../terminal/until-interrupted.ts";

interface CodecServerValues extends TlsValues {
  readonly port: number;
  readonly host: string;
  readonly origin?: readonly string[];
  readonly tokenFile?: string;
  readonly anyone?: boolean;
  readonly encryptionKeys?: string;
  readonly codec?: string;
  readonly fleet?: string;
  readonly json?: boolean;
}

const DEFAULT_PORT = 8081;
const LOOPBACK = "127.0.0.1";

export function codecServerVerb(context: CommandContext): Command {
  const verb = context
    .verb("codec-server")
    .summary("make payloads readable in Temporal's Web UI")
    .description(
      "Serves Temporal's remote codec protocol (POST /decode, POST /encode, GET /health) in the foreground, so that compressed and encrypted payloads are readable in the Web UI and with `temporal --codec-endpoint`. `orbweaver up` starts one for the UI of its own server.",
    )
    .option(
      "--port <port>",
      "port to listen on; 0 for a free one",
      wholeNumber("--port", 0),
      DEFAULT_PORT,
    )
    .option("--host <address>", "address to listen on", LOOPBACK)
    .option(
      "--origin <url>",
      "origin of an allowed web page, e.g. the UI; repeat or separate with commas",
      nameList,
    )
    .option("--token-file <file>", "require the token in this file (Authorization: Bearer)")
    .option("--anyone", "answer everybody without a token, because a proxy in front decides")
    .option("--encryption-keys <file>", "keys of the payloads (ORBWEAVER_ENCRYPTION_KEYS)")
    .option("--codec <module>", "module that exports payloadCodecs (ORBWEAVER_CODEC)")
    .option(
      "--fleet <name>",
      "fleet whose recorded keys are used when none are named (ORBWEAVER_FLEET)",
    )
    .option("--json", "answer with one JSON document when it listens")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver codec-server --origin http://localhost:8233", "for a UI on this machine"],
        [
          "orbweaver codec-server --origin https://cloud.temporal.io --encryption-keys keys.txt",
          "for Temporal Cloud's UI in your browser",
        ],
        [
          "orbweaver codec-server --host 0.0.0.0 --token-file t.txt --cert c.pem --key k.pem",
          "for several people",
        ],
      ]),
    )
    .action(async (values: CodecServerValues) => {
      context.endsByItself();
      const options = await optionsOf(context, values);
      const server = await startCodecServer(options);
      const scheme = values.cert === undefined ? "http" : "https";
      const url = `${scheme}://${hostInUrl(values.host)}:${String(server.port)}`;
      if (values.json === true) context.printJson({ url, origins: options.origins });
      else context.print(`codec server: ${url}`);
      tellReady();
      await aborted(context.io.interrupted);
      await server.close();
    });
  return addTlsOptions(verb);
}

async function optionsOf(
  context: CommandContext,
  values: CodecServerValues,
): Promise<CodecServerOptions> {
  const { io } = context;
  const { host, port, origin = [], tokenFile } = values;
  refuseStrangers(values, "read the fleet's payloads", "--token-file FILE (and --cert, --key)");
  const tls = tlsOf(values, io.cwd);
  const token = tokenFile === undefined ? undefined : readToken(tokenFile, io.cwd);
  const noted = await readUpState(fleetStateDir(io.env, fleetNamed(values, io.env)));
  const { client } = await loadConverters(values, io, noted?.encryptionKeys);
  return {
    host,
    port,
    origins: origin.map(originOf),
    payloadCodecs: client.payloadCodecs ?? [],
    ...(token !== undefined && { token }),
    isOpen: values.anyone === true,
    ...(tls !== undefined && { tls }),
  };
}

/** A page's address is taken for its origin: `http://localhost:8233/namespaces` is `http://localhost:8233`. */
function originOf(text: string): string {
  const origin = URL.canParse(text) ? new URL(text).origin : "null";
  if (origin !== "null") return origin;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--origin ${JSON.stringify(text)} is not the address of a page. Write e.g. --origin http://localhost:8233.`,
  );
}

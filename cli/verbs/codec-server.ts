/**
 * @file `orbweaver codec-server`: makes compressed and encrypted payloads readable in Temporal's Web UI.
 *
 * Whoever reaches it reads everything, so it listens on this machine alone unless a token protects it.
 */

import type { Command } from "commander";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/failure.ts";
import { startCodecServer, type CodecServerOptions } from "../../workers/codec/server.ts";
import { loadConverters } from "../../workers/connection.ts";
import { fleetStateDir, readUpState } from "../../workers/state.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { nameList, wholeNumber } from "../option-values.ts";
import { fleetNamed } from "../session.ts";

interface CodecServerValues {
  readonly port: number;
  readonly host: string;
  readonly origin?: readonly string[];
  readonly tokenFile?: string;
  readonly anyone?: boolean;
  readonly cert?: string;
  readonly key?: string;
  readonly encryptionKeys?: string;
  readonly codec?: string;
  readonly fleet?: string;
  readonly json?: boolean;
}

const DEFAULT_PORT = 8081;
const LOOPBACK = "127.0.0.1";

export function codecServerVerb(kit: Kit): Command {
  return kit
    .verb("codec-server")
    .summary("make payloads readable in Temporal's Web UI")
    .description(
      "Speaks Temporal's remote codec protocol (POST /decode, /encode; GET /health), in the foreground: what is\n" +
        "compressed or encrypted becomes readable in the Web UI, and with `temporal --codec-endpoint`.\n" +
        "`orbweaver up` starts one for its own server's UI.",
    )
    .option(
      "--port <port>",
      `where to listen (else ${String(DEFAULT_PORT)}; 0: a free one)`,
      wholeNumber("--port", 0),
      DEFAULT_PORT,
    )
    .option("--host <address>", "address to listen on", LOOPBACK)
    .option("--origin <url>", "page that may ask, e.g. the UI's; repeat or use commas", nameList)
    .option("--token-file <file>", "ask for the token in this file (Authorization: Bearer)")
    .option("--anyone", "listen beyond this machine without a token")
    .option("--cert <file>", "serve HTTPS with this certificate")
    .option("--key <file>", "the certificate's key")
    .option("--encryption-keys <file>", "keys of the payloads (ORBWEAVER_ENCRYPTION_KEYS)")
    .option("--codec <module>", "module that exports payloadCodecs (ORBWEAVER_CODEC)")
    .option("--fleet <name>", "whose noted keys to use when none are named (ORBWEAVER_FLEET)")
    .option("--json", "answer with one JSON document, once it listens")
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
      kit.endsByItself();
      const options = await optionsOf(kit, values);
      const server = await startCodecServer(options);
      const scheme = values.cert === undefined ? "http" : "https";
      const host = values.host.includes(":") ? `[${values.host}]` : values.host;
      const url = `${scheme}://${host}:${String(server.port)}`;
      if (values.json === true) kit.printJson({ url, origins: options.origins });
      else kit.print(`codec server: ${url}`);
      // `up` waits for this word; nobody else listens.
      if (process.send !== undefined) process.send({ kind: "ready" }, () => process.disconnect());
      await aborted(kit.io.interrupted);
      await server.close();
    });
}

async function optionsOf(kit: Kit, values: CodecServerValues): Promise<CodecServerOptions> {
  const { io } = kit;
  const { host, port, origin = [], tokenFile, cert, key } = values;
  if (!isLoopback(host) && tokenFile === undefined && values.anyone !== true) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `with --host ${host} everybody who reaches this machine could read the fleet's payloads. Add --token-file FILE (and --cert, --key), or --anyone if a proxy in front decides who may.`,
    );
  }
  if ((cert === undefined) !== (key === undefined)) {
    throw new OrbweaverError("BAD_INPUT", "HTTPS needs both. Give --cert FILE and --key FILE.");
  }
  const read = (file: string): string => textOf(resolve(io.cwd, file));
  const token = tokenFile === undefined ? undefined : read(tokenFile).trim();
  if (token === "") {
    throw new OrbweaverError("BAD_INPUT", `${String(tokenFile)} is empty. Put a token into it.`);
  }
  const noted = await readUpState(fleetStateDir(io.env, fleetNamed(values, io.env)));
  const { client } = await loadConverters(values, io, noted?.encryptionKeys);
  return {
    host,
    port,
    origins: origin.map(originOf),
    payloadCodecs: client.payloadCodecs ?? [],
    ...(token !== undefined && { token }),
    ...(cert !== undefined && key !== undefined && { tls: { cert: read(cert), key: read(key) } }),
  };
}

const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);

/** A page's address is taken for its origin: `http://localhost:8233/namespaces` is `http://localhost:8233`. */
function originOf(text: string): string {
  const origin = URL.canParse(text) ? new URL(text).origin : "null";
  if (origin !== "null") return origin;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--origin ${JSON.stringify(text)} is no address of a page. Write e.g. --origin http://localhost:8233.`,
  );
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError("BAD_INPUT", `a file cannot be read: ${found}`, { cause: error });
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  await new Promise<void>((end) => {
    if (signal.aborted) end();
    signal.addEventListener("abort", () => {
      end();
    });
  });
}

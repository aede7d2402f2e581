/**
 * @file Where traces go, by OpenTelemetry's own variables of the environment (specification: "OTLP Exporter Configuration", "General SDK Configuration").
 *
 * Traces are asked for by an endpoint, or by `OTEL_TRACES_EXPORTER=otlp`, whose endpoint is a collector of this machine by default. What is spoken is
 * OTLP over HTTP with JSON, which collectors take where they take protobuf.
 */

import { post } from "../notices/post.ts";
import type { Recipient } from "../notices/deliver.ts";
import type { NoticeRow } from "../history/database.ts";

export interface TraceTarget extends Recipient {
  readonly shownAs: string;
  readonly address: string;
  readonly headers: Readonly<Record<string, string>>;
  /** How the traces' service is called. */
  readonly service: string;
}

/** As rows of the history database name it; no target of a fleet file and no address of a job may. */
export const TRACES = ":traces";
const LOCAL_COLLECTOR = "http://localhost:4318";

type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined where nobody asks for traces; a text says why they cannot be sent. */
export function traceTargetIn(env: Environment): TraceTarget | string | undefined {
  const of = (name: string): string | undefined => env[name]?.trim() || undefined;
  const own = of("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const shared = of("OTEL_EXPORTER_OTLP_ENDPOINT");
  const exporter = of("OTEL_TRACES_EXPORTER");
  if (of("OTEL_SDK_DISABLED")?.toLowerCase() === "true") return undefined;
  if (exporter === undefined && own === undefined && shared === undefined) return undefined;
  if (exporter !== undefined && !exporter.split(",").some((each) => each.trim() === "otlp"))
    return undefined;
  const protocol =
    of("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? of("OTEL_EXPORTER_OTLP_PROTOCOL") ?? "http/json";
  if (!protocol.startsWith("http/"))
    return `the protocol for traces is ${protocol}, and the console speaks http/json alone. Name an endpoint for it in OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, and OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json.`;
  const address = own ?? `${(shared ?? LOCAL_COLLECTOR).replace(/\/+$/, "")}/v1/traces`;
  if (!/^https?:$/.test(URL.canParse(address) ? new URL(address).protocol : ""))
    return "the endpoint for traces is no http or https address";
  return {
    ...{ name: TRACES, shownAs: "the collector of traces", address },
    headers: headersIn(
      of("OTEL_EXPORTER_OTLP_TRACES_HEADERS") ?? of("OTEL_EXPORTER_OTLP_HEADERS") ?? "",
    ),
    service: of("OTEL_SERVICE_NAME") ?? "orbweaver",
  };
}

/** `name=value` with commas between; values are percent-encoded. What is no such pair is left out. */
function headersIn(text: string): Readonly<Record<string, string>> {
  const pairs = text.split(",").flatMap((pair) => {
    const at = pair.indexOf("=");
    const name = pair.slice(0, at).trim().toLowerCase();
    if (at < 1 || !/^[\w-]+$/.test(name)) return [];
    try {
      return [[name, decodeURIComponent(pair.slice(at + 1).trim())] as const];
    } catch {
      return [];
    }
  });
  return Object.fromEntries(pairs);
}

export const sendTrace = async (
  { address, headers }: TraceTarget,
  { body }: Pick<NoticeRow, "body">,
  signal: AbortSignal,
): Promise<void> => await post(address, body, { headers: { ...headers }, signal });

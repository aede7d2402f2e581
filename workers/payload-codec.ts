/**
 * @file The slot for payload codecs (compression, encryption): a user's module that exports `payloadCodecs`.
 *
 * Clients and workers must load the same module; a codec that only one side has makes payloads unreadable.
 */

import type { PayloadCodec } from "@temporalio/common";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { OrbweaverError } from "../domain/values/failure.ts";

/** Imports the module at `path` (relative to `cwd`) and takes its `payloadCodecs`, or those of its default export. */
export async function loadPayloadCodecs(path: string, cwd: string): Promise<PayloadCodec[]> {
  const file = resolve(cwd, path);
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(file).href)) as Record<string, unknown>; // a module namespace is such a record
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `the payload codec module ${file} cannot be loaded: ${found}. Correct --codec or ORBWEAVER_CODEC.`,
      { cause: error },
    );
  }
  const codecs = module["payloadCodecs"] ?? codecsOfDefault(module["default"]);
  if (!Array.isArray(codecs) || !codecs.every(isPayloadCodec)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `the payload codec module ${file} exports no array \`payloadCodecs\` of objects with encode and decode. ` +
        "Export one in the form of Temporal's data converter.",
    );
  }
  return codecs;
}

/** A CommonJS module arrives as the default export. */
function codecsOfDefault(value: unknown): unknown {
  return typeof value === "object" && value !== null && "payloadCodecs" in value
    ? value.payloadCodecs
    : undefined;
}

function isPayloadCodec(value: unknown): value is PayloadCodec {
  return (
    typeof value === "object" &&
    value !== null &&
    "encode" in value &&
    typeof value.encode === "function" &&
    "decode" in value &&
    typeof value.decode === "function"
  );
}

/** @file Reads a fleet file with the measurement files that it names, or reports all their problems. */

import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { formatProblem } from "../../domain/values/file-problem.ts";
import { parseFleetYaml, type FileText, type ParsedFleet } from "../../domain/fleet/fleet-file.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import type { RefusedFile } from "../../domain/values/file-problem.ts";

/** `name` is the path as the user wrote it; paths inside are relative to the fleet file. */
export const readFleet = (name: string, cwd: string): Fleet => fleetOf(parseFleetAt(name, cwd));

/** The same of a text that was read before. */
export const fleetIn = (text: string, name: string, cwd: string): Fleet =>
  fleetOf(parseFleetText(text, name, cwd));

function fleetOf(parsed: ParsedFleet | RefusedFile): Fleet {
  if (parsed.kind === "parsed") return parsed.fleet;
  const problems = parsed.problems.map(formatProblem);
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}

/** The fleet or its problems; throws when the file does not exist. */
export function parseFleetAt(name: string, cwd: string): ParsedFleet | RefusedFile {
  const text = readText(resolve(cwd, name));
  if (text.kind === "missing") {
    throw new OrbweaverError("BAD_INPUT", `${name} ${text.reason}. Name a fleet file.`);
  }
  return parseFleetText(text.text, name, cwd);
}

function parseFleetText(text: string, name: string, cwd: string): ParsedFleet | RefusedFile {
  const folder = dirname(resolve(cwd, name));
  return parseFleetYaml(text, { file: name, read: (file) => readText(resolve(folder, file)) });
}

export function readText(path: string): FileText {
  try {
    return { kind: "text", text: readFileSync(path, "utf8") };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    return { kind: "missing", reason: reasonOf(code) };
  }
}

function reasonOf(code: string): string {
  switch (code) {
    case "ENOENT":
      return "does not exist";
    case "EISDIR":
      return "is a folder";
    default:
      return `cannot be read (${code})`;
  }
}

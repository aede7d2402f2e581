/** @file The fabrics that `bench pick --fabric` names: those of data/fabrics by name, `all` of them, or a file. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { formatProblem } from "../../../domain/values/file-problem.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";
import { parseFabricFile, type FabricSpec } from "../../fabric/fabric-file.ts";

const FABRICS_DIR = join(packageRoot(), "data", "fabrics");
const ENDING = ".yaml";

const builtIn = (): readonly string[] =>
  readdirSync(FABRICS_DIR)
    .filter((name) => name.endsWith(ENDING))
    .map((name) => name.slice(0, -ENDING.length))
    .sort();

/** Several are separated by commas. */
export function readFabrics(text: string): readonly FabricSpec[] {
  const names = text.split(",").flatMap((name) => (name === "all" ? builtIn() : [name.trim()]));
  return names.map((name) =>
    readFabric(builtIn().includes(name) ? join(FABRICS_DIR, `${name}${ENDING}`) : name),
  );
}

function readFabric(file: string): FabricSpec {
  if (!existsSync(file))
    throw badInput(
      `--fabric ${JSON.stringify(file)} is neither a fabric nor a file. Write all, a file, or some of ${builtIn().join(", ")}.`,
    );
  const parsed = parseFabricFile(readText(file), { file });
  if (parsed.kind === "refused") throw badInput(parsed.problems.map(formatProblem).join("\n"));
  return parsed.spec;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw badInput(`the fabric ${file} cannot be read: ${why}. Name a file of YAML.`);
  }
}

const badInput = (message: string): OrbweaverError => new OrbweaverError("BAD_INPUT", message);

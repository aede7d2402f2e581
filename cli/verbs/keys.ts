/** @file `orbweaver keys …`: makes and renews the key file of encrypted payloads, and shows whose keys it holds; never a key itself. */

import type { Command } from "commander";
import { readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/failure.ts";
import { newKeyLine, parseKeys, readKeys } from "../../workers/codec/key-ring.ts";
import { helpEnd, type Kit } from "../kit.ts";

interface KeysValues {
  readonly json?: boolean;
}

const HEADER =
  "# Encryption keys of Orbweaver's payloads, one a line. The first encrypts, all decrypt.\n" +
  "# Without them nobody reads what they have encrypted: keep a copy in a safe place.\n";

export function keysVerb(kit: Kit): Command {
  return kit
    .verb("keys")
    .summary("make and renew the keys of encrypted payloads")
    .description("Works on a key file, as ORBWEAVER_ENCRYPTION_KEYS or --encryption-keys names it.")
    .addCommand(newVerb(kit))
    .addCommand(rotateVerb(kit))
    .addCommand(showVerb(kit))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver keys new keys.txt", "a new key file"],
        ["orbweaver up --encryption-keys keys.txt", "a fleet that encrypts"],
        ["orbweaver keys rotate keys.txt", "encrypt with another key from now on"],
      ]),
    );
}

function newVerb(kit: Kit): Command {
  return kit
    .verb("new")
    .summary("make a key file")
    .description(
      "Makes a file with one new key, readable by you alone. A file that is there stays.",
    )
    .argument("<file>", "the file to make")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver keys new keys.txt", "a new key file"]]))
    .action(async (name: string, values: KeysValues) => {
      const file = resolve(kit.io.cwd, name);
      try {
        await writeFile(file, `${HEADER}${newKeyLine()}\n`, { mode: 0o600, flag: "wx" });
      } catch (error) {
        throw cannotWrite(file, error);
      }
      tell(kit, file, values);
    });
}

function rotateVerb(kit: Kit): Command {
  return kit
    .verb("rotate")
    .summary("add a key, which encrypts from now on")
    .description(
      "Puts a new key before the others of the file. Copy the file to all machines of the fleet: whoever meets the new\n" +
        "key looks into its file again, and begins to use it. Keys that were used stay, for what they have encrypted.",
    )
    .argument("<file>", "the key file")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver keys rotate keys.txt", "a new first key"]]))
    .action(async (name: string, values: KeysValues) => {
      const file = resolve(kit.io.cwd, name);
      readKeys(file);
      const former = readFileSync(file, "utf8");
      const keysAt = former.search(/^[^#\s]/m);
      const text = `${former.slice(0, keysAt)}${newKeyLine()}\n${former.slice(keysAt)}`;
      parseKeys(text, file);
      const aside = `${file}.new`;
      try {
        await writeFile(aside, text, { mode: 0o600, flag: "wx" });
        await rename(aside, file);
      } catch (error) {
        throw cannotWrite(aside, error);
      }
      tell(kit, file, values);
    });
}

function showVerb(kit: Kit): Command {
  return kit
    .verb("show")
    .summary("the ids of a file's keys")
    .description(
      "Shows the ids of the keys, as they stand beside encrypted payloads; not the keys.",
    )
    .argument("<file>", "the key file")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver keys show keys.txt", "which keys are there"]]))
    .action((name: string, values: KeysValues) => {
      tell(kit, resolve(kit.io.cwd, name), values);
    });
}

function tell(kit: Kit, file: string, { json }: KeysValues): void {
  const [first, ...rest] = readKeys(file);
  if (json === true) {
    kit.printJson({ file, encryptsWith: first.id, decryptsAlso: rest.map(({ id }) => id) });
    return;
  }
  kit.print(file);
  kit.print(`  ${first.id}  encrypts`);
  for (const { id } of rest) kit.print(`  ${id}  decrypts`);
}

function cannotWrite(file: string, error: unknown): OrbweaverError {
  const isThere = error instanceof Error && "code" in error && error.code === "EEXIST";
  const found = error instanceof Error ? error.message : String(error);
  return new OrbweaverError(
    "BAD_INPUT",
    isThere
      ? `${file} is there already, and is not overwritten: its keys may be in use. Name another file, or use \`orbweaver keys rotate\`.`
      : `the key file cannot be written: ${found}`,
    { cause: error },
  );
}

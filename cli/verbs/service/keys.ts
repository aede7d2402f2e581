/**
 * @file `orbweaver keys …`: creates and rotates the key file of encrypted payloads, shows the ids of its keys, the user's own
 * public key, and the keys of a fleet's orders, of what its processes say, and of its submit service.
 */

import type { Command } from "commander";
import { readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { ownIdentity } from "../../../access/own-identity.ts";
import {
  apiKeyFiles,
  changeOperators,
  changeWithdrawn,
  fleetKeyFiles,
  makeRoleKeys,
  revokeRoleKey,
  rotateRoleKeys,
  wordKeyFiles,
  type RoleKeyFiles,
} from "../../../access/role-keys.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { newKeyLine, parseKeys, readKeys } from "../../../workers/codec/key-ring.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { hasErrorCode } from "../../../lib/error-code.ts";

interface KeysValues {
  readonly json?: boolean;
}

const HEADER =
  "# Encryption keys of Orbweaver's payloads, one a line. The first encrypts, all decrypt.\n" +
  "# Without them nobody reads what they have encrypted: keep a copy in a safe place.\n";

export function keysVerb(context: CommandContext): Command {
  return context
    .verb("keys")
    .summary("keys of encrypted payloads, of a fleet's orders, and your own")
    .description("Works on a key file, as ORBWEAVER_ENCRYPTION_KEYS or --encryption-keys names it.")
    .addCommand(newVerb(context))
    .addCommand(rotateVerb(context))
    .addCommand(showVerb(context))
    .addCommand(identityVerb(context))
    .addCommand(roleKeysVerb(context, FLEET_KEYS))
    .addCommand(roleKeysVerb(context, JOBS_KEYS))
    .addCommand(roleKeysVerb(context, AGENT_KEYS))
    .addCommand(roleKeysVerb(context, API_KEYS))
    .addCommand(keyListVerb(context, OPERATORS))
    .addCommand(keyListVerb(context, WITHDRAWN))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver keys new keys.txt", "a new key file"],
        ["orbweaver up --encryption-keys keys.txt", "start a fleet that encrypts"],
        ["orbweaver keys rotate keys.txt", "add a key that encrypts from now on"],
      ]),
    );
}

function newVerb(context: CommandContext): Command {
  return context
    .verb("new")
    .summary("create a key file")
    .description(
      "Creates a file with one new key, which binds payloads to their workflows, that only you can read. Refuses to replace an existing file.",
    )
    .argument("<file>", "the file to create")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver keys new keys.txt", "a new key file"]]))
    .action(async (name: string, values: KeysValues) => {
      const file = resolve(context.io.cwd, name);
      try {
        await writeFile(file, `${HEADER}${newKeyLine()}\n`, { mode: 0o600, flag: "wx" });
      } catch (error) {
        throw cannotWrite(file, error);
      }
      tell(context, file, values);
    });
}

function rotateVerb(context: CommandContext): Command {
  return context
    .verb("rotate")
    .summary("add a key that encrypts from now on")
    .description(
      "Adds a new key before the others in the file, one that binds payloads to their workflows; processes of releases that know none cannot read the file then. Copy the file to all machines of the fleet: processes look at it before they encrypt, and use the new key from then on. Former keys stay in the file, to decrypt older payloads.",
    )
    .argument("<file>", "the key file")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver keys rotate keys.txt", "add a key"]]))
    .action(async (name: string, values: KeysValues) => {
      const file = resolve(context.io.cwd, name);
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
      tell(context, file, values);
    });
}

function showVerb(context: CommandContext): Command {
  return context
    .verb("show")
    .summary("show the ids of a file's keys")
    .description(
      "Shows the ids of the keys, as they appear beside encrypted payloads. Does not show the keys.",
    )
    .argument("<file>", "the key file")
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver keys show keys.txt", "ids of all keys"]]))
    .action((name: string, values: KeysValues) => {
      tell(context, resolve(context.io.cwd, name), values);
    });
}

function identityVerb(context: CommandContext): Command {
  return context
    .verb("identity")
    .summary("show the public key that your jobs are signed with")
    .description(
      "Shows the public key of your identity, as host policies name it, and creates the identity on first use. The private key stays in a file that only you can read.",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd([["orbweaver keys identity", "your public key"]]))
    .action(({ json }: KeysValues) => {
      const { name, file, publicKey } = ownIdentity(context.io.env);
      if (json === true) context.printJson({ name, key: publicKey, file });
      else context.print(publicKey);
    });
}

interface RoleKeysValues extends KeysValues {
  readonly rotate?: boolean;
  readonly revoke?: string;
}

interface RoleKeysVerb {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly filesOf: (env: CommandContext["io"]["env"]) => RoleKeyFiles;
  /** Jobs are signed with it: one that is revoked gives them no orders either. */
  readonly isSubmitter?: true;
}

const FLEET_KEYS: RoleKeysVerb = {
  name: "fleet",
  summary: "show, rotate or revoke the keys that sign a fleet's orders to hosts",
  description:
    "Shows the public keys whose orders the hosts of this user's fleets obey, the newest first, and makes a pair on first use. They stand in keys/fleet.pub beside your identity (ORBWEAVER_KEYS names another folder); agents of another user or machine need a copy of that file, never of fleet.pem. Running processes see changes at once.",
  filesOf: fleetKeyFiles,
};

const JOBS_KEYS: RoleKeysVerb = {
  name: "jobs",
  summary: "show, rotate or revoke the keys by which the jobs' workers speak to fleets and jobs",
  description:
    "Shows the public keys that workflows believe of the jobs' workers, the newest first, and makes a pair on first use. They stand in keys/jobs.pub beside your identity (ORBWEAVER_KEYS names another folder); jobs.pem belongs to the machines of jobs' workers alone. Running processes see changes at once.",
  filesOf: (env) => wordKeyFiles("jobs", env),
};

const AGENT_KEYS: RoleKeysVerb = {
  name: "agent",
  summary: "show, rotate or revoke the keys by which agents speak to their fleet",
  description:
    "Shows the public keys that a fleet believes of agents, the newest first, and makes a pair on first use. They stand in keys/agent.pub beside your identity (ORBWEAVER_KEYS names another folder); an agent of another user or machine needs a copy of agent.pem, or a line of its own in the agent.pub of the fleet's worker. Running processes see changes at once.",
  filesOf: (env) => wordKeyFiles("agent", env),
};

const API_KEYS: RoleKeysVerb = {
  name: "api",
  summary: "show, rotate or revoke the keys by which the submit service signs",
  description:
    "Shows the public keys by which this user's `orbweaver api` signs the jobs of others, the newest first, and makes a pair on first use. They stand in keys/api.pub beside your identity (ORBWEAVER_KEYS names another folder). A host policy names such a key among its submitters. One that is revoked is withdrawn, too (`orbweaver keys withdrawn`).",
  filesOf: apiKeyFiles,
  isSubmitter: true,
};

function roleKeysVerb(
  context: CommandContext,
  { name, summary, description, filesOf, isSubmitter }: RoleKeysVerb,
): Command {
  return context
    .verb(name)
    .summary(summary)
    .description(description)
    .option("--rotate", "sign with a new key; the former one counts until the next rotation")
    .option("--revoke <key>", "believe this key no more; one that signs is replaced first")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        [`orbweaver keys ${name}`, "the public keys"],
        [`orbweaver keys ${name} --rotate`, "a new key"],
        [`orbweaver keys ${name} --revoke ed25519:…`, "after a key was stolen"],
      ]),
    )
    .action(({ json, rotate, revoke }: RoleKeysValues) => {
      const files = filesOf(context.io.env);
      if (revoke !== undefined) {
        // First, so that what fails can be done again.
        if (isSubmitter === true && makeRoleKeys(files).includes(revoke))
          changeWithdrawn({ add: revoke }, context.io.env);
        revokeRoleKey(revoke, files);
      }
      if (rotate === true) rotateRoleKeys(files);
      const keys = makeRoleKeys(files);
      if (json === true) context.printJson({ file: files.publicFile, keys });
      else for (const key of keys) context.print(key);
    });
}

interface KeyListValues extends KeysValues {
  readonly add?: string;
  readonly remove?: string;
}

/** A list of public keys of users. */
interface KeyListVerb {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly added: string;
  readonly removed: string;
  readonly examples: readonly (readonly [command: string, what: string])[];
  readonly change: typeof changeOperators;
  /** The own key stands before the list. */
  readonly hasOwn?: true;
}

const OPERATORS: KeyListVerb = {
  name: "operators",
  summary: "show or change who gives orders to fleets and to jobs of others",
  description:
    "Shows the public keys whose orders fleets and jobs of this user's workers obey: the user's own identity, and those that keys/operators.pub beside it lists (ORBWEAVER_KEYS names another folder). The machines of the fleet's and of the jobs' workers need the same list. A job obeys its submitter, too. Running processes see changes at once.",
  added: "an operator's public key, as `orbweaver keys identity` prints it",
  removed: "obey this key no more",
  examples: [
    ["orbweaver keys operators", "the public keys"],
    ["orbweaver keys operators --add ed25519:…", "admit an operator"],
  ],
  change: changeOperators,
  hasOwn: true,
};

const WITHDRAWN: KeyListVerb = {
  name: "withdrawn",
  summary: "show or change whose orders nobody obeys",
  description:
    "Shows the public keys whose orders fleets and jobs of this user's workers do not obey, whatever was signed with them: an operator's, and a submitter's to its own jobs. They stand in keys/withdrawn.pub beside your identity (ORBWEAVER_KEYS names another folder); the machines of the fleet's and of the jobs' workers need the same list. What such a key may start hosts decide, by their policies. Running processes see changes at once.",
  added: "obey this key no more",
  removed: "obey it again",
  examples: [
    ["orbweaver keys withdrawn", "the public keys"],
    ["orbweaver keys withdrawn --add ed25519:…", "after a user's key was stolen"],
  ],
  change: changeWithdrawn,
};

function keyListVerb(
  context: CommandContext,
  { name, summary, description, added, removed, examples, change, hasOwn }: KeyListVerb,
): Command {
  return context
    .verb(name)
    .summary(summary)
    .description(description)
    .option("--add <key>", added)
    .option("--remove <key>", removed)
    .option("--json", "answer with one JSON document")
    .addHelpText("after", helpEnd(examples))
    .action(({ json, add, remove }: KeyListValues) => {
      const { env } = context.io;
      const own = hasOwn === true ? ownIdentity(env).publicKey : undefined;
      const wanted = { ...(add !== undefined && { add }), ...(remove !== undefined && { remove }) };
      const { file, keys } = change(wanted, env);
      if (json === true) context.printJson({ file, ...(own !== undefined && { own }), keys });
      else for (const key of [...(own === undefined ? [] : [own]), ...keys]) context.print(key);
    });
}

function tell(context: CommandContext, file: string, { json }: KeysValues): void {
  const [first, ...rest] = readKeys(file);
  if (json === true) {
    context.printJson({ file, encryptsWith: first.id, decryptsAlso: rest.map(({ id }) => id) });
    return;
  }
  context.print(file);
  context.print(`  ${first.id}  encrypts`);
  for (const { id } of rest) context.print(`  ${id}  decrypts`);
}

function cannotWrite(file: string, error: unknown): OrbweaverError {
  const isThere = hasErrorCode(error, "EEXIST");
  const found = error instanceof Error ? error.message : String(error);
  return new OrbweaverError(
    "BAD_INPUT",
    isThere
      ? `${file} is there already, and is not overwritten: its keys may be in use. Name another file, or use \`orbweaver keys rotate\`.`
      : `the key file cannot be written: ${found}`,
    { cause: error },
  );
}

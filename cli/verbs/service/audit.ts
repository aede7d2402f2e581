/** @file `orbweaver audit`: who asked the submit service for what, and how it answered; also what reached the fleet or a job past the service. */

import type { Command } from "commander";
import { readAuditLog, type AuditLine, type AuditRead } from "../../../access/audit-log.ts";
import { auditFileIn } from "../../../api/service.ts";
import type { DisbelievedSender } from "../../../client/disbelieved.ts";
import type { JobChange } from "../../../client/job-changes.ts";
import { parsedJobId } from "../../../client/job-handle.ts";
import { parseDuration } from "../../../domain/values/dimensions.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import type { JobId } from "../../../domain/values/ids.ts";
import { nodeSystem } from "../../../agent/system/node-system.ts";
import { readRefusedTasks } from "../../../workers/refused-tasks.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import type { Session } from "../../command/session.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { timeText } from "../../terminal/duration.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import {
  inOneLine,
  notedTable,
  tableText,
  type Column,
  type NotedRow,
} from "../../terminal/table.ts";
import { hasErrorCode } from "../../../lib/error-code.ts";

interface AuditValues extends ConnectionOptionValues {
  readonly job?: string;
  readonly user?: string;
  readonly since?: string;
  readonly limit: number;
  readonly json?: boolean;
}

export function auditVerb(context: CommandContext): Command {
  const verb = context
    .verb("audit")
    .summary("show who asked for what, and how it was answered")
    .description(
      "Shows the audit of the submit service, the oldest line first: who submitted, changed and cancelled jobs, drained and fenced hosts, from where, and what was refused and why. It is kept where `orbweaver api` runs, in a file that only its user reads and that is only ever added to; each line has the hash of the one before, and a chain that is broken ends with status 1. Keep the last hash elsewhere to see later that nothing was cut off.\n\nWhere the fleet answers it also shows which senders it, its presences, lobbies, learners and hosts did not believe, how often and why: orders and words without a proof of who may say them; and what workers of the control plane on this machine refused. Of hosts and workers the sender is the workflow that gave the order. With --job it shows the same of the job, what the fleet and its hosts did not believe about it, whoever said it, and what its history says: messages that came past the service, from whoever reaches Temporal, by the name that their senders give themselves, who signed its submission, and what hosts refused it and why.",
    )
    .option("--job <job>", "only about this job, with its history")
    .option("--user <user>", "only what this user asked for")
    .option("--since <duration>", "only of this time, e.g. 2h")
    .option("-n, --limit <count>", "most lines, the newest", wholeNumber("--limit", 1), 100)
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver audit --since 1d", "what was asked for today"],
        ["orbweaver audit --job train-7", "who submitted and ended a job"],
        ["orbweaver audit --user ada --json", "what a user did, for a script"],
      ]),
    )
    .action(async (values: AuditValues) => {
      const { io } = context;
      const fleet = fleetNamed(values, io.env);
      const file = auditFileIn(fleetStateDir(io.env, fleet));
      const audit = read(file);
      const { history, silence, ...past } = await pastTheService(context, values);
      const words = [...past.words, ...refusedHere(context, values)].sort(byTime);
      const isSilent = silence !== undefined && words.length === 0;
      if (audit === undefined && isSilent)
        throw new OrbweaverError(
          "NOT_FOUND",
          `there is no audit at ${file}. \`orbweaver api\` keeps one; ask where it runs, as its user. Without it, a fleet that answers shows what it did not believe, and --job the history of a job. ${silence}`,
        );
      const { lines, brokenAt } = audit ?? { lines: [], brokenAt: undefined };
      const chosen = lines.filter(fits(values, io.nowMs())).slice(-values.limit);
      if (chosen.length === 0 && values.job !== undefined && isSilent)
        throw new OrbweaverError(
          "NOT_FOUND",
          `no line of the audit is about job ${values.job}. ${silence}`,
        );
      const last = lines.at(-1)?.hash;
      if (values.json === true)
        context.printJson({
          file,
          lines: chosen,
          ...(history !== undefined && { history }),
          words,
          ...(last !== undefined && { lastHash: last }),
          ...(brokenAt !== undefined && { brokenAt }),
        });
      else {
        const width = widthOf(io.stdout);
        const shown = io.stdout.isTTY === true ? forPeople(width) : forPrograms;
        context.print(chosen.length === 0 ? "no lines" : shown(COLUMNS, chosen.map(row)));
        if (history !== undefined) {
          context.print("\nHistory of the job:");
          context.print(shown(HISTORY_COLUMNS, history.map(historyRow)));
        }
        if (words.length > 0) {
          context.print("\nNot believed, whoever said it:");
          context.print(shown(WORD_COLUMNS, words.map(wordRow)));
        }
        if (silence !== undefined) context.say(silence);
        if (last !== undefined) context.say(`${String(lines.length)} lines, last hash ${last}`);
      }
      if (brokenAt === undefined) return;
      context.say(`the chain of hashes is broken at line ${String(brokenAt)} of ${file}`);
      context.exitWith(EXIT.failure);
    });
  return addConnectionOptions(verb);
}

function read(file: string): AuditRead | undefined {
  try {
    return readAuditLog(file);
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return undefined;
    const why = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError("NOT_ALLOWED", `the audit cannot be read: ${why}`, { cause: error });
  }
}

type Meant = Partial<Record<"job" | "user" | "since", string | undefined>>;

function fits(
  { job, user, since }: Meant,
  nowMs: number,
): (line: Pick<AuditLine, "atMs" | "who"> & { readonly job?: string }) => boolean {
  const length = since === undefined ? undefined : parseDuration(since);
  if (length?.kind === "refused")
    throw new OrbweaverError("BAD_INPUT", `--since ${since ?? ""}: ${length.message}`);
  const fromMs = length === undefined ? -Infinity : nowMs - length.value;
  return (line) =>
    line.atMs >= fromMs &&
    (job === undefined || line.job === job) &&
    (user === undefined || line.who === user);
}

interface PastTheService {
  readonly history?: readonly JobChange[];
  readonly words: readonly DisbelievedSender[];
  /** Why the fleet could not be asked; the audit file is shown all the same. */
  readonly silence?: string;
}

/** What reached the fleet, or the job, without the service. */
async function pastTheService(
  context: CommandContext,
  { job, user, since, ...values }: AuditValues,
): Promise<PastTheService> {
  // A user of the service is no sender of what came past it.
  if (job !== undefined && user !== undefined) return { words: [] };
  const { jobChanges } = await import("../../../client/job-changes.ts");
  const { disbelievedByAttendants, disbelievedByFleet, disbelievedByHosts, disbelievedByJob } =
    await import("../../../client/disbelieved.ts");
  const ask = async ({ temporal, client, fleet }: Session): Promise<PastTheService> => {
    if (job === undefined) {
      const ledger = await client.fleet();
      const others = await disbelievedByAttendants(temporal, fleet, ledger.shape);
      const hosts = await disbelievedByHosts(temporal, fleet, ledger);
      const words = [...disbelievedByFleet(ledger), ...others, ...hosts];
      return { words: words.sort(byTime) };
    }
    const jobId = parsedJobId(job);
    const history = await jobChanges(temporal, jobId);
    const own = await disbelievedByJob(temporal, jobId);
    try {
      const ledger = await client.fleet();
      const hosts = await disbelievedByHosts(temporal, fleet, ledger);
      const others = [...disbelievedByFleet(ledger), ...hosts].filter(isAbout(jobId));
      return { words: [...own, ...others].sort(byTime), history };
    } catch (error) {
      if (!(error instanceof OrbweaverError)) throw error;
      context.say(
        `what the fleet and its hosts refused about the job is not known: ${error.message}`,
      );
      return { words: own, history };
    }
  };
  try {
    const { words, ...rest } = await context.withSession(values, ask);
    const isMeant = fits({ user, since }, context.io.nowMs());
    return { ...rest, words: words.filter(({ atMs, sender }) => isMeant({ atMs, who: sender })) };
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    // The audit may know a job that Temporal has dropped.
    if (job !== undefined && error.code !== "NOT_FOUND") throw error;
    const what = job === undefined ? "the fleet" : "the job";
    return { words: [], silence: `what reached ${what} otherwise is not known: ${error.message}` };
  }
}

/** What workers of the control plane on this machine have refused, also where no server answers. */
function refusedHere(
  { io }: CommandContext,
  { job, user, since, ...values }: AuditValues,
): readonly DisbelievedSender[] {
  if (job !== undefined && user !== undefined) return [];
  const isMeant = fits({ user, since }, io.nowMs());
  const isItsJob = job === undefined ? () => true : isAbout(parsedJobId(job));
  return readRefusedTasks(nodeSystem.files, fleetStateDir(io.env, fleetNamed(values, io.env)))
    .flatMap(([queue, rows]) =>
      rows.map(({ order, ...row }) => ({ ...row, what: order, to: queue })),
    )
    .filter((line) => isMeant({ atMs: line.atMs, who: line.sender }) && isItsJob(line));
}

const byTime = (a: DisbelievedSender, b: DisbelievedSender): number => a.atMs - b.atMs;

/** Whether it names this job, as a word of its own. */
const isAbout =
  (jobId: JobId): ((line: DisbelievedSender) => boolean) =>
  ({ what, why }) =>
    `${what} ${why}`.split(/[\s,;:()]+/).some((word) => word === jobId || word === `${jobId}.`);

type Shown = (columns: readonly Column[], rows: readonly NotedRow[]) => string;

/** The reason under each line, whole. */
const forPeople =
  (width: number): Shown =>
  (columns, rows) =>
    notedTable(columns, rows, width);

/** Every name whole, and a line for each. */
const forPrograms: Shown = (columns, rows) =>
  tableText(
    [...columns, { title: "WHY" }],
    rows.map(({ cells, note }) => [...cells, note].map(inOneLine)),
    Infinity,
  );

const COLUMNS: readonly Column[] = [
  { title: "TIME" },
  { title: "WHO", least: 6 },
  { title: "FROM", least: 6 },
  { title: "ACT" },
  { title: "ABOUT", least: 8 },
  { title: "VERDICT" },
];

const row = ({ atMs, who, from, act, job, verdict, why, more }: AuditLine): NotedRow => ({
  cells: [timeText(atMs), who, from, act, job ?? "", verdict],
  note: `${why ?? ""}${more === undefined ? "" : ` (and ${String(more)} more)`}`,
});

const WORD_COLUMNS: readonly Column[] = [
  { title: "TIME" },
  { title: "TIMES", isRight: true },
  { title: "SENDER", least: 10 },
  { title: "TO", least: 10 },
];

/** The last of them with its reason. */
const wordRow = ({ atMs, sender, times, what, why, to = "" }: DisbelievedSender): NotedRow => ({
  cells: [timeText(atMs), String(times), sender, to],
  note: `${what}: ${why}`,
});

const HISTORY_COLUMNS: readonly Column[] = [
  { title: "TIME" },
  { title: "ACT" },
  { title: "PRINCIPAL", least: 6 },
  { title: "SIGNED BY", least: 6 },
  { title: "SENDER", least: 10 },
];

const historyRow = ({ atMs, act, principal, signer, identity, why }: JobChange): NotedRow => ({
  cells: [timeText(atMs), act, principal ?? "", signer?.name ?? "", identity],
  note: why ?? "",
});

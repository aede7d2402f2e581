/** @file `orbweaver house`: what a fleet keeps on this machine, how large it is, and who removes it; with --collect it removes what is due. */

import type { Command } from "commander";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { fleetStateDir } from "../../../workers/state.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { collect, endFormer } from "../../house/collect.ts";
import {
  collectedText,
  isNothingDue,
  planDocument,
  planText,
  sizeText,
} from "../../house/collection-text.ts";
import { bytesOf } from "../../house/due.ts";
import { houseOf, type House } from "../../house/holdings.ts";
import { byItselfText, noteCollection, readLastCollection } from "../../house/last-collection.ts";
import { placeIn, readersIn } from "../../house/place.ts";
import { planOf, type CollectionPlan, type HousePlace } from "../../house/plan.ts";
import type { StoreReaders } from "../../house/store-marks.ts";
import { counted, timeText } from "../../terminal/duration.ts";
import { accountOf } from "../../terminal/error-line.ts";
import { EXIT } from "../../terminal/exit-code.ts";
import { widthOf } from "../../terminal/io.ts";
import { tableText } from "../../terminal/table.ts";
import { oneAtATime } from "../../up/one-at-a-time.ts";

interface HouseValues extends ConnectionOptionValues {
  readonly json?: boolean;
  readonly collect?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly file?: string;
}

/** In the text; the document has all. */
const MOST_SHOWN = 5;

export function houseVerb(context: CommandContext): Command {
  const verb = context
    .verb("house")
    .summary("show what a fleet keeps on this machine, and remove what is due")
    .description(
      "Shows what `orbweaver up` and the agents of this machine keep for a fleet: databases, archived runs, the store, the output of launches, checkpoints, logs; how large each is, who removes it by which rule, and what is due by that rule; and when things were collected last. So it looks at files alone, asks no server, and removes nothing.\n\nWith --collect it removes what is due by `keep:` of the fleet file, after showing it and asking: checkpoints of jobs that ended 30 days ago, values of the store to which nothing refers, logs of processes that have ended, archived runs beyond 2 GiB, and what is beyond the quotas of tenants, of the jobs that ended first. It never touches what is of a job that has not ended, of one that did not complete while Temporal keeps its history, or of the last day, nor checkpoints from which a job that has not ended is to go on (`run.checkpoint.from`). The console of `up` does the same by itself once a day, unless `keep: { automatic: false }` stands in the fleet file. Beside running workers, agents and consoles it is safe, and so is ending it at any time.",
    )
    .option("--collect", "remove what is due")
    .option("--dry-run", "with --collect: show it, ask nothing and remove nothing")
    .option("--yes", "with --collect: ask nothing; needed where there is no terminal")
    .option(
      "--file <fleet.yaml>",
      "whose keep: says what is due (default: the file that `up` was given last)",
    )
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver house", "what lies where, and the largest checkpoints"],
        ["orbweaver house --json", "the same with the checkpoints of every job, for a script"],
        [
          "orbweaver house --collect --dry-run",
          "what is due, and what is beyond a quota and stays",
        ],
        ["orbweaver house --collect", "the same, and remove it after a question"],
        ["orbweaver house --collect --yes --json", "for cron or a timer, once a day"],
      ]),
    )
    .action(async (values: HouseValues) => {
      const { io } = context;
      const fleet = fleetNamed(values, io.env);
      const stateDir = fleetStateDir(io.env, fleet);
      if (!existsSync(stateDir))
        throw new OrbweaverError(
          "NOT_FOUND",
          `there is no fleet ${fleet} in ${dirname(stateDir)}. Run this where \`orbweaver up\` or an agent was run, or name the fleet with --fleet.`,
        );
      if (values.collect === true) return await collectHere(context, values, { fleet, stateDir });
      if (values.dryRun === true || values.yes === true)
        throw new OrbweaverError("BAD_INPUT", "--dry-run and --yes say how to --collect. Add it.");
      const house = houseOf(stateDir, io.nowMs());
      const last = readLastCollection(stateDir);
      if (values.json === true)
        context.printJson({ fleet, stateDir, ...house, ...(last && { lastCollection: last }) });
      else {
        context.print(houseText(stateDir, house, widthOf(io.stdout)));
        context.print(byItselfText(last, io.nowMs()));
      }
    });
  return addConnectionOptions(verb);
}

async function collectHere(
  context: CommandContext,
  values: HouseValues,
  { fleet, stateDir }: Pick<HousePlace, "fleet" | "stateDir">,
): Promise<void> {
  const { io } = context;
  const place = await placeIn(io, { fleet, stateDir, file: values.file });
  let isAsked = false;
  try {
    await context.withSession(values, async (session) => {
      const asked = await readersIn(session, place, io.interrupted);
      isAsked = true;
      await collectBy(context, values, { place, asked });
    });
  } catch (error) {
    if (isAsked) throw error;
    await collectBy(context, values, { place, asked: accountOf(error).message });
  }
}

async function collectBy(
  context: CommandContext,
  values: HouseValues,
  { place, asked }: { readonly place: HousePlace; readonly asked: StoreReaders | string },
): Promise<void> {
  const { io } = context;
  const { fleet, stateDir } = place;
  const isDry = values.dryRun === true;
  const locked = <T>(work: () => Promise<T>): Promise<T> => oneAtATime(context, stateDir, work);
  const former = isDry ? undefined : await locked(() => Promise.resolve(endFormer(stateDir)));
  const { back, failed } = former ?? { back: 0, failed: [] };
  if (back > 0) context.say(`${counted(back, "thing")} that a collection had begun with came back`);
  const plan = await planOf(place, asked);
  if (values.json !== true) context.print(`in ${stateDir}\n${planText(plan, widthOf(io.stdout))}`);
  const mayCollect = !isDry && (await isAgreed(context, values, plan));
  const collected = mayCollect ? await locked(() => collect(plan, place, { asked })) : undefined;
  if (collected !== undefined) noteCollection(place, collected, false);
  if (values.json === true)
    context.printJson({
      ...{ fleet, stateDir, isDryRun: collected === undefined, ...planDocument(plan) },
      ...(collected !== undefined && { collected }),
    });
  else if (collected !== undefined) context.print(collectedText(collected));
  const left = [...failed, ...(collected?.failed ?? [])];
  for (const each of left) context.say(`not removed: ${each}`);
  if (left.length > 0) context.exitWith(EXIT.failure);
}

/** Without anybody to ask nothing is removed: this cannot be taken back. */
async function isAgreed(
  { io, say }: CommandContext,
  { yes }: HouseValues,
  plan: CollectionPlan,
): Promise<boolean> {
  if (yes === true) return true;
  // Only the ends of jobs are noted.
  if (isNothingDue(plan)) return true;
  const due = plan.kinds.flatMap((kind) => kind.due);
  const question = `remove ${counted(due.length, "thing")}, ${sizeText(bytesOf(due))}? [y/N] `;
  if (io.askLine !== undefined && /^y(es)?$/i.test((await io.askLine(question)).trim()))
    return true;
  say(io.askLine === undefined ? "nothing was removed. Add --yes." : "nothing was removed");
  return false;
}

function houseText(stateDir: string, { holdings, checkpoints }: House, width: number): string {
  const rows = holdings.map(({ what, files, bytes, due }) => [
    what,
    String(files),
    sizeText(bytes),
    due === undefined ? "-" : sizeText(due.bytes),
  ]);
  const columns = [
    { title: "WHAT" },
    { title: "FILES", isRight: true },
    { title: "SIZE", isRight: true },
    { title: "DUE", isRight: true },
  ];
  const unread = holdings.reduce((sum, holding) => sum + holding.unread, 0);
  const largest = checkpoints
    .slice(0, MOST_SHOWN)
    .map(
      ({ folder, bytes, changedAtMs }) =>
        `  ${sizeText(bytes)}  ${folder}, changed ${timeText(changedAtMs)}`,
    );
  return [
    `in ${stateDir}`,
    tableText(columns, rows, width),
    "who removes it",
    ...holdings.map(({ what, keptBy }) => `  ${what}: ${keptBy}`),
    ...(largest.length > 0 ? ["largest checkpoints", ...largest] : []),
    ...(unread > 0 ? [`not counted: ${counted(unread, "file")} that you may not read`] : []),
  ].join("\n");
}

/** @file `orbweaver run -- command`: a job at this terminal, with its output, signals and exit status. */

import type { Command } from "commander";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { openUserSession } from "../../../client/session.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import type { JobFlags } from "../../command/job-flags.ts";
import { addJobOptions } from "../../command/job-options.ts";
import { submitJob } from "../../command/submit-job.ts";
import { typedJob } from "../../command/typed-job.ts";
import { attendJob } from "../../sessions/attended-job.ts";
import { keepSession } from "../../sessions/kept-session.ts";
import { addSessionOptions, type SessionOptionValues } from "../../sessions/options.ts";
import { sessionKeeper } from "../../sessions/session-keeper.ts";
import { terminalSize } from "../../sessions/standard-streams.ts";
import { serviceFor } from "../../up/own-service.ts";
import { EXIT, JOB_EXIT_CODE_HELP } from "../../terminal/exit-code.ts";

interface RunValues extends SessionOptionValues, JobFlags {
  readonly key?: string;
  readonly pty?: boolean;
  readonly input?: boolean;
}

export function runVerb(context: CommandContext): Command {
  const verb = addJobOptions(context.verb("run"))
    .summary("run a command as a job, attached to this terminal")
    .description(
      "Submits a job of class interactive, says why it waits, shows the output of all ranks as it comes, and ends with the job's exit status. Ctrl-C cancels a job that waits; of one that runs, a second Ctrl-C within two seconds does, and TERM does at once. Without this command (HUP, KILL, a lost connection) the job goes on.\n\nWith --pty or --input the command gets what is typed or piped here, over the submit service, as with `exec`: one process on one host, and the job ends with it, with --idle, or a minute after this command is lost. It does not run again after a preemption.",
    )
    .usage("[options] -- command...")
    .option("-k, --key <key>", "id of the job; running the same key twice starts only one job")
    .option("-t, --pty", "at a terminal of its own, as a shell wants it")
    .option("-i, --input", "with this command's standard input")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver run --gpus 1 -- python train.py --epochs 1", "one GPU, now"],
          ["orbweaver run --gpus 8 --same-host -- nvidia-smi -L", "one process for each GPU"],
          ["orbweaver run --gpus 4 --launch per-host -- torchrun train.py", "one for each host"],
          ["orbweaver run --class training --time-limit 2h -- ./train.sh", "as a training job"],
          ["orbweaver run --gpus 1 --pty --idle 30m -- bash", "a shell with a GPU"],
          ["orbweaver run --gpus 1 --input -- python - < probe.py", "standard input"],
        ],
        JOB_EXIT_CODE_HELP,
      ),
    )
    .action(async ({ key, pty, input, ...values }: RunValues) => {
      if (pty === true || input === true)
        return await runWithInput(context, { key, hasTerminal: pty === true, values });
      const job = await typedJob(
        context,
        { class: "interactive", ...values },
        commandOf(context, values),
      );
      await context.withFleet(values, async ({ client }) => {
        if (isOver(context)) return;
        const { jobId } = await submitJob(context, client, {
          ...{ job, key, isAnyway: values.queueAnyway },
        });
        context.say(jobId);
        await attendJob(context, client.job(jobId), { isRaw: true });
      });
    });
  return addSessionOptions(verb);
}

async function runWithInput(
  context: CommandContext,
  {
    key,
    hasTerminal,
    values: { idle: idleMs, ...values },
  }: {
    readonly key: string | undefined;
    readonly hasTerminal: boolean;
    readonly values: SessionOptionValues & JobFlags;
  },
): Promise<void> {
  const command = commandOf(context, values);
  if (values.launch !== undefined && values.launch !== "per-host")
    throw new OrbweaverError(
      "BAD_INPUT",
      `--launch ${values.launch}: a command with input is one process. Leave --launch out, or use \`orbweaver exec\` beside a rank.`,
    );
  // Where there is no service for the input, nothing is submitted.
  const address = await serviceFor(context, values);
  const flags = { class: "interactive", ...values, launch: "per-host", sameHost: true };
  const typed = await typedJob(context, flags, command);
  const keeper = sessionKeeper(command);
  const job = { ...typed, run: { ...typed.run, command: [...keeper.ofJob] } };
  await context.withFleet(values, async ({ client }) => {
    if (isOver(context)) return;
    const { jobId, isNew } = await submitJob(context, client, {
      ...{ job, key, isAnyway: values.queueAnyway },
    });
    if (!isNew)
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `job ${jobId} runs or has run; a command with input cannot join it. Take another --key, or \`orbweaver exec ${jobId}\`.`,
      );
    context.say(jobId);
    const terminal = { ...terminalSize(context), name: context.io.env["TERM"] ?? "xterm" };
    const start = { command: keeper.ofSession, idleMs, ...(hasTerminal && { terminal }) };
    await keepSession(context, client.job(jobId), {
      hasTerminal,
      open: (events) =>
        openUserSession(address, { job: jobId, rank: 0, verb: "exec", start }, events),
    });
  });
}

/** Whether Ctrl-C came before anything was submitted; from here on it ends the job, not this command alone. */
function isOver({ io, endsByItself, exitWith }: CommandContext): boolean {
  if (io.interrupted.aborted) exitWith(EXIT.interrupted);
  else endsByItself();
  return io.interrupted.aborted;
}

/** Throws BAD_INPUT. */
function commandOf({ commandLine = [] }: CommandContext, values: JobFlags): readonly string[] {
  if (commandLine.length === 0)
    throw new OrbweaverError(
      "BAD_INPUT",
      "a command is missing. Write it after --, as in `orbweaver run --gpus 1 -- python train.py`.",
    );
  if (values.array !== undefined || values.hold === true)
    throw new OrbweaverError(
      "BAD_INPUT",
      "a job at a terminal is neither an array nor held. Use `orbweaver submit`.",
    );
  return commandLine;
}

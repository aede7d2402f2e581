/** @file `orbweaver exec JOB[:RANK] -- command`: a command beside a rank of a running job, with its input, output, signals and exit status. */

import type { Command } from "commander";
import { openUserSession } from "../../../client/session.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { statusOfExit } from "../../sessions/exit.ts";
import { addSessionOptions, type SessionOptionValues } from "../../sessions/options.ts";
import { rankNamed } from "../../sessions/rank-name.ts";
import { joinStandardStreams, terminalSize } from "../../sessions/standard-streams.ts";
import { serviceFor } from "../../up/own-service.ts";

interface ExecValues extends SessionOptionValues {
  readonly pty?: boolean;
}

export function execVerb(context: CommandContext): Command {
  const verb = context
    .verb("exec")
    .summary("run a command beside a rank of a running job")
    .description(
      "Starts a command on the host of a rank of a running job: in the job's container, as its user, in its folder, with its environment and its GPUs. Input, output, errors and signals are passed on; the exit status is the command's. It ends with the job at the latest. The way is the submit service (--api), else that of the fleet that `up` has started here; nothing that is typed or printed goes through Temporal.",
    )
    .usage("[options] <job[:rank]> -- command...")
    .argument("<job[:rank]>", "job id, and a rank (default: 0)")
    // Words of a command without `--` before them, its options too, get an error of their own.
    .allowExcessArguments()
    .allowUnknownOption()
    .option("-t, --pty", "at a terminal of its own, as a shell wants it")
    .addHelpText(
      "after",
      helpEnd(
        [
          ["orbweaver exec train-7 -- nvidia-smi", "look at the GPUs of rank 0"],
          ["orbweaver exec --pty train-7 -- bash", "a shell beside rank 0"],
          ["orbweaver exec train-7:3 -- py-spy dump --pid 1234", "beside rank 3"],
          ["orbweaver exec train-7 -- tar c ckpt > ckpt.tar", "copy a folder out"],
        ],
        "Exit status: the command's; 128+n for signal n, 127 command not found.\nOf Orbweaver itself: 1 refused or lost, 2 wrong usage, 3 not found,\n4 no connection.",
      ),
    )
    .action(
      async (name: string, { idle: idleMs, pty, ...values }: ExecValues, { args }: Command) => {
        const command = context.commandLine ?? [];
        const before = args.slice(1);
        const unknown = [name, ...before.slice(0, 1)].find((word) => word.startsWith("-"));
        if (unknown !== undefined)
          throw new OrbweaverError("BAD_INPUT", `unknown option '${unknown}'`);
        if (command.length === 0 || before.length > 0) {
          const example = [...before, ...command].join(" ") || "nvidia-smi";
          throw new OrbweaverError(
            "BAD_INPUT",
            `a command is missing. Write it after --, as in \`orbweaver exec ${name} -- ${example}\`.`,
          );
        }
        const { job, rank } = rankNamed(name);
        const address = await serviceFor(context, values);
        const hasTerminal = pty === true;
        const terminal = { ...terminalSize(context), name: context.io.env["TERM"] ?? "xterm" };
        const start = { command, idleMs, ...(hasTerminal && { terminal }) };
        const exit = await joinStandardStreams(context, hasTerminal, (events) =>
          openUserSession(address, { job, rank, verb: "exec", start }, events),
        );
        context.exitWith(statusOfExit(context, exit));
      },
    );
  return addSessionOptions(verb);
}

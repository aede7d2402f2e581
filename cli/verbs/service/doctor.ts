/** @file `orbweaver doctor`: looks at everything on which a fleet depends, and names a remedy for each thing that is wrong. */

import type { Command } from "commander";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { examine } from "../../doctor/examine.ts";
import type { Finding } from "../../doctor/finding.ts";
import { EXIT } from "../../terminal/exit-code.ts";

export function doctorVerb(context: CommandContext): Command {
  const verb = context
    .verb("doctor")
    .summary("look for what is wrong, with remedies")
    .description(
      "Looks at keys, rights of files, the host policy, the connection, whom the Temporal server lets in, its search attributes and its clock, and at the fleet's rules, workers, agents and refused messages. It changes nothing, but for a workflow that it starts and ends to see whom the server lets in. Ends with 1 if there is a problem; warnings are none.",
    )
    .option("--policy <file>", "host policy of this machine's agents (default: as `up` was given)")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver doctor", "all checks"],
        ["orbweaver doctor --policy /etc/gpu/agent.yaml", "as an agent here was started"],
        ["orbweaver doctor --fleet prod --json", "of one fleet, for a script"],
      ]),
    )
    .action(async (values: DoctorValues) => {
      const findings = await examine(context, values);
      if (findings.some(({ verdict }) => verdict === "problem")) context.exitWith(EXIT.failure);
      if (values.json === true) return context.printJson({ findings });
      for (const finding of findings) printFinding(context, finding);
      const count = (of: Finding["verdict"]): number =>
        findings.filter(({ verdict }) => verdict === of).length;
      context.print(`\n${count("problem")} problems, ${count("warning")} warnings`);
    });
  return addConnectionOptions(verb);
}

interface DoctorValues extends ConnectionOptionValues {
  readonly policy?: string;
  readonly json?: boolean;
}

const SIGNS: Readonly<Record<Finding["verdict"], string>> = {
  ok: "ok     ",
  warning: "warning",
  problem: "PROBLEM",
};

function printFinding(context: CommandContext, { check, verdict, text, remedy }: Finding): void {
  const { colours } = context;
  const paint = { ok: colours.green, warning: colours.yellow, problem: colours.red }[verdict];
  context.print(`${paint(SIGNS[verdict])}  ${check}: ${text}`);
  if (remedy !== undefined && verdict !== "ok") context.print(`         remedy: ${remedy}`);
}

/** @file `orbweaver port-forward JOB[:RANK] PORT[:REMOTE]`: a port of a running job, such as a notebook's, at this machine's loopback address. */

import type { Command } from "commander";
import { openUserSession } from "../../../client/session.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { statusOfExit } from "../../sessions/exit.ts";
import { forwardPort } from "../../sessions/forwarded-port.ts";
import { addSessionOptions, type SessionOptionValues } from "../../sessions/options.ts";
import { rankNamed } from "../../sessions/rank-name.ts";
import { serviceFor } from "../../up/own-service.ts";

interface PortForwardValues extends SessionOptionValues {
  readonly json?: boolean;
}

const MAX_PORT = 65_535;

export function portForwardVerb(context: CommandContext): Command {
  const verb = context
    .verb("port-forward")
    .summary("reach a port of a running job")
    .description(
      "Listens at 127.0.0.1 of this machine, and carries each connection to a port on the host of a rank, until Ctrl-C or the end of the job's run. It reaches only ports of a loopback address on which a process of the job itself listens. Nothing of it goes through Temporal.",
    )
    .argument("<job[:rank]>", "job id, and a rank (default: 0)")
    .argument("<port[:remote]>", "port here (0: a free one), and the job's, where it is another")
    .option("--json", "answer with one JSON document when it listens")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver port-forward notes-3 8888", "a notebook, at http://127.0.0.1:8888"],
        ["orbweaver port-forward train-7:1 0:6006", "TensorBoard of rank 1, at a free port"],
      ]),
    )
    .action(async (name: string, ports: string, values: PortForwardValues) => {
      const { idle: idleMs, json, ...connection } = values;
      const { job, rank } = rankNamed(name);
      const { local, remote } = portsIn(ports);
      const address = await serviceFor(context, connection);
      context.endsByItself();
      const request = { job, rank, verb: "port-forward", port: remote, start: { idleMs } } as const;
      let tellThere: () => void = () => undefined;
      const there = new Promise<void>((resolve) => (tellThere = resolve));
      const { session, port, close } = await forwardPort(
        local,
        (events) =>
          openUserSession(address, request, {
            ...events,
            onPaired: (isPaired) => {
              if (isPaired) tellThere();
            },
          }),
        context.say,
      );
      context.io.interrupted.addEventListener("abort", session.close, { once: true });
      try {
        await Promise.race([there, session.over]);
        const url = `http://127.0.0.1:${String(port)}`;
        if (json === true)
          context.printJson({ job, rank, port: remote, address: "127.0.0.1", url });
        else context.print(`${url} is port ${String(remote)} of rank ${String(rank)} of ${job}`);
        const exit = await session.over;
        if (exit !== undefined) context.exitWith(statusOfExit(context, exit));
      } finally {
        close();
      }
    });
  return addSessionOptions(verb);
}

function portsIn(text: string): { readonly local: number; readonly remote: number } {
  const { here = "", there = here } =
    /^(?<here>\d{1,5})(?::(?<there>\d{1,5}))?$/.exec(text)?.groups ?? {};
  const [local, remote] = [Number(here), Number(there)];
  if (here !== "" && remote >= 1 && remote <= MAX_PORT && local <= MAX_PORT)
    return { local, remote };
  throw new OrbweaverError(
    "BAD_INPUT",
    `${JSON.stringify(text)} is no port. Write PORT or PORT:REMOTE, as in 8888 or 0:8888.`,
  );
}

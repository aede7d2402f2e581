/** @file `orbweaver serve replicas FILE`: one endpoint in front of replicas, each a job, as many as the requests need. */

import type { Command } from "commander";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { addServiceOptions } from "../../command/connection-options.ts";
import { wholeNumber } from "../../command/option-values.ts";
import { addTlsOptions } from "../../command/tls-files.ts";
import type { ReplicasValues } from "../../serving/run-replicas.ts";

export function replicasVerb(context: CommandContext): Command {
  const verb = context
    .verb("replicas")
    .summary("serve a model by as many jobs as its requests need")
    .description(
      "Reads the job file of one replica, an .onnx model or an engine for language models, with `min`, `max` and `scaleToZero` under `serve`. Listens for requests, submits a job for each replica that they need, sends each request to a replica by load and by the beginning of its prompt, and cancels replicas that are not needed, once they have answered. Requests wait while a replica starts, is preempted or moves. With `scaleToZero` an idle service has no replica, and the next request brings one up. On Ctrl-C or TERM it answers the requests in service and ends; its replicas stay for the next endpoint (`orbweaver cancel --label orbweaver/service=NAME` ends them). Run one endpoint a service.",
    )
    .argument("<file>", "job file of one replica, with min, max and scaleToZero under serve")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <n>", "port to listen on, 0 for any", wholeNumber("--port", 0), 8080)
    .option(
      "--access <fleet.yaml>",
      "who may ask, by `access:` of this file: users of the service's tenant, viewers for counts, operators",
    )
    .option("--token-file <file>", "require the token in this file (Authorization: Bearer)")
    .option("--anyone", "answer everybody without a token, because a proxy in front decides")
    .option("--plain", "HTTP beyond this machine, because a proxy in front encrypts")
    .option("--replica-token-file <file>", "token that replicas ask for")
    .option(
      "--queue <n>",
      "most requests that wait; further ones get status 429",
      wholeNumber("--queue", 1),
      1_000,
    )
    .option(
      "--wait <seconds>",
      "longest time that a request waits for a replica",
      wholeNumber("--wait", 1),
      600,
    )
    .option("--json", "answer with one JSON document when it listens")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver serve replicas chat.yaml", "on 127.0.0.1:8080, for yourself"],
        [
          "orbweaver serve replicas chat.yaml --host 0.0.0.0 --access fleet.yaml --cert c.pem --key k.pem",
          "for users whom the fleet file admits",
        ],
        ["curl -s localhost:8080/metrics", "requests, replicas and times"],
        ["orbweaver cancel --label orbweaver/service=chat", "end all replicas"],
      ]),
    )
    .action(async (file: string, values: ReplicasValues) => {
      // What reads job files and asks a fleet takes longer to load than `serve` takes to start, and each replica is a `serve`.
      const { serveReplicas } = await import("../../serving/run-replicas.ts");
      await serveReplicas(context, file, values);
    });
  return addServiceOptions(addTlsOptions(verb));
}

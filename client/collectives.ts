/** @file The collective tuners of a fleet, for callers: their list, the state of each, and a reset. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { OrbweaverError } from "../domain/values/failure.ts";
import {
  COLLECTIVE_TUNER_WORKFLOW,
  collectiveTunerPrefix,
  collectiveTunerQuery,
  collectiveTunerWorkflowId,
  JOB_TASK_QUEUE,
  resetCollectivesUpdate,
  type CollectiveTunerView,
} from "../protocol/messages.ts";
import { given, userProof } from "./orders.ts";
import { listedRuns } from "./job-rows.ts";
import { asked } from "./server-error.ts";
import { queried } from "./waking.ts";

export interface CollectivesHandle {
  /** By place, in code-unit order. */
  readonly list: () => Promise<readonly CollectiveTunerView[]>;
  /** Fails with NOT_FOUND where nothing was tuned. */
  readonly view: (place: string) => Promise<CollectiveTunerView>;
  /** Forgets the measurements of a place, so that every choice is tried again. */
  readonly reset: (place: string) => Promise<CollectiveTunerView>;
}

/** The name of a tuner in commands: `eu-1/2x4-A100-nvlink`. */
export const placeOf = ({ topology }: Pick<CollectiveTunerView, "topology">): string =>
  `${topology.cluster}/${topology.name}`;

export function openCollectives(client: Client, fleet: string): CollectivesHandle {
  const idOf = (place: string): string => {
    const slash = place.indexOf("/");
    const [cluster, name] = [place.slice(0, Math.max(0, slash)), place.slice(slash + 1)];
    if (cluster !== "" && name !== "") return collectiveTunerWorkflowId(fleet, { cluster, name });
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(place)} names no place of collectives; write CLUSTER/CLASS, as \`orbweaver collectives show\` does`,
    );
  };
  const at = async <Answer>(
    place: string,
    ask: (id: string) => Promise<Answer>,
  ): Promise<Answer> => {
    try {
      return await ask(idOf(place));
    } catch (error) {
      const isNone =
        error instanceof WorkflowNotFoundError ||
        (error instanceof OrbweaverError && error.code === "NOT_FOUND");
      if (!isNone) throw error;
      throw new OrbweaverError(
        "NOT_FOUND",
        `nothing was tuned for ${place} in fleet ${fleet}; \`orbweaver collectives show\` lists where something was`,
        { cause: error },
      );
    }
  };
  const viewOf = (id: string): Promise<CollectiveTunerView> =>
    queried(client, `the tuner ${id}`, {
      taskQueue: JOB_TASK_QUEUE,
      query: () => client.workflow.getHandle(id).query(collectiveTunerQuery),
    });
  return {
    async list() {
      const ids = await asked(client, "the list of tuners", async () => {
        const query = `WorkflowType = "${COLLECTIVE_TUNER_WORKFLOW}" AND ExecutionStatus = "Running"`;
        const found: string[] = [];
        for await (const { workflowId } of listedRuns(client, query)) {
          if (workflowId.startsWith(collectiveTunerPrefix(fleet))) found.push(workflowId);
        }
        return found.sort();
      });
      const views = await Promise.all(ids.map(viewOf));
      // The name of another fleet may begin with this one's.
      return views.filter((view) => view.fleet === fleet);
    },
    view: (place) => at(place, viewOf),
    reset: (place) =>
      at(place, (id) =>
        given(client, `the tuner of ${place}`, () =>
          client.workflow.getHandle(id).executeUpdate(resetCollectivesUpdate, {
            args: [
              null,
              userProof({ workflowId: id, signal: resetCollectivesUpdate.name, value: null }),
            ],
          }),
        ),
      ),
  };
}

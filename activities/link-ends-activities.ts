/** @file Asks a fleet which of its agents may take part in probes of links; an activity of the jobs' workers. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { linkEndsQuery } from "../protocol/messages.ts";
import type { LinkEndsActivities } from "../protocol/link-contract.ts";

export const createLinkEndsActivities = (client: Client): LinkEndsActivities => ({
  async linkEnds(fleetWorkflowId) {
    try {
      return await client.workflow.getHandle(fleetWorkflowId).query(linkEndsQuery);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return null;
      throw error;
    }
  },
});

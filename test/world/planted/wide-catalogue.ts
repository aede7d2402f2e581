/** @file Bugs of what only wide worlds have: arrays, jobs that follow others, repairs. As `catalogue.ts` has the others. */

import { AGENT_RULES } from "../../../world/hosts/agent-rules.ts";
import { commands, type PlantedBug } from "./planted-bug.ts";

export const PLANTED_WIDE: readonly PlantedBug[] = [
  {
    name: "an array's cancelled tasks run all the same",
    seenAt: 3,
    climate: "wide",
    planted: {
      array: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "cancel-tasks"
            ? { state, commands: [] }
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "an array gives leases back whose hosts have not confirmed",
    seenAt: 34,
    climate: "harsh",
    planted: {
      array: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          commands<ReturnType<typeof machine.step>["commands"][number]>((command) =>
            command.kind === "tell" && command.entry.kind === "end"
              ? [{ ...command, entry: { ...command.entry, unconfirmedHosts: [] } }]
              : [command],
          )(machine.step(state, event, nowMs)),
      }),
    },
  },
  {
    name: "tasks of a batch that was lost count as completed",
    seenAt: 2,
    climate: "wide",
    planted: {
      array: (machine) => ({
        ...machine,
        step: (state, event, nowMs) => {
          const step = machine.step(state, event, nowMs);
          const lost = step.state.tasks.counts.waiting - state.tasks.counts.waiting;
          if (event.kind !== "tick" || lost <= 0) return step;
          const { counts } = step.state.tasks;
          const wrong = {
            ...counts,
            waiting: counts.waiting - lost,
            completed: counts.completed + lost,
          };
          return {
            ...step,
            state: { ...step.state, tasks: { ...step.state.tasks, counts: wrong } },
          };
        },
      }),
    },
  },
  {
    name: "a batch starts beside the one before it",
    seenAt: 5,
    climate: "hostile",
    planted: {
      agent: {
        isInTheWay: (launch, order, mask) =>
          launch.order.leaseId !== order.leaseId && AGENT_RULES.isInTheWay(launch, order, mask),
      },
    },
  },
  {
    name: "an array never hears of grants that come together",
    seenAt: 30,
    climate: "harsh",
    planted: {
      array: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "grants" && Array.isArray(event.offers) && event.offers.length > 1
            ? { state, commands: [] }
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "any news of a job lets those go on that follow it",
    seenAt: 1,
    climate: "wide",
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "followed"
            ? machine.step(
                state,
                { ...event, news: event.news.map((each) => ({ ...each, state: "completed" })) },
                nowMs,
              )
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a job that follows others never looks at them",
    seenAt: 2,
    climate: "wide",
    planted: {
      job: (machine) => ({
        ...machine,
        step: (state, event, nowMs) =>
          event.kind === "followed"
            ? machine.step(state, { ...event, news: [] }, nowMs)
            : machine.step(state, event, nowMs),
      }),
    },
  },
  {
    name: "a repair frees what jobs deny without asking their hosts",
    seenAt: 40,
    climate: "harsh",
    planted: {
      fleet: (machine) => ({
        ...machine,
        step: (state, event, nowMs) => {
          if (event.kind !== "repaired") return machine.step(state, event, nowMs);
          const denied = event.report.denied.map(({ lease }) => ({
            lease,
            hosts: state.ledger.leases.get(lease)?.gpus.map(({ host }) => host) ?? [],
          }));
          return machine.step(state, { ...event, report: { ...event.report, denied } }, nowMs);
        },
      }),
    },
  },
];

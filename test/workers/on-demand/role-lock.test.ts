/** @file One worker on demand a role: the lock of the living, of the dead, and of one that drains. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ownIdentity } from "../../../agent/system/process-identity.ts";
import { makeFolder } from "../../../agent/system/state-files.ts";
import { lockFileOf, onDemandDir, TASK_QUEUES } from "../../../workers/on-demand/places.ts";
import {
  isRoleServed,
  livingOnDemand,
  takeRoleLock,
} from "../../../workers/on-demand/role-lock.ts";
import { FLEET_TASK_QUEUE, JOB_TASK_QUEUE, SOLVER_TASK_QUEUE } from "../../../protocol/messages.ts";

let stateDir = "";
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), "orbweaver-lock-"));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

it("the lock of a living process is taken by nobody else", () => {
  expect(takeRoleLock(stateDir, "jobs", "b1")).toBeDefined();
  expect(takeRoleLock(stateDir, "jobs", "b1")).toBeUndefined();
  expect(isRoleServed(stateDir, "jobs", "b1")).toBe(true);
});

it("another role and another build have locks of their own", () => {
  takeRoleLock(stateDir, "jobs", "b1");
  expect(isRoleServed(stateDir, "fleet", "b1")).toBe(false);
  expect(takeRoleLock(stateDir, "fleet", "b1")).toBeDefined();
  expect(takeRoleLock(stateDir, "jobs", "b2")).toBeDefined();
});

it("a process that drains has freed its role and is still found", () => {
  takeRoleLock(stateDir, "fleet", "0.1.0-ab")?.startDraining();
  expect(isRoleServed(stateDir, "fleet", "0.1.0-ab")).toBe(false);
  expect(livingOnDemand(stateDir)).toMatchObject([
    { pid: process.pid, role: "fleet", buildId: "0.1.0-ab", isDraining: true },
  ]);
  expect(takeRoleLock(stateDir, "fleet", "0.1.0-ab")).toBeDefined();
  expect(livingOnDemand(stateDir)).toHaveLength(2);
});

it.each([
  ["of a process that is dead", JSON.stringify({ ...ownIdentity(), started: "0" })],
  ["that a crash left empty", ""],
])("a lock %s falls", (_what, content) => {
  makeFolder(onDemandDir(stateDir));
  writeFileSync(lockFileOf(stateDir, "jobs"), content);
  expect(isRoleServed(stateDir, "jobs")).toBe(false);
  expect(livingOnDemand(stateDir)).toEqual([]);
  expect(takeRoleLock(stateDir, "jobs")).toBeDefined();
});

it("nothing runs where nothing ever ran", () => {
  expect(livingOnDemand(join(stateDir, "none"))).toEqual([]);
});

it("the task queues are those of the messages", () => {
  expect(TASK_QUEUES).toEqual({
    fleet: FLEET_TASK_QUEUE,
    jobs: JOB_TASK_QUEUE,
    solver: SOLVER_TASK_QUEUE,
  });
});

/** Where an agent that is a unit of systemd makes the groups of its launches. */

import { expect, it } from "vitest";
import { groupOfUnit } from "../../agent/system/find-containment.ts";

const SYSTEM = "/sys/fs/cgroup/system.slice/system-orbweaver.slice/orbweaver-agent@eu-1.service";
const USER = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service";

it("is the group of its service, also from the subgroup that it was put into", () => {
  expect(groupOfUnit(SYSTEM)).toBe(SYSTEM);
  expect(groupOfUnit(`${SYSTEM}/agent`)).toBe(SYSTEM);
});

it.each([
  `${USER}/agent.service`,
  `${USER}/init.scope`,
  `${USER}/app.slice`,
  `${SYSTEM}/orbweaver/lease-1`,
  "/sys/fs/cgroup",
])("is never that of another unit: %s", (own) => {
  expect(groupOfUnit(own)).toBe(own);
});

/** @file From one version of the rules to the next. */

import { describe, expect, it } from "vitest";
import { emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { NEWEST_RULES, OLDEST_RULES } from "../../../scheduling/ledger/ledger.ts";
import { upgradeLedger } from "../../../scheduling/ledger/upgrade.ts";

const NEW = emptyLedger({ clusters: [], links: [], tenants: [] });
const OLD = { ...NEW, applyVersion: OLDEST_RULES };

describe("a ledger", () => {
  it("goes from the oldest rules to the newest", () => {
    expect(upgradeLedger(OLD)).toEqual(NEW);
    expect(NEW.applyVersion).toBe(NEWEST_RULES);
  });

  it("stays as it is when it follows the rules already", () => {
    expect(upgradeLedger(NEW)).toBe(NEW);
    expect(upgradeLedger(OLD, OLDEST_RULES)).toBe(OLD);
  });

  it("cannot skip rules that nobody knows", () => {
    expect(() => upgradeLedger(OLD, NEWEST_RULES + 1)).toThrow(/no step leads from version/);
  });
});

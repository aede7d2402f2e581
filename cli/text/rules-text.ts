/** @file Which rules a fleet follows, and whether newer ones can be committed. */

import { processText, type FleetRules } from "../../client/rules/upgrade-fleet.ts";

const MAX_LISTED = 5;

export function rulesLines(
  { fleet, rules, newest, older }: FleetRules,
  nowMs: number,
): readonly string[] {
  if (rules >= newest) return [`rules: ${rules}, the newest of this release`];
  const known = `rules: ${rules}; this release knows ${newest}`;
  if (older.length === 0) return [`${known}: orbweaver fleet upgrade ${fleet}`];
  const ended = older.length === 1 ? "1 older process has" : `${older.length} older processes have`;
  const rest = older.length - MAX_LISTED;
  return [
    `${known}, once ${ended} ended:`,
    ...older.slice(0, MAX_LISTED).map((each) => `  ${processText(each, nowMs)}`),
    ...(rest > 0 ? [`  and ${rest} more`] : []),
  ];
}

export const rulesDocument = ({ rules, newest, older }: FleetRules): object => ({
  rules,
  newest,
  canUpgrade: rules < newest && older.length === 0,
  older,
});

/**
 * @file A bounded list of records by run, in order of arrival: the latest word of a run counts, and no tenant pushes out what others measured.
 *
 * A group that is full gives up its oldest, a full list the oldest of the group that has most at the tenant that has most, ties to the oldest.
 * Pure. Cost: O(records) a word.
 */

export interface BoundedRecord {
  /** Whose word it is: one record each. */
  readonly run: string;
  readonly tenant: string;
  readonly atMs: number;
}

export interface Bounds<Kept> {
  readonly groupOf: (record: Kept) => string;
  readonly mostInGroup: number;
  readonly most: number;
}

export function withRecord<Kept extends BoundedRecord>(
  records: readonly Kept[],
  record: Kept,
  { groupOf, mostInGroup, most }: Bounds<Kept>,
): readonly Kept[] {
  const former = records.find(({ run }) => run === record.run);
  if (former !== undefined && former.atMs >= record.atMs) return records;
  const all = [...records.filter((kept) => kept !== former), record];
  const own = all.filter((kept) => groupOf(kept) === groupOf(record));
  if (own.length > mostInGroup) return all.filter((kept) => kept !== own[0]);
  if (all.length <= most) return all;
  const [gone] = ofMost(
    ofMost(all, ({ tenant }) => tenant),
    groupOf,
  );
  return all.filter((kept) => kept !== gone);
}

/** Those of the groups that have most, in their order. */
function ofMost<Kept>(
  records: readonly Kept[],
  groupOf: (record: Kept) => string,
): readonly Kept[] {
  const counts = new Map<string, number>();
  for (const record of records) counts.set(groupOf(record), (counts.get(groupOf(record)) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return records.filter((record) => counts.get(groupOf(record)) === most);
}

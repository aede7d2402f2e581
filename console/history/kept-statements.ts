/**
 * @file Writes to a history database by statements that are prepared once each. A prepared statement is memory of SQLite's, tens of kilobytes with its
 * triggers, which only the collection of its object gives back; V8 knows nothing of it and sees no reason to collect.
 *
 * Reads are prepared anew: their rows are objects that reset the statement when they are collected, perhaps while it is read again.
 */

import type Libsql from "libsql";

export type RunStatement = (query: string, values: object) => Libsql.RunResult;

/** `query`: one of few, because each is kept. */
export function createStatements(database: Libsql.Database): RunStatement {
  const prepared = new Map<string, Libsql.Statement>();
  return (query, values) => {
    const statement = prepared.get(query) ?? database.prepare(query);
    prepared.set(query, statement);
    return statement.run(values);
  };
}

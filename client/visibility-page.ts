/**
 * @file Reads a page of Temporal's visibility off the wire: of each row what lists show, and of its attributes and its memo what is asked for.
 *
 * Temporal's own message types read all of a row into objects, a dozen payloads with two words of metadata each, and are compiled first: half of the
 * processor time of a list of a thousand jobs. Field numbers are those of `temporal/api/workflow/v1/message.proto`, `common/v1/message.proto`
 * and `workflowservice/v1/request_response.proto`. Cost: one walk over the bytes.
 */

import protobuf from "protobufjs/minimal.js";

export interface VisibilityPage {
  readonly rows: readonly VisibilityRow[];
  /** Empty after the last page. */
  readonly nextPageToken: Uint8Array;
}

/** What is absent on the wire has its empty value. */
export interface VisibilityRow {
  readonly workflowId: string;
  /** Number of a `WorkflowExecutionStatus`. */
  readonly status: number;
  /** Milliseconds since 1970. */
  readonly startedAtMs: number;
  readonly closedAtMs?: number;
  /** JSON texts: no codec touches search attributes. */
  readonly attributes: ReadonlyMap<string, string>;
  /** Each an encoded `Payload`. */
  readonly memo: ReadonlyMap<string, Uint8Array>;
}

export interface AskedEntries {
  readonly attributes: ReadonlySet<string>;
  readonly memo: ReadonlySet<string>;
}

type Reader = protobuf.Reader;

export function readVisibilityPage(bytes: Uint8Array, asked: AskedEntries): VisibilityPage {
  const reader = protobuf.Reader.create(bytes);
  const rows: VisibilityRow[] = [];
  let nextPageToken: Uint8Array = new Uint8Array();
  while (reader.pos < bytes.length) {
    const tag = reader.uint32();
    if (tag === tagOf(1)) rows.push(readRow(reader, asked));
    else if (tag === tagOf(2)) nextPageToken = reader.bytes();
    else reader.skipType(tag & 7);
  }
  return { rows, nextPageToken };
}

/** Of a field with a length, such as a message. */
const tagOf = (field: number): number => (field << 3) | 2;
const STATUS_TAG = 5 << 3;
const [NAME, VALUE] = [tagOf(1), tagOf(2)];
const [EXECUTION, STARTED, CLOSED, MEMO, ATTRIBUTES] = [1, 3, 4, 10, 11].map(tagOf);

function readRow(reader: Reader, asked: AskedEntries): VisibilityRow {
  const attributes = new Map<string, string>();
  const memo = new Map<string, Uint8Array>();
  let [workflowId, status, startedAtMs] = ["", 0, 0];
  let closedAtMs: number | undefined;
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === EXECUTION) workflowId = readName(reader);
    else if (tag === STARTED) startedAtMs = readTime(reader);
    else if (tag === CLOSED) closedAtMs = readTime(reader);
    else if (tag === STATUS_TAG) status = reader.int32();
    else if (tag === ATTRIBUTES)
      readEntries(reader, asked.attributes, (name) => {
        attributes.set(name, readJson(reader));
      });
    else if (tag === MEMO)
      readEntries(reader, asked.memo, (name) => {
        memo.set(name, reader.bytes());
      });
    else reader.skipType(tag & 7);
  }
  return {
    ...{ workflowId, status, startedAtMs, attributes, memo },
    ...(closedAtMs !== undefined && { closedAtMs }),
  };
}

/** Of a message whose one field is a map. `read` reads the value of an entry that is asked for. */
function readEntries(
  reader: Reader,
  asked: ReadonlySet<string>,
  read: (name: string) => void,
): void {
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag !== NAME) {
      reader.skipType(tag & 7);
      continue;
    }
    let name = "";
    for (const entryEnd = endOf(reader); reader.pos < entryEnd;) {
      const part = reader.uint32();
      if (part === NAME) name = reader.string();
      else if (part === VALUE && asked.has(name)) read(name);
      else reader.skipType(part & 7);
    }
  }
}

/** The data of a `Payload`. */
function readJson(reader: Reader): string {
  let text = "";
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === VALUE) text = reader.string();
    else reader.skipType(tag & 7);
  }
  return text;
}

/** The first field of a message. */
function readName(reader: Reader): string {
  let name = "";
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === NAME) name = reader.string();
    else reader.skipType(tag & 7);
  }
  return name;
}

/** Milliseconds of a `Timestamp`, whose seconds fit 32 bits until the year 2106. */
function readTime(reader: Reader): number {
  let [seconds, nanos] = [0, 0];
  for (const end = endOf(reader); reader.pos < end;) {
    const tag = reader.uint32();
    if (tag === 1 << 3) seconds = reader.uint32();
    else if (tag === 2 << 3) nanos = reader.int32();
    else reader.skipType(tag & 7);
  }
  return seconds * 1_000 + Math.floor(nanos / 1e6);
}

const endOf = (reader: Reader): number => {
  const length = reader.uint32();
  return reader.pos + length;
};

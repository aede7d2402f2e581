/**
 * @file Makes sure that a namespace has the search attributes that jobs write.
 *
 * Missing ones are added where this client may; otherwise the error has the exact commands for an administrator. An attribute
 * that exists with another type is an error too.
 */
import { isGrpcServiceError } from "@temporalio/client";
import type { OperatorService, WorkflowService } from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import proto from "@temporalio/proto";
import type {
  SearchAttribute,
  SearchAttributeType,
} from "../../domain/values/search-attributes.ts";

/** What a client's `Connection` and a worker's `NativeConnection` have in common here. */
export interface OperatorConnection {
  readonly operatorService: Pick<OperatorService, "listSearchAttributes" | "addSearchAttributes">;
  readonly workflowService: Pick<WorkflowService, "countWorkflowExecutions">;
}

const { IndexedValueType } = proto.temporal.api.enums.v1;

const TYPE_NUMBERS: Readonly<Record<SearchAttributeType, number>> = {
  Text: IndexedValueType.INDEXED_VALUE_TYPE_TEXT,
  Keyword: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
  Int: IndexedValueType.INDEXED_VALUE_TYPE_INT,
  Double: IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
  Bool: IndexedValueType.INDEXED_VALUE_TYPE_BOOL,
  Datetime: IndexedValueType.INDEXED_VALUE_TYPE_DATETIME,
  KeywordList: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
};
const TYPE_NAMES = new Map(Object.entries(TYPE_NUMBERS).map(([name, number]) => [number, name]));

/** PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED: this server does not show the list to this client. */
const CLOSED_TO_US = new Set<number>([7, 12, 16]);

const INVALID_ARGUMENT = 3;

/** Returns the names that were added; throws SEARCH_ATTRIBUTES_MISSING. */
export async function ensureSearchAttributes(
  connection: OperatorConnection,
  namespace: string,
  wanted: readonly SearchAttribute[],
): Promise<readonly string[]> {
  const missing = await missingSearchAttributes(connection, namespace, wanted);
  if (missing.length === 0) return [];
  try {
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(
        missing.map(({ name, type }) => [name, TYPE_NUMBERS[type]]),
      ),
    });
  } catch (error) {
    // Another worker may have added them at the same moment.
    const stillMissing = await missingSearchAttributes(connection, namespace, wanted);
    if (stillMissing.length > 0) throw refusal(namespace, stillMissing, detailsOf(error));
  }
  return missing.map(({ name }) => name);
}

/** Those that the namespace lacks; throws SEARCH_ATTRIBUTES_MISSING where one has another type, or they cannot be listed. */
export async function missingSearchAttributes(
  connection: OperatorConnection,
  namespace: string,
  wanted: readonly SearchAttribute[],
): Promise<readonly SearchAttribute[]> {
  let present: Map<string, number>;
  try {
    const answer = await connection.operatorService.listSearchAttributes({ namespace });
    present = new Map(Object.entries(answer.customAttributes));
  } catch (error) {
    if (!isGrpcServiceError(error) || !CLOSED_TO_US.has(error.code)) throw error;
    if (await canBeAskedFor(connection, namespace, wanted)) return [];
    throw refusal(namespace, wanted, `they cannot be listed: ${detailsOf(error)}`);
  }
  for (const { name, type } of wanted) {
    const found = present.get(name);
    if (found === undefined || found === TYPE_NUMBERS[type]) continue;
    throw ApplicationFailure.nonRetryable(
      `namespace ${namespace} has the search attribute ${name} with type ` +
        `${TYPE_NAMES.get(found) ?? String(found)}, jobs need ${type}: use another namespace, or remove it with ` +
        `\`temporal operator search-attribute remove --namespace ${namespace} --name ${name}\``,
      "SEARCH_ATTRIBUTES_MISSING",
    );
  }
  return wanted.filter(({ name }) => !present.has(name));
}

/** Where the list is closed (Temporal Cloud), a query that names an attribute fails when the attribute does not exist. */
async function canBeAskedFor(
  { workflowService }: OperatorConnection,
  namespace: string,
  wanted: readonly SearchAttribute[],
): Promise<boolean> {
  const query = wanted.map(({ name }) => `${name} IS NULL`).join(" AND ");
  try {
    await workflowService.countWorkflowExecutions({ namespace, query });
    return true;
  } catch (error) {
    if (isGrpcServiceError(error) && error.code === INVALID_ARGUMENT) return false;
    throw error;
  }
}

/** One command for each type, because the command takes one type for all its names. */
function createCommands(
  namespace: string,
  attributes: readonly SearchAttribute[],
): readonly string[] {
  const types = [...new Set(attributes.map(({ type }) => type))];
  return types.map((type) => {
    const names = attributes.filter((attribute) => attribute.type === type);
    const flags = names.map(({ name }) => `--name ${name}`).join(" ");
    return `temporal operator search-attribute create --namespace ${namespace} ${flags} --type ${type}`;
  });
}

function refusal(
  namespace: string,
  missing: readonly SearchAttribute[],
  why: string,
): ApplicationFailure {
  const names = missing.map(({ name }) => name).join(", ");
  return ApplicationFailure.nonRetryable(
    [
      `namespace ${namespace} lacks the search attributes ${names}, and this client may not add them (${why}). Run:`,
      ...createCommands(namespace, missing).map((command) => `  ${command}`),
    ].join("\n"),
    "SEARCH_ATTRIBUTES_MISSING",
    { namespace, missing: missing.map(({ name }) => name) },
  );
}

function detailsOf(error: unknown): string {
  if (isGrpcServiceError(error)) return error.details;
  return error instanceof Error ? error.message : String(error);
}

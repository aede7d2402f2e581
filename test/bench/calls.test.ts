/** @file Reading the server's own count of calls. */
import { expect, test } from "vitest";
import { callsSince, readCalls, totalOf } from "../../bench/idle/calls.ts";

const METRICS = `# TYPE service_requests counter
service_requests{namespace="default",operation="PollActivityTaskQueue",service_name="frontend",taskqueue="a"} 5
service_requests{namespace="default",operation="PollActivityTaskQueue",service_name="frontend",taskqueue="b"} 2e+01
service_requests{namespace="default",operation="RecordActivityTaskHeartbeat",service_name="frontend"} 3
service_requests{namespace="temporal-system",operation="PollActivityTaskQueue",service_name="frontend"} 100
service_requests{namespace="default",operation="AddActivityTask",service_name="matching"} 100
service_requests_other{namespace="default",operation="X",service_name="frontend"} 100
service_errors{namespace="default",operation="X",service_name="frontend"} 100
`;

test("calls to the frontend about the namespace count, all task queues together", () => {
  expect([...readCalls(METRICS, "default")]).toEqual([
    ["PollActivityTaskQueue", 25],
    ["RecordActivityTaskHeartbeat", 3],
  ]);
});

test("only what came since counts", () => {
  const before = new Map([["PollActivityTaskQueue", 25]]);
  const after = new Map([
    ["PollActivityTaskQueue", 27],
    ["StartWorkflowExecution", 1],
  ]);
  const since = callsSince(before, after);
  expect([...since]).toEqual([
    ["PollActivityTaskQueue", 2],
    ["StartWorkflowExecution", 1],
  ]);
  expect(totalOf(since)).toBe(3);
});

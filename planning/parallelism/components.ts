/**
 * @file The strongly connected components of a directed graph, numbered by their lowest node.
 *
 * Tarjan's algorithm without recursion. Cost: O(nodes + edges).
 */

export interface Components {
  /** Of each node. */
  readonly operators: Int32Array;
  readonly count: number;
}

export function componentsOf(next: readonly (readonly number[])[]): Components {
  const found = new Int32Array(next.length).fill(-1);
  const low = new Int32Array(next.length);
  const component = new Int32Array(next.length).fill(-1);
  const open: number[] = [];
  let [clock, count] = [0, 0];
  for (let root = 0; root < next.length; root += 1) {
    if (found[root] !== -1) continue;
    const path: { readonly node: number; at: number }[] = [];
    const enter = (node: number): void => {
      found[node] = low[node] = clock;
      clock += 1;
      open.push(node);
      path.push({ node, at: 0 });
    };
    enter(root);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const { node } = top;
      const other = next[node]?.[top.at];
      top.at += 1;
      if (other === undefined) {
        if (low[node] === found[node]) close(node);
        path.pop();
        const parent = path.at(-1)?.node;
        if (parent !== undefined) low[parent] = Math.min(low[parent] ?? 0, low[node] ?? 0);
      } else if (found[other] === -1) enter(other);
      else if (component[other] === -1) low[node] = Math.min(low[node] ?? 0, found[other] ?? 0);
    }
  }
  return { operators: renumbered(component, count), count };

  function close(node: number): void {
    for (let member = open.pop(); member !== undefined; member = open.pop()) {
      component[member] = count;
      if (member === node) break;
    }
    count += 1;
  }
}

function renumbered(component: Int32Array, count: number): Int32Array {
  const numbers = new Int32Array(count).fill(-1);
  let next = 0;
  return component.map((own) => {
    if (numbers[own] === -1) {
      numbers[own] = next;
      next += 1;
    }
    return numbers[own] ?? 0;
  });
}

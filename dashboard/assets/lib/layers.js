// Where the boxes of a graph stand: in columns, each box to the right of all that lead to it. Pure: it knows no page.

/**
 * `keys` are the boxes, the leftmost first; `edges` are pairs of keys; `size` is `{ width, height, across, below }`, that of a
 * box and of the gaps. Gives the corner of each box by its key, the points of each edge, and the size of all.
 */
export function layers(keys, edges, size) {
  const forward = edges.filter(noneBack(keys, edges));
  const columns = columnsOf(keys, forward);
  const chains = bend(columns, edges, forward);
  for (const turn of [0, 1, 2, 3]) arrange(columns, chains, turn % 2 === 1);
  return place(columns, edges, chains, size);
}

/** Tells the edges apart that close a circle: a value may be older than what it was once made of. */
function noneBack(keys, edges) {
  const back = new Set();
  const state = new Map();
  const visit = (key) => {
    state.set(key, "open");
    for (const edge of edges.filter(([from]) => from === key)) {
      if (state.get(edge[1]) === "open") back.add(edge);
      else if (!state.has(edge[1])) visit(edge[1]);
    }
    state.set(key, "done");
  };
  for (const key of keys) if (!state.has(key)) visit(key);
  return (edge) => !back.has(edge);
}

// The column of a box is the length of the longest way to it.
function columnsOf(keys, edges) {
  const at = new Map();
  const depth = (key) => {
    if (!at.has(key)) at.set(key, Math.max(-1, ...edges.filter(([, to]) => to === key).map(([from]) => depth(from))) + 1);
    return at.get(key);
  };
  const columns = [];
  for (const key of keys) (columns[depth(key)] ??= []).push({ key });
  return columns;
}

/** An edge over several columns goes through a free place in each between. Gives the cells of every forward edge. */
function bend(columns, edges, forward) {
  const cells = new Map(columns.flatMap((column, at) => column.map((cell) => [cell.key, Object.assign(cell, { at })])));
  const isForward = new Set(forward);
  return edges.map((edge) => {
    const [from, to] = edge.map((key) => cells.get(key));
    const chain = [from];
    if (isForward.has(edge)) {
      for (let at = from.at + 1; at < to.at; at += 1) {
        const bend = { at };
        columns[at].push(bend);
        chain.push(bend);
      }
    }
    return [...chain, to];
  });
}

/** Puts each cell near the middle of those that it is joined to in the column before, or behind. */
function arrange(columns, chains, backwards) {
  const pairs = chains.flatMap((chain) => chain.slice(1).map((cell, at) => [chain[at], cell]));
  const ordered = backwards ? [...columns].reverse() : columns;
  for (const column of ordered) column.forEach((cell, row) => { cell.row = row; });
  for (const column of ordered) {
    for (const cell of column) {
      const near = pairs.filter((pair) => pair[backwards ? 0 : 1] === cell).map((pair) => pair[backwards ? 1 : 0].row);
      cell.middle = near.length ? near.reduce((sum, row) => sum + row, 0) / near.length : cell.row;
    }
    column.sort((one, other) => one.middle - other.middle || one.row - other.row);
    column.forEach((cell, row) => { cell.row = row; });
  }
}

function place(columns, edges, chains, { width, height, across, below }) {
  const tall = (cell) => (cell.key === undefined ? 0 : height);
  const heights = columns.map((column) => column.reduce((sum, cell) => sum + tall(cell) + below, -below));
  const tallest = Math.max(...heights);
  columns.forEach((column, at) => {
    let y = (tallest - heights[at]) / 2;
    for (const cell of column) {
      Object.assign(cell, { x: at * (width + across), y });
      y += tall(cell) + below;
    }
  });
  const middle = (cell) => cell.y + tall(cell) / 2;
  const lines = chains.map((chain) => chain.flatMap((cell, at) => [
    at > 0 ? [cell.x, middle(cell)] : null,
    at < chain.length - 1 ? [cell.x + width, middle(cell)] : null,
  ].filter(Boolean)));
  const boxes = columns.flatMap((column) => column.filter(({ key }) => key !== undefined));
  return {
    boxes: boxes.map(({ key, x, y }) => ({ key, x, y })),
    edges: edges.map(([from, to], at) => ({ from, to, points: lines[at] })),
    width: columns.length * (width + across) - across,
    height: tallest,
  };
}

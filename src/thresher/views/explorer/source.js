// Where cells come from: a server, or the page itself.

const given = JSON.parse(document.getElementById("data").textContent);

class ServerSource {
  constructor() {
    this.isLive = true;
    this.token = new URLSearchParams(location.search).get("token") || "";
    setInterval(() => this.ask("/beat", {}).catch(() => {}), 10000);
    addEventListener("pagehide", () =>
      navigator.sendBeacon("/bye", JSON.stringify({ token: this.token })));
  }

  async bytes(path, body) {
    const answer = await fetch(path, {
      method: "POST", headers: { "X-Token": this.token }, body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(await answer.text());
    return new Uint8Array(await answer.arrayBuffer());
  }

  async ask(path, body) {
    return JSON.parse(new TextDecoder().decode(await this.bytes(path, body)));
  }

  describe() { return this.ask("/describe", {}); }
  window(wanted) { return this.bytes("/window", wanted); }
  side(side, level, start, stop) { return this.bytes("/side", { side, level, start, stop }); }
}

const inside = (v, low, top) => Math.max(low, Math.min(v, top));

function meaningOf(column, cuts, code) {
  if (code === 255) return "missing";
  if (column.kind === "category") return column.values[code] ?? "(other)";
  const place = Math.floor(code / given.cells.ranks_per_cut);
  return cuts.length ? `${cuts[Math.min(place, cuts.length - 1)]}` : "";
}

// As the server tells it: Cliff's delta of numbers, total variation of categories.
function difference(column, cuts, here, rest) {
  const sum = (counts) => counts.subarray(0, 255).reduce((a, b) => a + b, 0);
  const missing = (counts) => counts[255] / Math.max(sum(counts) + counts[255], 1);
  const gap = Math.abs(missing(here) - missing(rest)), n = sum(here), m = sum(rest);
  if (!n || !m) return { effect: 0, here: "", rest: "", order: gap };
  let effect = 0, below = 0, most = 0;
  for (let c = 0; c < 255; c++) {
    const p = here[c] / n, q = rest[c] / m;
    if (column.kind === "category") effect += Math.abs(p - q) / 2;
    else effect += p * (2 * below + q - 1);
    below += q;
    if (p - q > here[most] / n - rest[most] / m) most = c;
  }
  const order = Math.max(Math.abs(effect), gap);
  if (column.kind === "category") {
    const word = (share) => `${meaningOf(column, cuts, most)}: ${Math.round(100 * share)}%`;
    return { effect, here: word(here[most] / n), rest: word(rest[most] / m), order };
  }
  const median = (counts, total) => {
    let c = 0;
    for (let seen = counts[0]; seen < total / 2; seen += counts[c]) c++;
    return meaningOf(column, cuts, c);
  };
  return { effect, here: median(here, n), rest: median(rest, m), order };
}

class PageSource {
  constructor(table) {
    this.isLive = false;
    this.table = table;
    this.first = table.cells.first_level;
    this.levels = new Map();
    this.named = new Map();
  }

  async unpacked(key, text) {
    if (!this.levels.has(key)) {
      const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
      this.levels.set(key, new Uint8Array(await new Response(stream).arrayBuffer()));
    }
    return this.levels.get(key);
  }

  async describe() { return this.table; }

  async window({ level, start, stop, first, last, step }) {
    const cells = await this.unpacked(`map ${level}`, this.table.cells.means[level - this.first]);
    const rows = Math.ceil(this.table.rows / 2 ** level), height = stop - start;
    const width = Math.ceil((last - first) / step), out = new Uint8Array(width * height);
    for (let k = 0; k < width; k++) {
      const from = (first + k * step) * rows;
      out.set(cells.subarray(from + start, from + stop), k * height);
    }
    return out;
  }

  async side(side, level, start, stop) {
    const packed = this.table.cells.sides[side][level - this.first];
    const cells = await this.unpacked(`side ${side} ${level}`, packed);
    const rows = Math.ceil(this.table.rows / 2 ** level), parts = cells.length / rows;
    const out = new Uint8Array(parts * (stop - start));
    for (let k = 0; k < parts; k++)
      out.set(cells.subarray(k * rows + start, k * rows + stop), k * (stop - start));
    return out;
  }

  // What a server would answer, as far as cells can tell.
  async ask(path, asked) {
    if (path === "/summary") return this.summary(asked.ranges);
    if (path === "/cuts") return this.table.cells.clusters[inside(asked.clusters, 2, 12)];
    if (path === "/name") {
      if (!asked.name.trim()) throw new Error("a selection needs a name");
      this.named.set(asked.name, asked.ranges);
      return [...this.named.keys()];
    }
    throw new Error("a page without a server cannot tell");
  }

  async bytes(path, asked) {
    if (path === "/labels") return new TextEncoder().encode(await this.labels());
    if (path === "/points") return this.points(asked);
    throw new Error("a page without a server cannot tell");
  }

  async finest() {
    const rows = Math.ceil(this.table.rows / 2 ** this.first);
    const cells = await this.unpacked(`map ${this.first}`, this.table.cells.means[0]);
    return { rows, cells };
  }

  chosen(ranges, rows) {
    const size = 2 ** this.first, out = new Uint8Array(rows);
    for (const [start, stop] of ranges) out.fill(1, Math.floor(start / size), Math.ceil(stop / size));
    return out;
  }

  async summary(ranges) {
    const { rows, cells } = await this.finest(), chosen = this.chosen(ranges, rows);
    const columns = this.table.columns.map((column, j) => {
      const here = new Float64Array(256), rest = new Float64Array(256);
      for (let i = 0; i < rows; i++) (chosen[i] ? here : rest)[cells[j * rows + i]]++;
      return { name: column.name, ...difference(column, this.table.cells.cuts[j], here, rest) };
    });
    columns.sort((a, b) => b.order - a.order);
    const places = ranges.reduce((sum, [start, stop]) => sum + stop - start, 0);
    return { rows: places, columns };
  }

  async points({ x, y, ranges }) {
    const { rows, cells } = await this.finest(), chosen = this.chosen(ranges, rows);
    const every = Math.max(1, Math.floor(rows / 4000)), n = Math.ceil(rows / every);
    const out = new Uint8Array(3 * n);
    for (let k = 0; k < n; k++) {
      out[k] = cells[x * rows + k * every];
      out[n + k] = cells[y * rows + k * every];
      out[2 * n + k] = chosen[k * every];
    }
    return out;
  }

  // Numbers of rows, or, of very many rows, places in the order.
  async labels() {
    const packed = await this.unpacked("order", this.table.cells.order);
    const numbers = new Uint32Array(packed.slice().buffer), lines = [];
    for (const [name, ranges] of this.named)
      for (const [start, stop] of ranges)
        for (let place = start; place < stop; place++)
          lines.push([numbers.length ? numbers[place] : place + 1, name]);
    lines.sort((a, b) => a[0] - b[0]);
    const head = numbers.length ? '"row","label"' : '"place","label"';
    return [head, ...lines.map(([row, name]) => `${row},"${name.replaceAll('"', '""')}"`), ""].join("\n");
  }

  // One cell stands for many rows here: what is said of it is read off its colour.
  async meaning(place, columns) {
    const level = this.first, start = Math.floor(place / 2 ** level);
    const codes = await this.window(
      { level, start, stop: start + 1, first: 0, last: columns.length, step: 1 });
    return columns.map((column, j) => {
      const about = column.kind === "number" && codes[j] !== 255 ? "about " : "";
      return about + meaningOf(column, this.table.cells.cuts[j], codes[j]);
    });
  }
}

// In a frame: the notebook around it carries questions and answers.
class ParentSource {
  constructor() {
    this.isLive = true;
    this.waiting = new Map();
    this.asked = 0;
    addEventListener("message", (event) => {
      if (event.source !== parent || !this.waiting.has(event.data?.id)) return;
      const { done, fail } = this.waiting.get(event.data.id);
      this.waiting.delete(event.data.id);
      if (event.data.wrong) fail(new Error(event.data.wrong));
      else done(event.data);
    });
  }

  question(path, body) {
    const id = ++this.asked;
    const answer = new Promise((done, fail) => this.waiting.set(id, { done, fail }));
    parent.postMessage({ id, path, body }, "*");
    return answer;
  }

  async bytes(path, body) { return new Uint8Array((await this.question(path, body)).bytes); }
  async ask(path, body) { return (await this.question(path, body)).value; }
  describe() { return this.ask("/describe", {}); }
  window(wanted) { return this.bytes("/window", wanted); }
  side(side, level, start, stop) { return this.bytes("/side", { side, level, start, stop }); }
}

const source = given === null ? new ServerSource()
  : given === "parent" ? new ParentSource() : new PageSource(given);

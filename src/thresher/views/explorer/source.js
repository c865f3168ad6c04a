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

class PageSource {
  constructor(table) {
    this.isLive = false;
    this.table = table;
    this.first = table.cells.first_level;
    this.levels = new Map();
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

  // One cell stands for many rows here: what is said of it is read off its colour.
  async meaning(place, columns) {
    const level = this.first, start = Math.floor(place / 2 ** level);
    const codes = await this.window(
      { level, start, stop: start + 1, first: 0, last: columns.length, step: 1 });
    return columns.map((column, j) => {
      if (codes[j] === 255) return "missing";
      if (column.kind === "category") return column.values[codes[j]] ?? "(other)";
      const cuts = this.table.cells.cuts[j];
      return cuts.length ? `about ${cuts[Math.min(codes[j], cuts.length - 1)]}` : "";
    });
  }
}

const source = given === null ? new ServerSource() : new PageSource(given);

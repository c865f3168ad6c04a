// The map and everything around it.

const $ = (id) => document.getElementById(id);
const SIDE = 26; // pixels of a strip beside the map
const CLASSES = 8;
const map = $("map"), heads = $("heads");
let about, view, bitmap = null, strips = [], ranges = [], cuts = [], asking = false, stale = false;
let selecting = false, drag = null, hovered = null, pictures = 0;
const pointers = new Map();

function say(text) { $("says").textContent = text; }

function attempt(promise) { return promise.catch((error) => say(error.message)); }

// ------------------------------------------------------------ geometry

const inset = () => about.sides.length * SIDE;
const wide = () => Math.max(map.clientWidth - inset(), 1);
const high = () => Math.max(map.clientHeight, 1);
const placeAt = (y) => Math.floor(view.top + (y / high()) * view.rows);
// Beside the map: after the last column, as names and values are told.
const columnAt = (x) => x < inset() ? about.columns.length + Math.floor(x / SIDE)
  : Math.floor(view.left + ((x - inset()) / wide()) * view.cols);
const yOf = (place) => ((place - view.top) / view.rows) * high();

function settle() {
  const n = about.rows, d = about.columns.length;
  view.rows = inside(view.rows, Math.min(4, n), n);
  view.cols = inside(view.cols, Math.min(2, d), d);
  view.top = inside(view.top, 0, n - view.rows);
  view.left = inside(view.left, 0, d - view.cols);
  redraw();
  refresh();
}

function wholeTable() {
  view = { top: 0, rows: about.rows, left: 0, cols: about.columns.length };
  settle();
}

function zoomRows(factor, y) {
  const share = y / high(), place = view.top + share * view.rows;
  view.rows = inside(view.rows * factor, Math.min(4, about.rows), about.rows);
  view.top = place - share * view.rows;
  settle();
}

function zoomColumns(factor, x) {
  const share = inside((x - inset()) / wide(), 0, 1), at = view.left + share * view.cols;
  view.cols = inside(view.cols * factor, 1, about.columns.length);
  view.left = at - share * view.cols;
  settle();
}

// ------------------------------------------------------------ pictures

// The old picture is stretched at once; what is really there replaces it when it has come.
async function refresh() {
  if (asking) { stale = true; return; }
  asking = true;
  try {
    do {
      stale = false;
      await fetchPicture();
      redraw();
    } while (stale);
  } catch (error) {
    say(error.message);
  }
  asking = false;
  document.body.dataset.pictures = ++pictures;
}

async function fetchPicture() {
  const finest = source.first ?? 0;
  // Never more cells than pixels: stretched ones are seen whole, squeezed ones would be skipped.
  const pixels = high() * (devicePixelRatio || 1);
  const level = inside(Math.ceil(Math.log2(view.rows / pixels)), finest, about.depth - 1);
  const size = 2 ** level, step = Math.max(1, Math.floor(view.cols / wide()));
  const start = Math.floor(view.top / size);
  const stop = Math.min(Math.ceil((view.top + view.rows) / size), Math.ceil(about.rows / size));
  const first = Math.floor(view.left);
  const last = Math.min(Math.ceil(view.left + view.cols), about.columns.length);
  const layer = $("layer").value;
  const [cells, ...sides] = await Promise.all([
    source.window({ level, start, stop, first, last, step, layer }),
    ...about.sides.map((_, k) => source.side(k, level, start, stop)),
  ]);
  const kinds = [];
  for (let j = first; j < last; j += step) {
    const group = about.columns.slice(j, Math.min(j + step, last));
    kinds.push(group.some((column) => column.kind === "number") ? "number" : "category");
  }
  const where = { top: start * size, rows: (stop - start) * size, left: first };
  bitmap = { ...where, cols: kinds.length * step, canvas: painted(cells, kinds, stop - start) };
  strips = sides.map((bytes, k) => ({ ...where, canvas: strip(bytes, k, stop - start) }));
  document.body.dataset.level = level;
}

function painted(cells, kinds, height) {
  const canvas = new OffscreenCanvas(Math.max(kinds.length, 1), Math.max(height, 1));
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Int32Array(image.data.buffer), width = kinds.length;
  kinds.forEach((kind, j) => {
    const colours = COLOURS[kind];
    for (let i = 0; i < height; i++) pixels[i * width + j] = colours[cells[j * height + i]];
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

// Classes are bars of their shares, one above the other from the left; a number is a colour.
function strip(bytes, side, height) {
  if (about.sides[side].kind === "number") return painted(bytes, ["number"], height);
  const canvas = new OffscreenCanvas(SIDE, Math.max(height, 1)), context = canvas.getContext("2d");
  for (let i = 0; i < height; i++) {
    let x = 0;
    for (let c = 0; c < CLASSES; c++) {
      const width = (bytes[c * height + i] / 255) * SIDE;
      context.fillStyle = css(TABLES.category[c]);
      context.fillRect(x, i, width, 1);
      x += width;
    }
    if (SIDE - x > 0.5) {
      context.fillStyle = css(TABLES.number[MISSING]);
      context.fillRect(x, i, SIDE - x, 1);
    }
  }
  return canvas;
}

function fitted(canvas) {
  const ratio = devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  return context;
}

function redraw() {
  const context = fitted(map);
  context.imageSmoothingEnabled = false;
  if (bitmap) {
    const across = wide() / view.cols, y = yOf(bitmap.top), height = (bitmap.rows / view.rows) * high();
    context.save();
    context.beginPath();
    context.rect(inset(), 0, wide(), high());
    context.clip();
    context.drawImage(bitmap.canvas, inset() + (bitmap.left - view.left) * across, y,
      bitmap.cols * across, height);
    context.restore();
    strips.forEach((one, k) => context.drawImage(one.canvas, k * SIDE, y, SIDE - 3, height));
  }
  const chosen = drag?.kind === "select" ? [...ranges, dragged()] : ranges;
  context.fillStyle = "rgba(0,0,0,0.22)";
  context.strokeStyle = "#000";
  for (const [start, stop] of chosen) {
    const y = yOf(start), height = Math.max(yOf(stop) - y, 1);
    context.fillRect(0, y, map.clientWidth, height);
    context.strokeRect(0.5, y, map.clientWidth - 1, height);
  }
  context.setLineDash([6, 3]);
  for (const place of cuts) {
    context.beginPath();
    context.moveTo(0, yOf(place));
    context.lineTo(map.clientWidth, yOf(place));
    context.stroke();
  }
  context.setLineDash([]);
  drawHeads();
}

function drawHeads() {
  const context = fitted(heads), across = wide() / view.cols, height = heads.clientHeight;
  const heaviest = about.columns.reduce((most, c) => Math.max(most, c.weight), 1e-300);
  const first = Math.floor(view.left), last = Math.min(Math.ceil(view.left + view.cols), about.columns.length);
  context.font = "11px system-ui, sans-serif";
  for (let j = first; j < last; j += Math.max(1, Math.floor(1 / across))) {
    const x = inset() + (j - view.left) * across, weight = about.columns[j].weight / heaviest;
    context.fillStyle = "#009E73";
    context.fillRect(x, height - 14 * weight, Math.max(across - 1, 1), 14 * weight);
    if (across < 11) continue;
    context.save();
    context.translate(x + Math.min(across / 2 + 4, 20), height - 18);
    context.rotate(-Math.PI / 3);
    context.fillStyle = "#222";
    context.fillText(about.columns[j].name.slice(0, 24), 0, 0);
    context.restore();
  }
}

// ------------------------------------------------------------ words

function cellsOf(words, tag = "td") {
  return words.map((word) => {
    const cell = document.createElement(tag);
    cell.textContent = cell.title = word;
    return cell;
  });
}

function rowOf(words, tag) {
  const row = document.createElement("tr");
  row.append(...cellsOf(words, tag));
  return row;
}

let pending = 0;
async function tell(place, column) {
  const ticket = ++pending;
  await new Promise((done) => setTimeout(done, 40));
  if (ticket !== pending || place < 0 || place >= about.rows) return;
  let row = null, values;
  if (source.isLive) {
    row = await source.ask("/row", { place });
    values = row.values;
  } else {
    values = await source.meaning(place, about.columns);
  }
  if (ticket !== pending) return;
  const names = [...about.columns.map((c) => c.name), ...about.sides.map((s) => s.name)];
  if (row) values = [...values, ...row.scores];
  const from = inside(column - 30, 0, Math.max(values.length - 60, 0));
  const here = inside(column, 0, values.length - 1);
  say((row ? `row ${row.row}, ` : `around place ${place + 1}, `) + `${names[here]}: ${values[here]}`);
  $("values").replaceChildren(...values.slice(from, from + 60).map((value, k) => {
    const line = rowOf([names[from + k], value]);
    if (from + k === here) line.className = "here";
    return line;
  }));
}

function legend() {
  const swatch = (colour, word) => {
    const item = document.createElement("span"), mark = document.createElement("canvas");
    mark.width = mark.height = 12;
    const context = mark.getContext("2d");
    context.fillStyle = css(colour);
    context.fillRect(0, 0, 12, 12);
    item.append(mark, word);
    return item;
  };
  const items = [swatch(TABLES.number[0], "low"), swatch(TABLES.number[127], "middle"),
    swatch(TABLES.number[254], "high"), swatch(TABLES.number[MISSING], "missing")];
  for (const side of about.sides)
    side.values.slice(0, CLASSES).forEach((value, c) =>
      items.push(swatch(TABLES.category[c], `${side.name}: ${c === CLASSES - 1 && side.values.length > CLASSES ? "(other)" : value}`)));
  $("legend").replaceChildren(...items);
}

function described() {
  document.title = $("title").textContent = about.title;
  const every = about.placed
    ? `, one in ${about.stride} of ${about.placed.toLocaleString()}: the others are placed beside them,`
      + " and their cells show all; values, summaries and tables are of the ordered ones, labels of all"
    : about.stride > 1 ? `, one row in ${about.stride} of a larger file` : "";
  const some = about.ordered_by < about.columns.length
    ? `; rows are ordered by ${about.ordered_by.toLocaleString()} of the columns` : "";
  const coarse = source.first ? `; the finest cell is ${2 ** source.first} rows` : "";
  say(`${about.rows.toLocaleString()} rows, ${about.columns.length.toLocaleString()} columns${every}${some}${coarse}`);
  $("order").replaceChildren(...about.orders.map((name) => new Option(name, name)));
  $("order").value = about.order;
  $("names").replaceChildren(...about.columns.slice(0, 1000).map((c) => new Option(c.name)));
  legend();
}

// ------------------------------------------------------------ selections

function dragged() {
  const [a, b] = [drag.from, drag.to].map((p) => inside(p, 0, about.rows - 1));
  return [Math.min(a, b), Math.max(a, b) + 1];
}

async function chosenChanged() {
  redraw();
  if (!ranges.length) {
    $("size").textContent = "Nothing is selected.";
    $("differs").replaceChildren();
  } else {
    const found = await source.ask("/summary", { ranges });
    $("size").textContent = `${found.rows.toLocaleString()} rows; most different columns first`;
    $("differs").replaceChildren(rowOf(["column", "difference", "here", "rest"], "th"),
      ...found.columns.slice(0, 30).map((c) => rowOf([c.name, c.effect.toFixed(2), c.here, c.rest])));
  }
  await scatter();
}

async function download(path, body, name) {
  const bytes = await source.bytes(path, body), link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function keep(name, kept) {
  const names = await source.ask("/name", { name, ranges: kept });
  $("kept").textContent = `kept: ${names.join(", ")}`;
}

async function scatter() {
  const numbers = ["x", "y"].map((id) => about.columns.findIndex((c) => c.name === $(id).value));
  if (numbers.includes(-1)) return;
  const bytes = await source.bytes("/points", { x: numbers[0], y: numbers[1], ranges });
  const canvas = $("points"), context = canvas.getContext("2d"), n = bytes.length / 3;
  context.clearRect(0, 0, canvas.width, canvas.height);
  for (const selected of [0, 1])
    for (let i = 0; i < n; i++) {
      if (bytes[2 * n + i] !== selected || bytes[i] === MISSING || bytes[n + i] === MISSING) continue;
      context.fillStyle = selected ? css(TABLES.category[1]) : "rgba(0,114,178,0.35)";
      context.fillRect((bytes[i] / 254) * (canvas.width - 3),
        (1 - bytes[n + i] / 254) * (canvas.height - 3), 3, 3);
    }
}

// ------------------------------------------------------------ hands

function wheel(event) {
  event.preventDefault();
  const factor = Math.exp(inside(event.deltaY, -200, 200) * 0.003);
  if (event.shiftKey) zoomColumns(factor, event.offsetX);
  else zoomRows(factor, event.offsetY);
}

function down(event) {
  map.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  if (pointers.size === 2) { drag = { kind: "pinch", apart: apart() }; return; }
  const place = placeAt(event.offsetY);
  const cut = cuts.findIndex((p) => Math.abs(yOf(p) - event.offsetY) < 5);
  if (cut >= 0) drag = { kind: "cut", cut };
  else if (selecting || event.shiftKey) drag = { kind: "select", from: place, to: place };
  else drag = { kind: "pan", x: event.offsetX, y: event.offsetY, top: view.top, left: view.left };
}

function apart() {
  const [a, b] = [...pointers.values()];
  return Math.max(Math.hypot(a[0] - b[0], a[1] - b[1]), 1);
}

function move(event) {
  if (!about) return;
  const x = event.offsetX, y = event.offsetY;
  if (pointers.has(event.pointerId)) pointers.set(event.pointerId, [x, y]);
  if (drag === null) {
    hovered = [placeAt(y), columnAt(x)];
    attempt(tell(...hovered));
  } else if (drag.kind === "pinch" && pointers.size === 2) {
    const [a, b] = [...pointers.values()], now = apart();
    zoomRows(drag.apart / now, (a[1] + b[1]) / 2);
    drag.apart = now;
  } else if (drag.kind === "cut") {
    cuts[drag.cut] = inside(placeAt(y), 1, about.rows - 1);
    redraw();
  } else if (drag.kind === "select") {
    drag.to = placeAt(y);
    redraw();
  } else if (drag.kind === "pan") {
    view.top = drag.top - ((y - drag.y) / high()) * view.rows;
    view.left = drag.left - ((x - drag.x) / wide()) * view.cols;
    settle();
  }
}

function up(event) {
  pointers.delete(event.pointerId);
  if (drag?.kind === "select") {
    ranges.push(dragged());
    drag = null;
    attempt(chosenChanged());
  }
  drag = null;
}

let mark = null;
function key(event) {
  const by = event.shiftKey ? 0.5 : 0.1, middle = Math.floor(view.top + view.rows / 2);
  const moves = {
    ArrowUp: () => { view.top -= by * view.rows; settle(); },
    ArrowDown: () => { view.top += by * view.rows; settle(); },
    ArrowLeft: () => { view.left -= by * view.cols; settle(); },
    ArrowRight: () => { view.left += by * view.cols; settle(); },
    PageUp: () => { view.top -= view.rows; settle(); },
    PageDown: () => { view.top += view.rows; settle(); },
    Home: () => { view.top = 0; settle(); },
    End: () => { view.top = about.rows; settle(); },
    "+": () => zoomRows(0.7, high() / 2),
    "=": () => zoomRows(0.7, high() / 2),
    "-": () => zoomRows(1 / 0.7, high() / 2),
    "]": () => zoomColumns(0.7, inset() + wide() / 2),
    "[": () => zoomColumns(1 / 0.7, inset() + wide() / 2),
    "0": wholeTable,
    Escape: () => { ranges = []; mark = null; attempt(chosenChanged()); },
    Enter: () => attempt(tell(middle, Math.floor(view.left + view.cols / 2))),
    s: () => {
      if (mark === null) {
        mark = middle;
        say(`selection begins at place ${middle + 1}: move, then press s again`);
      } else {
        ranges.push([Math.min(mark, middle), Math.max(mark, middle) + 1]);
        mark = null;
        attempt(chosenChanged());
      }
    },
  };
  if (!(event.key in moves) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  moves[event.key]();
}

async function find(event) {
  event.preventDefault();
  const after = Math.floor(view.top + view.rows / 2);
  const place = await source.ask("/find", { text: $("text").value, column: $("column").value, after });
  if (place === null) { say("not found"); return; }
  view.rows = Math.min(view.rows, 200);
  view.top = place - view.rows / 2 + 0.5;
  settle();
  await tell(place, Math.floor(view.left + view.cols / 2));
}

async function switchOrder() {
  say("ordering ...");
  about = await source.ask("/show", { order: $("order").value });
  ranges = [];
  cuts = [];
  described();
  await chosenChanged();
  wholeTable();
}

function pieces() {
  const edges = [0, ...[...cuts].sort((a, b) => a - b), about.rows];
  return edges.slice(1).map((stop, k) => [edges[k], stop]).filter(([a, b]) => a < b);
}

function connect() {
  map.addEventListener("wheel", wheel, { passive: false });
  map.addEventListener("pointerdown", down);
  map.addEventListener("pointermove", move);
  map.addEventListener("pointerup", up);
  map.addEventListener("pointercancel", up);
  map.addEventListener("keydown", key);
  heads.addEventListener("click", (event) => {
    const column = about.columns[columnAt(event.offsetX)];
    if (!column || !source.isLive) return;
    const name = `column ${column.name}`;
    if (![...$("order").options].some((o) => o.value === name)) $("order").append(new Option(name, name));
    $("order").value = name;
    attempt(switchOrder());
  });
  new ResizeObserver(settle).observe(map);
  const click = (id, act) => $(id).addEventListener("click", () => attempt((async () => act())()));
  $("layer").addEventListener("change", refresh);
  $("order").addEventListener("change", () => attempt(switchOrder()));
  $("finder").addEventListener("submit", (event) => attempt(find(event)));
  for (const id of ["x", "y"]) $(id).addEventListener("change", () => attempt(scatter()));
  click("whole", wholeTable);
  click("select", () => {
    selecting = !selecting;
    $("select").setAttribute("aria-pressed", selecting);
  });
  click("clear", () => { ranges = []; return chosenChanged(); });
  click("keep", () => keep($("name").value, ranges));
  click("csv", () => download("/export", { kind: "csv", ranges }, "rows.csv"));
  click("parquet", () => download("/export", { kind: "parquet", ranges }, "rows.parquet"));
  click("labels", () => download("/labels", {}, "labels.csv"));
  click("cut", async () => {
    cuts = await source.ask("/cuts", { clusters: Number($("count").value) });
    redraw();
  });
  click("adopt", async () => {
    for (const [k, piece] of pieces().entries()) await keep(`cluster ${k + 1}`, [piece]);
  });
  if (!source.isLive) {
    for (const id of ["csv", "parquet", "finder"]) $(id).hidden = true;
    for (const id of ["order", "layer"]) $(id).disabled = true;
  }
}

async function begin() {
  about = await source.describe();
  view = { top: 0, rows: about.rows, left: 0, cols: about.columns.length };
  described();
  $("x").value = about.columns[0].name;
  $("y").value = about.columns[Math.min(1, about.columns.length - 1)].name;
  connect();
  settle();
  await scatter();
}

attempt(begin());

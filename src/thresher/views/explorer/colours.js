// Red, green and blue of all codes, for numbers and for categories; the page's maker puts them here.

const MISSING = 255;
const TABLES = {{colours}};
const COLOURS = {};
for (const [kind, table] of Object.entries(TABLES))
  COLOURS[kind] = Int32Array.from(table, ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);

function css([r, g, b]) { return `rgb(${r},${g},${b})`; }

// Colours that colour-blind people can tell apart: numbers from blue by white to orange, categories
// by Okabe and Ito, and what is missing in the one dark grey.

const MISSING = 255;
const MISSING_COLOUR = [70, 70, 70];
const OKABE_ITO = [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233],
  [230, 159, 0], [240, 228, 66]];
const STOPS = [[5, 48, 97], [67, 147, 195], [247, 247, 247], [224, 130, 20], [127, 59, 8]];

function packed([r, g, b]) { return (255 << 24) | (b << 16) | (g << 8) | r; }

function between(a, b, share) { return a.map((v, k) => Math.round(v + (b[k] - v) * share)); }

function numberColour(code) {
  const at = (code / 254) * (STOPS.length - 1), k = Math.min(Math.floor(at), STOPS.length - 2);
  return between(STOPS[k], STOPS[k + 1], at - k);
}

// Every further round of seven categories is paler than the one before.
function categoryColour(code) {
  const round = Math.min(Math.floor(code / OKABE_ITO.length), 4);
  return between(OKABE_ITO[code % OKABE_ITO.length], [255, 255, 255], round * 0.18);
}

function table(colour) {
  const out = new Int32Array(256);
  for (let code = 0; code < MISSING; code++) out[code] = packed(colour(code));
  out[MISSING] = packed(MISSING_COLOUR);
  return out;
}

const COLOURS = { number: table(numberColour), category: table(categoryColour) };

function css([r, g, b]) { return `rgb(${r},${g},${b})`; }

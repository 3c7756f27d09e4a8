// Pictures of the page: the numbers of a vector, and what a mechanism keeps over epsilon.
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 12, 10, 34]; // margins
const HEIGHT = 240;
const LEVELS = [0, 0.25, 0.5, 0.75, 1];
const STRIP_HEIGHT = 48;
const LINES = [
  { field: 'named', label: 'the thief names', className: 'thief', mark: (x, y) => shape('circle', { cx: x, cy: y, r: 4 }) },
  { field: 'found', label: 'first answers on topic', className: 'search', mark: (x, y) => shape('rect', { x: x - 4, y: y - 4, width: 8, height: 8 }) },
];

function shape(name, attributes, text = '') {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.textContent = text;
  return made;
}

/** One bar a number, from the middle up or down; the largest fills the height. */
export function drawStrip(place, row) {
  const most = row.reduce((best, value) => Math.max(best, Math.abs(value)), 0) || 1;
  const middle = STRIP_HEIGHT / 2;
  place.setAttribute('viewBox', `0 0 ${row.length} ${STRIP_HEIGHT}`);
  place.setAttribute('preserveAspectRatio', 'none');
  const bars = [...row].map((value, i) => `M${i + 0.5} ${middle}V${(middle * (1 - value / most)).toFixed(1)}`);
  place.replaceChildren(shape('path', { d: bars.join('') }));
}

/** Shares by epsilon, with a line at the chosen one, as wide as `place`. */
export function drawCurves(place, points, chosen, percent) {
  const width = Math.max(280, place.clientWidth);
  const [first, last] = [0, 5]; // of log2 of epsilon
  const x = (epsilon) => LEFT + (width - LEFT - RIGHT) * (Math.log2(epsilon) - first) / (last - first);
  const y = (share) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
  const svg = shape('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: 'img', 'aria-label': 'What the thief names and what search finds, by epsilon; the table below has the numbers' });
  for (const level of LEVELS) {
    svg.append(shape('path', { d: `M${LEFT} ${y(level)}H${width - RIGHT}`, class: 'grid' }), shape('text', { x: LEFT - 6, y: y(level) + 4, class: 'end' }, percent(level)));
  }
  for (let power = first; power <= last; power += 1) svg.append(shape('text', { x: x(2 ** power), y: HEIGHT - 14, class: 'middle' }, 2 ** power));
  svg.append(shape('path', { d: `M${x(chosen)} ${TOP}V${HEIGHT - BOTTOM}`, class: 'chosen' }));
  for (const { field, className, mark } of LINES) {
    const path = points.map((point, i) => `${i === 0 ? 'M' : 'L'}${x(point.epsilon).toFixed(1)} ${y(point[field]).toFixed(1)}`).join('');
    const line = shape('g', { class: className });
    line.append(shape('path', { d: path }), ...points.map((point) => mark(x(point.epsilon), y(point[field]))));
    svg.append(line);
  }
  const legend = document.createElement('p');
  legend.className = 'legend';
  legend.append(...LINES.map(({ label, className, mark }) => {
    const item = document.createElement('span');
    const sign = shape('svg', { width: 14, height: 14, class: className, 'aria-hidden': 'true' });
    sign.append(mark(7, 7));
    item.append(sign, ` ${label}`);
    return item;
  }));
  place.replaceChildren(legend, svg);
}

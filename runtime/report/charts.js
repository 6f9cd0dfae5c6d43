// Building blocks of all charts: elements, number formatting, scales, axes and tooltips.

const data = JSON.parse(document.getElementById('data').textContent);

/// Creates an element with attributes and children. Strings become text nodes.
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function svg_element(name, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Numbers as text.

const without_zeros = (text) => (text.includes('.') && !text.includes('e') ? text.replace(/\.?0+$/, '') : text);

/// Formats a number with `digits` digits: "0.01235", "13.8k", "1.2e-5".
function number_text(value, digits = 4) {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 1e-3) return Number(value.toPrecision(digits)).toExponential().replace('e-', 'e−');
  for (const [suffix, unit] of [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]])
    if (size >= unit && size >= 1e4) return without_zeros((value / unit).toPrecision(digits)) + suffix;
  return Number.isInteger(value) ? String(value) : without_zeros(value.toPrecision(digits));
}

const BYTES = [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10], ['B', 1]];

function bytes_text(value) {
  if (value === null || value === undefined) return '–';
  const [name, unit] = BYTES.find(([, size]) => Math.abs(value) >= size) || BYTES[4];
  return `${number_text(value / unit)} ${name}`;
}

const percent_text = (value) => (value === null || value === undefined ? '–' : `${number_text(value * 100, 3)} %`);

/// "0.25 s", "2:05 min", "3:02:05 h"
function seconds_text(value) {
  if (value === null || value === undefined) return '–';
  if (value < 60) return `${number_text(value, 3)} s`;
  const total = Math.round(value), two = (number) => String(number).padStart(2, '0');
  const minutes = Math.floor(total / 60) % 60, hours = Math.floor(total / 3600);
  return hours ? `${hours}:${two(minutes)}:${two(total % 60)} h` : `${minutes}:${two(total % 60)} min`;
}

/// Units of the numbers of metrics.jsonl by name. Other numbers have no unit.
const UNITS = {
  loss: {unit: 'nats'},
  held_out_loss: {unit: 'nats'},
  router_loss: {unit: 'nats'},
  expert_load: {unit: 'max / mean'},
  tokens_per_second: {unit: 'tokens/s'},
  samples_per_second: {unit: 'samples/s'},
  seconds: {unit: 's', text: seconds_text},
  data_wait: {unit: 's', text: seconds_text},
  memory_peak: {unit: 'max over ranks', text: bytes_text, binary: true},
  mfu: {unit: 'of peak FLOPS', text: percent_text},
};
const get_unit = (name) => UNITS[name] || {};
const get_text = (name, value) => (get_unit(name).text || number_text)(value);

// Scales: map values to coordinates and choose the ticks of an axis.

function nice_step(span, count) {
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.9999);
}

function linear_scale(low, high, from, to, {count = 6, binary = false} = {}) {
  if (low === high) [low, high] = low === 0 ? [0, 1] : [low - Math.abs(low) * 0.1, high + Math.abs(high) * 0.1];
  const unit = binary ? (BYTES.find(([, size]) => Math.max(Math.abs(low), Math.abs(high)) >= size) || BYTES[4])[1] : 1;
  const step = nice_step((high - low) / unit, count) * unit, ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return {low, high, ticks, at: (value) => from + ((value - low) / (high - low)) * (to - from)};
}

function log_scale(low, high, from, to) {
  if (low === high) [low, high] = [low / 2, high * 2];
  const bottom = Math.log10(low), span = Math.log10(high) - bottom, ticks = [];
  const factors = span > 5 ? [1] : span > 1.4 ? [1, 3] : span > 0.6 ? [1, 2, 5] : null;
  if (!factors) ticks.push(...linear_scale(low, high, from, to).ticks);
  const stride = Math.ceil(span / 7);
  for (let power = Math.floor(bottom); factors && power <= bottom + span; ++power)
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * 0.9999 && value <= high * 1.0001 && (factors.length > 1 || power % stride === 0))
        ticks.push(value);
    }
  return {low, high, ticks, at: (value) => from + ((Math.log10(value) - bottom) / span) * (to - from)};
}

/// A categorical scale.
function choice_scale(choices, from, to) {
  const at = (choice) => from + ((choices.indexOf(choice) + 0.5) / choices.length) * (to - from);
  return {ticks: choices, at, choices: true};
}

/// A TOML value without the quotes of a string.
const plain = (value) => (value === null || value === undefined ? '–' : value.replace(/^(['"])(.*)\1$/, '$2'));

const short = (text, limit = 14) => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text);

/// Draws both axes with their ticks and labels. `frame` has left, right, top and bottom.
function axes(frame, x, y, {x_text = number_text, y_text = number_text, x_name = ''} = {}) {
  const group = svg_element('g');
  for (const tick of y.ticks) {
    const at = y.at(tick);
    group.append(svg_element('line', {class: 'grid-line', x1: frame.left, x2: frame.right, y1: at, y2: at}));
    group.append(svg_element('text', {x: frame.left - 6, y: at + 4, 'text-anchor': 'end'}, short(y_text(tick), 9)));
  }
  group.append(
      svg_element('line', {class: 'axis', x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom}));
  let free = -Infinity;  // end of the last label
  for (const tick of x.ticks) {
    const at = x.at(tick), name = short(x_text(tick)), half = name.length * 3.2;
    if (at - half < free + 6) continue;
    free = at + half;
    group.append(svg_element('line', {class: 'axis', x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 4}));
    group.append(svg_element(
        'text', {x: Math.min(at, frame.right + 8 - half), y: frame.bottom + 17, 'text-anchor': 'middle'}, name));
  }
  if (x_name) group.append(svg_element('text', {x: frame.right, y: frame.bottom + 32, 'text-anchor': 'end'}, x_name));
  return group;
}

/// Returns the plot area within a chart of the given size.
const get_frame = (width, height, {left = 50, bottom = 24} = {}) =>
    ({left, right: width - 8, top: 6, bottom: height - bottom});

const figures = [];

/// A chart that is redrawn for the available width. `draw(figure, width, tip)` returns the SVG element, or null if
/// there is nothing to draw.
function figure(caption, unit, draw, attributes = {}) {
  const tip = element('div', {class: 'tip', hidden: ''});
  const container = element(
      'figure', attributes, element('figcaption', {}, caption, ' ', element('span', {class: 'quiet'}, unit || '')),
      tip);
  const redraw = () => {
    const old = container.querySelector('svg'), width = Math.max(container.clientWidth - 24, 200);
    tip.hidden = true;
    const picture = draw(container, width, tip);
    if (old) old.remove();
    if (!picture) return;
    picture.setAttribute('role', 'img');
    picture.setAttribute('aria-label', `${caption} ${unit || ''}`);
    container.insertBefore(picture, tip);
  };
  figures.push(redraw);
  return container;
}

function redraw_all() {
  for (const redraw of figures) redraw();
}

let last_width = 0;
addEventListener('resize', () => {
  if (document.documentElement.clientWidth === last_width) return;
  last_width = document.documentElement.clientWidth;
  redraw_all();
});

/// Shows a tooltip at a position of the chart. Each line is [swatch or null, text, value].
function show_tip(tip, container, x, y, lines) {
  tip.replaceChildren(...lines.map(
      ([swatch, text, value]) =>
          element('div', {}, swatch, element('span', {}, text), value === undefined ? null : element('b', {}, value))));
  tip.hidden = false;
  const left = x + 24 + tip.offsetWidth > container.clientWidth ? Math.max(x - tip.offsetWidth, 4) : x + 26;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(y, 30)}px`;
}

/// Position of the pointer within the chart.
function pointer_position(picture, event) {
  const rect = picture.getBoundingClientRect();
  return [event.clientX - rect.left, event.clientY - rect.top];
}

/// A table. Columns are {name, number, sort}; cells are strings or elements. `order(row, column)` returns the sort key
/// used when a column header is clicked.
function table(columns, rows, {row_class = () => '', order = null, tall = false} = {}) {
  const body = element('tbody');
  const fill = (list) => body.replaceChildren(...list.map(
      (row) => element(
          'tr', {class: row_class(row)},
          ...columns.map(
              (column, i) => element(
                  'td', {class: (column.number ? 'number' : '') + (column.long ? ' long' : '')},
                  row.cells[i] ?? '')))));
  const heads = columns.map(
      (column) =>
          element('th', {class: (column.number ? 'number' : '') + (order ? ' sorts' : ''), scope: 'col'}, column.name));
  if (order)
    heads.forEach((head, i) => head.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      heads.forEach((other) => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const missing = (key) => key === null || key === undefined;
      fill([...rows].sort((row_a, row_b) => {
        const a = order(row_a, i), b = order(row_b, i);
        if (missing(a) || missing(b)) return missing(a) - missing(b);
        return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      }));
    }));
  fill(rows);
  return element(
      'div', {class: tall ? 'scroll tall' : 'scroll'},
      element('table', {}, element('thead', {}, element('tr', {}, ...heads)), body));
}

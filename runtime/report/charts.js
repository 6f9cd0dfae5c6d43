// What all pictures are made of: elements, numbers as text, scales, axes, and what a pointer shows.

const data = JSON.parse(document.getElementById('data').textContent);

/// An element with attributes and children; texts among them are shown as they are.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Numbers as text.

const without_zeros = (text) => (text.includes('.') && !text.includes('e') ? text.replace(/\.?0+$/, '') : text);

/// "0.01235", "13.8k", "1.2e-5", with so many digits.
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
  const whole = Math.round(value), two = (number) => String(number).padStart(2, '0');
  const minutes = Math.floor(whole / 60) % 60, hours = Math.floor(whole / 3600);
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)} h` : `${minutes}:${two(whole % 60)} min`;
}

/// Units of what metrics.jsonl has by name, beside those without.
const UNITS = {
  loss: {unit: 'nats'},
  val_loss: {unit: 'nats'},
  router_loss: {unit: 'nats'},
  expert_load: {unit: 'most chosen / mean'},
  tokens_per_second: {unit: 'tokens/s'},
  samples_per_second: {unit: 'samples/s'},
  seconds: {unit: 's', text: seconds_text},
  data_wait: {unit: 's', text: seconds_text},
  memory_peak: {unit: 'of the fullest rank', text: bytes_text, binary: true},
  mfu: {unit: 'of the devices\' peak', text: percent_text},
};
const get_unit = (name) => UNITS[name] || {};
const get_text = (name, value) => (get_unit(name).text || number_text)(value);

// Scales: where a value lies between two places of the picture, and which values the axis names.

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

/// Values that stand beside each other without an order of size.
function choice_scale(choices, from, to) {
  const at = (choice) => from + ((choices.indexOf(choice) + 0.5) / choices.length) * (to - from);
  return {ticks: choices, at, choices: true};
}

/// A value of TOML without the quotes of a text.
const plain = (value) => (value === null || value === undefined ? '–' : value.replace(/^(['"])(.*)\1$/, '$2'));

const short = (text, most = 14) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/// Lines and numbers of both axes. `frame` has left, right, top and bottom.
function axes(frame, x, y, {x_text = number_text, y_text = number_text, x_name = ''} = {}) {
  const group = drawn('g');
  for (const tick of y.ticks) {
    const at = y.at(tick);
    group.append(drawn('line', {class: 'grid-line', x1: frame.left, x2: frame.right, y1: at, y2: at}));
    group.append(drawn('text', {x: frame.left - 6, y: at + 4, 'text-anchor': 'end'}, short(y_text(tick), 9)));
  }
  group.append(drawn('line', {class: 'axis', x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom}));
  let free = -Infinity;  // where the last name ends
  for (const tick of x.ticks) {
    const at = x.at(tick), name = short(x_text(tick)), half = name.length * 3.2;
    if (at - half < free + 6) continue;
    free = at + half;
    group.append(drawn('line', {class: 'axis', x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 4}));
    group.append(
        drawn('text', {x: Math.min(at, frame.right + 8 - half), y: frame.bottom + 17, 'text-anchor': 'middle'}, name));
  }
  if (x_name) group.append(drawn('text', {x: frame.right, y: frame.bottom + 32, 'text-anchor': 'end'}, x_name));
  return group;
}

/// Where a picture of that size has its axes.
const get_frame = (width, height, {left = 50, bottom = 24} = {}) =>
    ({left, right: width - 8, top: 6, bottom: height - bottom});

const figures = [];

/// A picture that is drawn for the width it has: `draw(figure, width, tip)` returns the SVG element, or null where
/// there is nothing to draw.
function figure(caption, unit, draw, attributes = {}) {
  const tip = element('div', {class: 'tip', hidden: ''});
  const made = element(
      'figure', attributes, element('figcaption', {}, caption, ' ', element('span', {class: 'quiet'}, unit || '')),
      tip);
  const redraw = () => {
    const old = made.querySelector('svg'), width = Math.max(made.clientWidth - 24, 200);
    tip.hidden = true;
    const picture = draw(made, width, tip);
    if (old) old.remove();
    if (!picture) return;
    picture.setAttribute('role', 'img');
    picture.setAttribute('aria-label', `${caption} ${unit || ''}`);
    made.insertBefore(picture, tip);
  };
  figures.push(redraw);
  return made;
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

/// Shows lines beside a place of the picture. Each is [swatch or null, text, value].
function show_tip(tip, made, x, y, lines) {
  tip.replaceChildren(...lines.map(
      ([swatch, text, value]) =>
          element('div', {}, swatch, element('span', {}, text), value === undefined ? null : element('b', {}, value))));
  tip.hidden = false;
  const left = x + 24 + tip.offsetWidth > made.clientWidth ? Math.max(x - tip.offsetWidth, 4) : x + 26;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(y, 30)}px`;
}

/// The place of a pointer within the picture.
function place_in(picture, event) {
  const slice = picture.getBoundingClientRect();
  return [event.clientX - slice.left, event.clientY - slice.top];
}

/// A table; columns are {name, number, sort}, a cell a text or an element. `order(row, column)` tells by what rows are
/// sorted when a column's name is clicked.
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
      fill([...rows].sort((one, other) => {
        const a = order(one, i), b = order(other, i);
        if (missing(a) || missing(b)) return missing(a) - missing(b);
        return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      }));
    }));
  fill(rows);
  return element(
      'div', {class: tall ? 'scroll tall' : 'scroll'},
      element('table', {}, element('thead', {}, element('tr', {}, ...heads)), body));
}

// The runs section: a summary table, and every number over the steps.

const COLOURS = 7;
const shown_runs = data.runs.map(() => true);
const view = {
  smoothing: 0,
  log: false
};

const get_colour = (run) => `var(--c${run % COLOURS})`;
const get_dashes = (run) => ['', '6 3', '2 3', '8 3 2 3'][Math.floor(run / COLOURS) % 4];

function get_swatch(run) {
  const picture = svg_element('svg', {viewBox: '0 0 18 8', class: 'swatch', 'aria-hidden': 'true'});
  picture.append(svg_element('line', {
    x1: 0,
    x2: 18,
    y1: 4,
    y2: 4,
    'stroke-width': 3,
    'stroke-dasharray': get_dashes(run),
    style: `stroke: ${get_colour(run)}`
  }));
  return picture;
}

/// Exponential moving average with bias correction.
function smoothed(values, weight) {
  let sum = 0, total = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

/// SVG path through points, with gaps at missing values and, on a log axis, at values that are not positive.
function path_to(steps, values, x, y, log) {
  let text = '', is_down = false;
  for (let i = 0; i < steps.length; ++i) {
    const value = values[i];
    if (value === null || (log && value <= 0)) {
      is_down = false;
      continue;
    }
    text += `${is_down ? 'L' : 'M'}${x.at(steps[i]).toFixed(1)} ${y.at(value).toFixed(1)}`;
    is_down = true;
  }
  return text;
}

/// SVG path of the area between the minimum and maximum of each bucket of a downsampled series.
function get_band(series, x, y, log) {
  const edges = [];
  let i = 0;
  for (const end of series.mean_steps) {
    const values = [];
    for (; i < series.steps.length && series.steps[i] <= end; ++i)
      if (series.values[i] !== null && !(log && series.values[i] <= 0)) values.push(series.values[i]);
    if (values.length)
      edges.push([x.at(end).toFixed(1), y.at(Math.max(...values)).toFixed(1), y.at(Math.min(...values)).toFixed(1)]);
  }
  const forth = edges.map(([at, top]) => `${at} ${top}`),
        back = edges.map(([at, , bottom]) => `${at} ${bottom}`).reverse();
  return edges.length ? `M${[...forth, ...back].join('L')}Z` : '';
}

function nearest(steps, step) {
  let low = 0, high = steps.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] <= step)
      low = middle;
    else
      high = middle;
  }
  return Math.abs(steps[low] - step) <= Math.abs(steps[high] - step) ? low : high;
}

/// Chart of one number of all runs; `curves` are [run, series].
function curves_figure(name, curves) {
  const draw = (container, width, tip) => {
    const height = 210, frame = get_frame(width, height);
    const visible = curves.filter(([run]) => shown_runs[run]);
    const all = visible.flatMap(([, series]) => series.values.filter((value) => value !== null));
    const log = view.log && all.some((value) => value > 0);
    const counted = log ? all.filter((value) => value > 0) : all;
    const picture = svg_element('svg', {viewBox: `0 0 ${width} ${height}`, height});
    if (!counted.length) {
      picture.append(
          svg_element('text', {x: frame.left, y: 40}, visible.length ? 'no finite value' : 'no run is shown'));
      return picture;
    }
    const extreme = (pick, list) => list.reduce((a, b) => pick(a, b));
    const steps = visible.flatMap(([, series]) => [series.steps[0], series.steps.at(-1)]);
    const [low, high] = [extreme(Math.min, counted), extreme(Math.max, counted)];
    const x = linear_scale(extreme(Math.min, steps), extreme(Math.max, steps), frame.left, frame.right);
    x.ticks = x.ticks.filter(Number.isInteger);
    const room = log ? 0 : (high - low) * 0.04;
    const y = (log ? log_scale : linear_scale)(
        low - room, high + room, frame.bottom, frame.top, {binary: get_unit(name).binary});
    picture.append(axes(frame, x, y, {y_text: (value) => get_text(name, value)}));
    for (const [run, series] of visible) {
      const path = (kind, d) => picture.append(svg_element('path', {
        class: kind,
        d,
        style: kind === 'band' ? `fill: ${get_colour(run)}; stroke: ${get_colour(run)}` : `stroke: ${get_colour(run)}`,
        'stroke-dasharray': kind === 'band' ? '' : get_dashes(run),
        'data-run': data.runs[run].name,
        'data-name': name
      }));
      for (const event of data.runs[run].events)
        if (event.step >= x.low && event.step <= x.high)
          picture.append(svg_element(
              'line', {
                class: 'event',
                x1: x.at(event.step),
                x2: x.at(event.step),
                y1: frame.top,
                y2: frame.bottom,
                style: `stroke: ${get_colour(run)}`
              },
              svg_element('title', {}, `${data.runs[run].name}: ${event.text}`)));
      const over_all = series.means || series.values, steps_over_all = series.mean_steps || series.steps;
      if (series.means)
        path('band', get_band(series, x, y, log));
      else if (view.smoothing > 0)
        path('curve raw', path_to(series.steps, series.values, x, y, log));
      path(
          'curve',
          path_to(steps_over_all, view.smoothing > 0 ? smoothed(over_all, view.smoothing) : over_all, x, y, log));
      if (series.steps.length <= 30)
        series.steps.forEach((step, i) => {
          if (series.values[i] !== null && !(log && series.values[i] <= 0))
            picture.append(svg_element(
                'circle', {cx: x.at(step), cy: y.at(series.values[i]), r: 2.2, style: `fill: ${get_colour(run)}`}));
        });
    }
    const cross = svg_element('line', {class: 'cross', y1: frame.top, y2: frame.bottom, visibility: 'hidden'});
    picture.append(cross);
    const hide = () => {
      tip.hidden = true;
      cross.setAttribute('visibility', 'hidden');
    };
    picture.addEventListener('pointerleave', hide);
    picture.addEventListener('pointermove', (event) => {
      const [at, top] = pointer_position(picture, event);
      const pointed = x.low +
          ((Math.min(Math.max(at, frame.left), frame.right) - frame.left) / (frame.right - frame.left)) *
              (x.high - x.low);
      const found = visible.map(([run, series]) => {
        const [list, values] = series.means ? [series.mean_steps, series.means] : [series.steps, series.values],
                     i = nearest(list, pointed);
        return {run, step: list[i], value: values[i], is_mean: Boolean(series.means)};
      });
      const {step} = found.reduce((a, b) => Math.abs(a.step - pointed) <= Math.abs(b.step - pointed) ? a : b),
            where = x.at(step);
      cross.setAttribute('x1', where), cross.setAttribute('x2', where), cross.setAttribute('visibility', 'visible');
      // Other runs show their nearest point: evaluations need not be at the same steps.
      const lines = found.filter((point) => Math.abs(point.step - step) <= (x.high - x.low) / 50)
                        .map(
                            (point) =>
                                [get_swatch(point.run),
                                 data.runs[point.run].name + (point.step === step ? '' : ` (${point.step})`),
                                 `${get_text(name, point.value)}${point.is_mean ? ' (mean)' : ''}`]);
      show_tip(tip, container, where, top, [[null, `step ${step}`], ...lines]);
    });
    return picture;
  };
  return figure(name, get_unit(name).unit, draw);
}

/// Groups of charts. Other numbers of steps and evaluations follow the first two of the first group.
const GROUPS = [
  ['Training', ['loss', 'held_out_loss', 'grad_norm', 'lr']],
  ['Experts', ['router_loss', 'expert_load']],
  [
    'Speed and memory',
    ['tokens_per_second', 'samples_per_second', 'seconds', 'data_wait', 'mfu', 'memory_peak', 'samples']
  ],
];

/// Returns [[group, [[name, [[run, series], …]], …]], …] for all runs.
function curves_by_group() {
  const found = new Map(), [learning, ...others] = GROUPS;
  data.runs.forEach((run, i) => {
    for (const series of [...run.steps, ...run.evaluations]) {
      if (!found.has(series.name)) found.set(series.name, []);
      found.get(series.name).push([i, series]);
    }
  });
  const known = new Set(GROUPS.flatMap(([, names]) => names)),
        further = [...found.keys()].filter((name) => !known.has(name)).sort();
  const names = [...learning[1].slice(0, 2), ...further, ...learning[1].slice(2)];
  return [[learning[0], names], ...others]
      .map(([group, list]) => [group, list.filter((name) => found.has(name)).map((name) => [name, found.get(name)])])
      .filter(([, list]) => list.length);
}

function controls() {
  const legend = element('div', {class: 'legend'}, ...data.runs.map((run, i) => {
    const button = element(
        'button', {type: 'button', 'aria-pressed': 'true', title: run.folder}, get_swatch(i),
        element('span', {}, run.name));
    button.addEventListener('click', () => {
      shown_runs[i] = !shown_runs[i];
      button.setAttribute('aria-pressed', String(shown_runs[i]));
      redraw_all();
    });
    return button;
  }));
  const slider = element('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: 0}),
        output = element('output', {}, '0');
  slider.addEventListener('input', () => {
    view.smoothing = Number(slider.value);
    output.textContent = slider.value;
    redraw_all();
  });
  const log = element('input', {type: 'checkbox'});
  log.addEventListener('change', () => {
    view.log = log.checked;
    redraw_all();
  });
  return element(
      'div', {class: 'controls'}, legend,
      element('label', {title: 'exponential moving average'}, 'smoothing', slider, output),
      element('label', {}, log, 'log scale'));
}

const state_for = (run) => run.stopped_by ? `stopped by ${run.stopped_by}` : run.ended ? 'ended' : 'running or failed';
const PARTS = [
  ['computing', 'steps'], ['waiting', 'waiting for data'], ['between', 'evaluations, checkpoints, samples'],
  ['before_steps', 'before the first step']
];
const to_seconds = (run) => PARTS.reduce((sum, [part]) => sum + run.time[part], 0);

function runs_table() {
  const columns = [
    {name: 'run'}, {name: 'entry'}, {name: 'mesh'}, {name: 'parameters', number: true}, {name: 'steps', number: true},
    {name: 'validation loss', number: true}, {name: 'best', number: true}, {name: 'at step', number: true},
    {name: 'tokens/s', number: true}, {name: 'memory peak', number: true}, {name: 'time', number: true}, {name: 'state'}
  ];
  const rows = data.runs.map(
      (run, i) => ({
        cells: [
          element('span', {title: run.folder}, get_swatch(i), run.name), plain(run.entry), run.mesh || '–',
          number_text(run.parameters, 3), `${run.last_step ?? 0}${run.planned ? ` / ${run.planned}` : ''}`,
          number_text(run.last_loss, 5), number_text(run.best_loss, 5), run.best_step ?? '–',
          number_text(run.tokens_per_second), bytes_text(run.memory_peak), seconds_text(to_seconds(run)), state_for(run)
        ],
        keys: [
          run.name, run.entry, run.mesh, run.parameters, run.last_step, run.last_loss, run.best_loss, run.best_step,
          run.tokens_per_second, run.memory_peak, to_seconds(run), state_for(run)
        ],
      }));
  return table(columns, rows, {order: (row, column) => row.keys[column]});
}

function differences_table() {
  const columns = [{name: 'config key'}, ...data.runs.map((run) => ({name: run.name}))];
  const rows = data.differences.map(
      (setting) => ({
        cells: [
          element('code', {}, setting.key),
          ...setting.values.map((value) => element('code', {title: value ?? ''}, short(plain(value), 40)))
        ]
      }));
  return table(columns, rows);
}

function times_of_runs() {
  const longest = Math.max(...data.runs.map(to_seconds), 1e-9);
  const bars = data.runs.flatMap(
      (run) =>
          [element('span', {class: 'name', title: run.name}, run.name),
           element(
               'div', {class: 'parts'},
               ...PARTS.map(([part, name], i) => element('div', {
                              'data-part': part,
                              style: `width: ${(100 * run.time[part]) / longest}%; background: var(--part${i})`,
                              title: `${name}: ${seconds_text(run.time[part])}, ${
                                  percent_text(run.time[part] / Math.max(to_seconds(run), 1e-9))}`
                            }))),
           element('span', {class: 'total'}, seconds_text(to_seconds(run)))]);
  const keys = PARTS.map(
      ([, name], i) =>
          element('span', {}, element('i', {class: 'swatch', style: `background: var(--part${i})`}), name));
  return [element('div', {class: 'keys'}, ...keys), element('div', {class: 'times'}, ...bars)];
}

function samples_of_runs() {
  return data.runs.filter((run) => run.samples.length)
      .map(
          (run) => element(
              'details', {}, element('summary', {}, `Samples of ${run.name}`),
              ...run.samples.flatMap(
                  (sample) =>
                      [element('div', {class: 'quiet'}, `after step ${sample.step}`),
                       element('pre', {}, sample.text)])));
}

function runs_section() {
  if (!data.runs.length) return [];
  const groups = curves_by_group(), all = data.runs.flatMap((run) => [...run.steps, ...run.evaluations]);
  return [
    element('h2', {}, data.runs.length === 1 ? 'Run' : 'Runs'),
    runs_table(),
    controls(),
    ...groups.flatMap(
        ([group, curves]) =>
            [element('h3', {}, group, ' ', element('span', {class: 'quiet'}, 'over steps')),
             element('div', {class: 'grid'}, ...curves.map(([name, list]) => curves_figure(name, list)))]),
    ...(all.some((series) => series.points > series.steps.length) ?
            [element(
                'p', {class: 'quiet'},
                'Long curves are downsampled: the line shows the mean of each bucket of steps, ' +
                    'the band its minimum and maximum.')] :
            []),
    element('h3', {}, 'Time breakdown'),
    ...times_of_runs(),
    ...(data.differences.length ? [element('h3', {}, 'Config differences'), differences_table()] : []),
    ...samples_of_runs(),
  ];
}
